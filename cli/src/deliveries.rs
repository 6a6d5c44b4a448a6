//! `deliveries` and `workflows`: lists of deliveries, page by page.

use std::collections::HashMap;

use api::Service;
use api::commands::{self, readings};
use api::queries::listing::{self, DeliveryListQuery};
use clap::{Args, Subcommand};
use domain::audit::{AuditPeriod, BackwardPeriod};
use domain::delivery::{Attempt, DeliveryState, Hop};
use domain::subscription::Trigger;
use domain::values::{Timestamp, When};
use explain::moment::PastMoment;
use projector::deliveries::DeliveryRow;
use serde_json::{Value, json};
use service::{StorageSettings, System};
use uuid::Uuid;

use crate::answers::{self, why};
use crate::args::DeliveriesCommand;
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

/// The arguments of `deliveries list`.
#[derive(Debug, Args)]
pub(crate) struct DeliveryListArgs {
    /// The firm: its id, the beginning of its id, or its name.
    #[arg(long)]
    firm: String,
    /// Only deliveries of this subscription: its id, or the beginning of its id.
    #[arg(long)]
    hook: Option<String>,
    #[command(flatten)]
    filter: DeliveryFilterArgs,
    /// Their state at a position of the log, or at a time (2026-11-01, 2h); with --limit alone.
    #[arg(long)]
    as_of: Option<PastMoment>,
    #[command(flatten)]
    json: OutputArgs,
}

/// The commands of workflow steps.
#[derive(Debug, Subcommand)]
pub(crate) enum WorkflowsCommand {
    /// List the deliveries of workflow steps, newest first.
    List(WorkflowListArgs),
}

#[derive(Debug, Args)]
pub(crate) struct WorkflowListArgs {
    /// The firm: its id, the beginning of its id, or its name.
    #[arg(long)]
    firm: String,
    #[command(flatten)]
    filter: DeliveryFilterArgs,
    #[command(flatten)]
    json: OutputArgs,
}

#[derive(Debug, Args)]
struct DeliveryFilterArgs {
    /// Only deliveries of this trigger.
    #[arg(long)]
    trigger: Option<Trigger>,
    /// Only deliveries that are `pending`, `delivered`, `failed` or `cancelled`.
    #[arg(long)]
    state: Option<DeliveryState>,
    /// Only deliveries queued at this time or later: 2026-11-01, 2026-11-01T09:30:00Z, 2h or
    /// yesterday.
    #[arg(long)]
    since: Option<When>,
    /// Only deliveries queued before this time.
    #[arg(long)]
    until: Option<When>,
    /// Only deliveries after this one: the last one of the page before.
    #[arg(long)]
    after: Option<Uuid>,
    /// The most deliveries to list, up to 500.
    #[arg(long, default_value_t = listing::LIST_LIMIT_DEFAULT)]
    limit: i64,
}

impl DeliveryFilterArgs {
    fn list_query(
        self,
        hook_id: Option<Uuid>,
        now: Timestamp,
    ) -> Result<DeliveryListQuery, BackwardPeriod> {
        let AuditPeriod { since, until } = names::past_period(self.since, self.until, now)?;
        Ok(DeliveryListQuery {
            hook_id,
            trigger: self.trigger.map(|trigger| trigger.key().to_owned()),
            state: self.state,
            since,
            until,
            after: self.after,
            limit: Some(self.limit),
            as_of: None,
        })
    }
}

pub(crate) async fn run(
    storage: &StorageSettings,
    command: DeliveriesCommand,
) -> anyhow::Result<()> {
    let system = databases::open(storage).await?;
    run_on_system(&system, command).await?;
    system.stop().await
}

async fn run_on_system(system: &System, command: DeliveriesCommand) -> anyhow::Result<()> {
    match command {
        DeliveriesCommand::List(asked) => list_deliveries(system, asked).await?,
        DeliveriesCommand::Pause(asked) => pauses::pause(&system.service, asked).await?,
        DeliveriesCommand::Resume(asked) => pauses::resume(&system.service, asked).await?,
        DeliveriesCommand::Paused(json) => pauses::list(&system.service, json).await?,
        DeliveriesCommand::Show(asked) => answers::show_delivery(&system.service, asked).await?,
        DeliveriesCommand::Why(asked) => why::explain_delivery(&system.service, asked).await?,
        DeliveriesCommand::Export(asked) => answers::export(&system.service, asked).await?,
    }
    Ok(())
}

