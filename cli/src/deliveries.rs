//! `deliveries list` and `workflows list`: deliveries, page by page.

use api::Service;
use api::commands::readings;
use api::queries::listing::{self, DeliveryListQuery};
use clap::{Args, Subcommand};
use domain::as_of::AsOf;
use domain::delivery::DeliveryState;
use domain::time::Timestamp;
use domain::trigger::Trigger;
use uuid::Uuid;

use crate::args::OutputArgs;
use crate::operate::{
    BodyErasure, delivery_json, delivery_then, pause_by_delivery, terminal_error,
};
use crate::output::print;
use crate::wiring::{self, StorageArgs, System};
use projector::deliveries::DeliveryRow;

/// The arguments of `deliveries list`.
#[derive(Debug, Args)]
pub(crate) struct DeliveryListArgs {
    /// The firm.
    #[arg(long)]
    firm: Uuid,
    /// Only deliveries of this subscription.
    #[arg(long)]
    hook: Option<Uuid>,
    #[command(flatten)]
    filter: DeliveryFilterArgs,
    /// Their state at a position of the log, or at an instant (2026-11-01T12:00:00Z); with --limit
    /// alone.
    #[arg(long)]
    as_of: Option<AsOf>,
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
    /// The firm.
    #[arg(long)]
    firm: Uuid,
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
    /// Only deliveries queued at this instant or later (2026-11-01T00:00:00Z).
    #[arg(long)]
    since: Option<Timestamp>,
    /// Only deliveries queued before this instant.
    #[arg(long)]
    until: Option<Timestamp>,
    /// Only deliveries after this one: the last one of the page before.
    #[arg(long)]
    after: Option<Uuid>,
    /// The most deliveries to list, up to 500.
    #[arg(long, default_value_t = listing::LIST_LIMIT_DEFAULT)]
    limit: i64,
}

impl DeliveryFilterArgs {
    fn asked(self, hook_id: Option<Uuid>) -> DeliveryListQuery {
        DeliveryListQuery {
            hook_id,
            trigger: self.trigger.map(|trigger| trigger.key().to_owned()),
            state: self.state,
            since: self.since,
            until: self.until,
            after: self.after,
            limit: Some(self.limit),
            as_of: None,
        }
    }
}

pub(crate) async fn list(system: &System, list: DeliveryListArgs) -> anyhow::Result<()> {
    let service = &system.service;
    let firm = list.firm;
    let asked = list.filter.asked(list.hook);
    read(service, firm, &asked).await?;
    if let Some(as_of) = list.as_of {
        let asked = DeliveryListQuery { as_of: Some(as_of.to_string()), ..asked };
        return list_then(service, firm, &asked, list.json).await;
    }
    let rows = listing::deliveries(service, firm, &asked).await.map_err(terminal_error)?.rows;
    let holding = pause_by_delivery(service, firm, &rows).await?;
    let items = rows.iter().map(|row| delivery_json(row, &holding)).collect();
    print(list.json, items, &["created_at", "id", "state", "trigger", "hook_id", "paused"]);
    Ok(())
}

/// Records the reading before any delivery is shown.
async fn read(service: &Service, firm: Uuid, asked: &DeliveryListQuery) -> anyhow::Result<()> {
    readings::record(service, firm, service.operator(), asked.look()).await.map_err(terminal_error)
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
    print(json, items, &["created_at", "id", "state", "trigger", "hook_id", "erased"]);
    Ok(())
}

pub(crate) async fn workflows(
    storage: &StorageArgs,
    WorkflowsCommand::List(list): WorkflowsCommand,
) -> anyhow::Result<()> {
    let system = wiring::open(storage).await?;
    let service = &system.service;
    let firm = list.firm;
    let asked = list.filter.asked(None);
    read(service, firm, &asked).await?;
    let rows = listing::steps(service, firm, &asked).await.map_err(terminal_error)?.rows;
    let holding = pause_by_delivery(service, firm, &rows).await?;
    let items = rows.iter().map(|row| delivery_json(row, &holding)).collect();
    let fields = ["created_at", "run_id", "step_id", "state", "trigger", "id", "paused"];
    print(list.json, items, &fields);
    system.stop().await
}
