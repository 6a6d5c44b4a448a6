//! `lanes list`: lanes with work, and why it waits.

use clap::{Args, Subcommand};
use deliverer::inspect::lane_list::{self, LaneFilter, LaneRow};
use domain::delivery::{DeliveryRoute, PauseScope};
use domain::values::Timestamp;
use projector::pauses::{self, PauseRow};
use serde_json::{Value, json};
use service::StorageSettings;

use crate::databases;
use crate::names::{self, NamedKind};
use crate::output::{Column, ListTable, OutputArgs};

const LANES: ListTable = ListTable::new(
    &[
        Column::id("lane_id"),
        Column::text("kind"),
        Column::state("state"),
        Column::number("waiting"),
        Column::number("in_flight"),
        Column::time("due_at"),
        Column::id("firm_id"),
        Column::id("paused"),
        Column::text("host"),
    ],
    "no lane has work",
);

/// The commands of lanes.
#[derive(Debug, Subcommand)]
pub(crate) enum LanesCommand {
    /// List lanes that have work, longest due first.
    List(LaneListArgs),
}

#[derive(Debug, Args)]
pub(crate) struct LaneListArgs {
    /// Only lanes of this firm: its id, the beginning of its id, or its name.
    #[arg(long)]
    firm: Option<String>,
    /// Only lanes to this host.
    #[arg(long)]
    host: Option<String>,
    /// The most lanes to list.
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(i64).range(1..=10_000))]
    limit: i64,
    #[command(flatten)]
    json: OutputArgs,
}

pub(crate) async fn run(
    storage: &StorageSettings,
    LanesCommand::List(list): LanesCommand,
) -> anyhow::Result<()> {
    let host = list.host.as_deref().map(parse_host).transpose()?;
    let system = databases::open(storage).await?;
    let firm_id =
        names::id_of_any(system.main_pool(), NamedKind::Firm, list.firm.as_deref()).await?;
    let wanted = LaneFilter { firm_id, host, limit: list.limit };
    let rows = lane_list::list(system.main_pool(), &wanted).await?;
    let pauses = pauses::list(system.main_pool()).await?;
    let items = rows.iter().map(|row| lane_json(row, &pauses)).collect();
    LANES.print(list.json, items);
    system.stop().await
}

fn parse_host(name: &str) -> anyhow::Result<String> {
    match PauseScope::of_host(name) {
        Some(PauseScope::Host { host }) => Ok(host),
        _ => anyhow::bail!("--host: this is not the name of a host"),
    }
}

fn lane_json(row: &LaneRow, pauses: &[PauseRow]) -> Value {
    let hook_id = (row.kind == "hook").then_some(row.lane_id);
    let held = DeliveryRoute { firm_id: row.firm_id, hook_id, host: Some(&row.host) };
    let pause = pauses.iter().find(|pause| pause.scope().holds(held));
    json!({
        "lane_id": row.lane_id, "firm_id": row.firm_id, "kind": row.kind, "host": row.host,
        "due_at": row.due_at.map(Timestamp::from), "waiting": row.waiting, "in_flight": row.in_flight,
        "oldest_due_at": row.oldest_due_at.map(Timestamp::from),
        "state": lane_state(row, pause), "cause": row.cancel_cause,
        "suspended_at": row.suspended_at.map(Timestamp::from),
        "paused": pause.map(|pause| pause.pause_id), "reason": pause.map(|pause| &pause.reason),
    })
}

/// The strongest reason why a lane does not send.
const fn lane_state(row: &LaneRow, pause: Option<&PauseRow>) -> &'static str {
    match (&row.cancel_cause, &row.suspended_at, pause) {
        (Some(_), _, _) => "closed",
        (None, Some(_), _) => "suspended",
        (None, None, Some(_)) => "paused",
        (None, None, None) => "open",
    }
}
