//! `deliveries` and `workflows`: lists of deliveries, page by page.

pub(crate) mod args;
pub(crate) mod view;

use api::commands::readings;
use api::queries::listing::{self, DeliveriesThen, DeliveryListQuery};
use api::{AuditAccess, Service};
use projector::deliveries::DeliveryRow;
use service::{StorageSettings, System};
use uuid::Uuid;

use self::args::{DeliveriesCommand, DeliveryListArgs, DeliveryShowArgs, WorkflowsCommand};
use self::view::{BodyErasure, delivery_json, delivery_then, pause_by_delivery};
use crate::answers::why::WhyDeliveryArgs;
use crate::answers::{self, why};
use crate::archive::note_archived;
use crate::databases;
use crate::failure::terminal_error;
use crate::names::{self, NamedKind};
use crate::output::{Column, ListTable, OutputArgs};
use crate::pauses;

const DELIVERIES: ListTable = ListTable::new(
    &[
        Column::id("id"),
        Column::state("state"),
        Column::id("trigger"),
        Column::time("created_at"),
        Column::id("hook_id"),
        Column::id("paused"),
    ],
    "no such deliveries",
);

const DELIVERIES_THEN: ListTable = ListTable::new(
    &[
        Column::id("id"),
        Column::state("state"),
        Column::id("trigger"),
        Column::time("created_at"),
        Column::id("hook_id"),
        Column::text("erased"),
    ],
    "no deliveries then",
);

const STEPS: ListTable = ListTable::new(
    &[
        Column::id("id"),
        Column::state("state"),
        Column::id("trigger"),
        Column::time("created_at"),
        Column::id("run_id"),
        Column::id("step_id"),
        Column::id("paused"),
    ],
    "no such deliveries of workflow steps",
);

pub(crate) async fn run(
    storage: &StorageSettings,
    command: DeliveriesCommand,
) -> anyhow::Result<()> {
    let mut system = databases::open(storage).await?;
    if let DeliveriesCommand::Show(DeliveryShowArgs { archive, .. })
    | DeliveriesCommand::Why(WhyDeliveryArgs { archive, .. }) = &command
    {
        let archive = archive.open()?;
        system.service.audit = AuditAccess::new(Some(storage.notary()), archive);
    }
    run_on_system(&system, command).await?;
    system.stop().await
}

async fn run_on_system(system: &System, command: DeliveriesCommand) -> anyhow::Result<()> {
    match command {
        DeliveriesCommand::List(asked) => list_deliveries(system, asked).await?,
        DeliveriesCommand::Pause(asked) => pauses::pause(&system.service, asked).await?,
        DeliveriesCommand::Resume(asked) => pauses::resume(&system.service, asked).await?,
        DeliveriesCommand::Paused(output) => pauses::list(&system.service, output).await?,
        DeliveriesCommand::Show(asked) => answers::show_delivery(&system.service, asked).await?,
        DeliveriesCommand::Why(asked) => why::explain_delivery(&system.service, asked).await?,
        DeliveriesCommand::Export(asked) => answers::export(&system.service, asked).await?,
    }
    Ok(())
}

async fn list_deliveries(system: &System, list: DeliveryListArgs) -> anyhow::Result<()> {
    let service = &system.service;
    let now = service.clock.now();
    let firm = names::find_id(system.main_pool(), NamedKind::Firm, &list.firm).await?;
    let hook = names::id_of_any(system.main_pool(), NamedKind::Hook, list.hook.as_deref()).await?;
    let asked = list.filter.list_query(hook, now)?;
    record_reading(service, firm, &asked).await?;
    if let Some(as_of) = names::as_of(list.as_of, now) {
        let asked = DeliveryListQuery { as_of: Some(as_of.to_string()), ..asked };
        return list_then(service, firm, &asked, list.json).await;
    }
    let page = listing::deliveries(service, firm, &asked).await.map_err(terminal_error)?;
    let holding = pause_by_delivery(service, firm, &page.rows).await?;
    let items = page.rows.iter().map(|row| delivery_json(row, &holding)).collect();
    DELIVERIES.print(list.json, items);
    note_archived(Some(firm), page.ends_at());
    Ok(())
}

/// Records the reading before any delivery is shown.
async fn record_reading(
    service: &Service,
    firm: Uuid,
    asked: &DeliveryListQuery,
) -> anyhow::Result<()> {
    readings::record(service, firm, service.operator(), asked.reading_details())
        .await
        .map_err(terminal_error)
}

async fn list_then(
    service: &Service,
    firm: Uuid,
    asked: &DeliveryListQuery,
    json: OutputArgs,
) -> anyhow::Result<()> {
    let DeliveriesThen { rows, erased, archived_before } =
        listing::deliveries_then(service, firm, asked).await.map_err(terminal_error)?;
    let then = |row: &DeliveryRow| {
        let is_erased = erased.contains(&row.response_id);
        delivery_then(row, if is_erased { BodyErasure::Erased } else { BodyErasure::Kept })
    };
    let items = rows.iter().map(then).collect();
    DELIVERIES_THEN.print(json, items);
    note_archived(Some(firm), archived_before);
    Ok(())
}

pub(crate) async fn list_workflow_steps(
    storage: &StorageSettings,
    WorkflowsCommand::List(list): WorkflowsCommand,
) -> anyhow::Result<()> {
    let system = databases::open(storage).await?;
    let service = &system.service;
    let firm = names::find_id(system.main_pool(), NamedKind::Firm, &list.firm).await?;
    let asked = list.filter.list_query(None, service.clock.now())?;
    record_reading(service, firm, &asked).await?;
    let page = listing::steps(service, firm, &asked).await.map_err(terminal_error)?;
    let holding = pause_by_delivery(service, firm, &page.rows).await?;
    let items = page.rows.iter().map(|row| delivery_json(row, &holding)).collect();
    STEPS.print(list.json, items);
    note_archived(Some(firm), page.ends_at());
    system.stop().await
}