/// Whether the body of a delivery is erased by now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BodyErasure {
    Kept,
    Erased,
}

/// A past state of a delivery. A body that is erased by now shows as erased in every past state.
pub(crate) fn delivery_then(row: &DeliveryRow, erasure: BodyErasure) -> Value {
    let mut shown = delivery_json(row, &HashMap::new());
    shown["erased"] = (erasure == BodyErasure::Erased).into();
    shown
}

/// The pause that holds each of these deliveries, if one does.
pub(crate) async fn pause_by_delivery(
    service: &Service,
    firm_id: Uuid,
    rows: &[DeliveryRow],
) -> anyhow::Result<HashMap<Uuid, Uuid>> {
    commands::pauses::holding_pauses(service, firm_id, rows).await.map_err(terminal_error)
}

pub(crate) fn delivery_json(row: &DeliveryRow, holding: &HashMap<Uuid, Uuid>) -> Value {
    json!({
        "id": row.delivery_id, "hook_id": row.hook_id, "run_id": row.run_id,
        "step_id": row.step_id, "trigger": row.trigger,
        "form_id": row.form_id, "response_id": row.response_id, "state": row.state,
        "cause": row.cause, "created_at": Timestamp::from(row.created_at),
        "next_try_at": row.next_try_at.map(Timestamp::from), "body_sha256": row.body_sha256,
        "reissue_of": row.reissue_of, "paused": holding.get(&row.delivery_id),
    })
}

/// An attempt as a sentence: `try 1: delivered 204 at …, 77 ms after its claim`.
pub(crate) fn attempt_sentence(attempt: &Attempt) -> String {
    let took = (attempt.finished_at.get() - attempt.started_at.get()).num_milliseconds();
    let status = attempt.status.map(|status| format!(" {status}"));
    let error = attempt.error.as_ref().map(|error| format!(" ({error})"));
    let late = attempt.late.map(|_| ", after its lease had ended");
    format!(
        "try {}: {}{}{} at {}, {took} ms after its claim{}{}",
        attempt.number,
        attempt.outcome.name(),
        status.unwrap_or_default(),
        error.unwrap_or_default(),
        attempt.started_at,
        late.unwrap_or_default(),
        hops_text(&attempt.hops),
    )
}

/// The address that was dialled, and the redirects after it.
fn hops_text(hops: &[Hop]) -> String {
    let hop = |hop: &Hop| {
        let place = [hop.url.as_deref(), hop.address.as_deref()];
        place.into_iter().flatten().collect::<Vec<_>>().join(" at ")
    };
    let places: Vec<String> = hops.iter().map(hop).filter(|place| !place.is_empty()).collect();
    if places.is_empty() { String::new() } else { format!(", to {}", places.join(", then ")) }
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
    let rows = listing::deliveries(service, firm, &asked).await.map_err(terminal_error)?.rows;
    let holding = pause_by_delivery(service, firm, &rows).await?;
    let items = rows.iter().map(|row| delivery_json(row, &holding)).collect();
    DELIVERIES.print(list.json, items);
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
    let (rows, erased) =
        listing::deliveries_then(service, firm, asked).await.map_err(terminal_error)?;
    let then = |row: &DeliveryRow| {
        let is_erased = erased.contains(&row.response_id);
        delivery_then(row, if is_erased { BodyErasure::Erased } else { BodyErasure::Kept })
    };
    let items = rows.iter().map(then).collect();
    DELIVERIES_THEN.print(json, items);
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
    let rows = listing::steps(service, firm, &asked).await.map_err(terminal_error)?.rows;
    let holding = pause_by_delivery(service, firm, &rows).await?;
    let items = rows.iter().map(|row| delivery_json(row, &holding)).collect();
    STEPS.print(list.json, items);
    system.stop().await
}
