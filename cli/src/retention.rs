//! `retention`: shows which responses expire (ruling 59). It changes nothing.

use clap::{Args, Subcommand};
use deliverer::inspect::expiry_plan::{self, PlannedExpiry};
use domain::activity::kept_since;
use eventstore::Clock;
use serde_json::{Value, json};
use service::StorageSettings;

use crate::databases::MainDatabase;
use crate::output::{Column, ListTable, OutputArgs, print_note};
use crate::shared_args::ResponseRetentionArgs;

const FIRMS: ListTable = ListTable::new(
    &[
        Column::id("firm"),
        Column::number("expire"),
        Column::bytes("bytes"),
        Column::number("held"),
        Column::id("oldest"),
    ],
    "no response was last reported so long ago",
);

/// The commands of retention.
#[derive(Debug, Subcommand)]
pub(crate) enum RetentionCommand {
    /// Count the responses of each firm that would expire now.
    Plan(RetentionPlanArgs),
}

#[derive(Debug, Args)]
pub(crate) struct RetentionPlanArgs {
    #[command(flatten)]
    responses: ResponseRetentionArgs,
    #[command(flatten)]
    json: OutputArgs,
}

pub(crate) async fn run(
    storage: &StorageSettings,
    RetentionCommand::Plan(asked): RetentionCommand,
) -> anyhow::Result<()> {
    let Some(days) = asked.responses.keep_responses_days else {
        print_note("responses are kept for good; --keep-responses-days asks about another time");
        FIRMS.print(asked.json, Vec::new());
        return Ok(());
    };
    let database = MainDatabase::open_from(storage).await?;
    let now = Clock::of_database(&database.pool).await?.now().get();
    let planned = expiry_plan::plan_expiry(&database.pool, kept_since(now, days)).await;
    database.close().await?;
    FIRMS.print(asked.json, planned?.iter().map(planned_json).collect());
    Ok(())
}

fn planned_json(planned: &PlannedExpiry) -> Value {
    json!({
        "firm": planned.firm_id, "expire": planned.expire, "bytes": planned.bytes,
        "held": planned.held, "oldest": planned.oldest,
    })
}
