//! `projections`: shows, rebuilds and verifies read models (invariant I7).

use std::process::ExitCode;

use clap::{Args, Subcommand};
use domain::delivery::INSTALLATION_FIRM_ID;
use domain::operations::MaintenanceEvent;
use domain::values::Timestamp;
use projector::deliveries;
use projector::rebuild::{
    self, ModelStatus, ReadModel, RebuildAct, RebuildOrder, RebuildOutcome, RebuildReport,
    RowDifference, TRIES_MAX,
};
use serde_json::{Value, json};
use service::{StorageSettings, System};
use sqlx::PgPool;

use crate::databases;
use crate::failure;
use crate::operator;
use crate::output::{Column, ListTable, OutputArgs, print_line, print_note};
use crate::progress::Progress;

/// A read model differs from the log, and stays so.
const EXIT_DIFFERS: u8 = 1;

/// The command could not be finished.
const EXIT_FAILED: u8 = 2;

const STATUS: ListTable = ListTable::new(
    &[
        Column::id("name"),
        Column::id("written"),
        Column::number("rows"),
        Column::number("checkpoint"),
        Column::number("lag"),
        Column::time("rebuilt_at"),
    ],
    "no read models",
);

const REPORTS: ListTable = ListTable::new(
    &[
        Column::id("name"),
        Column::state("outcome"),
        Column::number("rows"),
        Column::number("position"),
        Column::id("took"),
        Column::id("digest"),
    ],
    "no read model was finished",
);

/// The commands of read models.
#[derive(Debug, Subcommand)]
pub(crate) enum ProjectionsCommand {
    /// List read models: rows, progress along the log, time of the last rebuild.
    Status(OutputArgs),
    /// Rebuild read models from the log beside live traffic, and swap them in.
    Rebuild(ModelArgs),
    /// Rebuild read models and compare them, without a swap.
    Verify(ModelArgs),
}

#[derive(Debug, Args)]
#[command(group(clap::ArgGroup::new("which").required(true)))]
pub(crate) struct ModelArgs {
    /// The read model, by the name of its (first) table.
    #[arg(group = "which")]
    name: Option<ReadModel>,
    /// All read models. The log is read once.
    #[arg(long, group = "which")]
    all: bool,
    #[command(flatten)]
    json: OutputArgs,
}

/// A run that cannot be finished has an exit code of its own: it says neither equal nor different.
pub(crate) async fn run(storage: &StorageSettings, command: ProjectionsCommand) -> ExitCode {
    let done = async {
        let system = databases::open(storage).await?;
        let code = run_on_system(&system, command).await;
        system.stop().await?;
        code
    };
    done.await.unwrap_or_else(|error: anyhow::Error| {
        print_note(&failure::error_line(&error));
        ExitCode::from(EXIT_FAILED)
    })
}

async fn run_on_system(system: &System, command: ProjectionsCommand) -> anyhow::Result<ExitCode> {
    match command {
        ProjectionsCommand::Status(how) => {
            let all = rebuild::list_statuses(system.main_pool()).await?;
            STATUS.print(how, all.iter().map(status_item).collect());
            Ok(ExitCode::SUCCESS)
        }
        ProjectionsCommand::Rebuild(which) => {
            rebuild_models(system, which, RebuildAct::Replace).await
        }
        ProjectionsCommand::Verify(which) => {
            rebuild_models(system, which, RebuildAct::Verify).await
        }
    }
}

async fn rebuild_models(
    system: &System,
    which: ModelArgs,
    act: RebuildAct,
) -> anyhow::Result<ExitCode> {
    let models = which.name.map_or_else(|| ReadModel::ALL.to_vec(), |model| vec![model]);
    let now = system.service.clock.now().get();
    if act == RebuildAct::Replace {
        let names = models.iter().map(|model| model.name().to_owned()).collect();
        let ordered = MaintenanceEvent::RebuildOrdered { models: names };
        let service = &system.service;
        let context = service.context(INSTALLATION_FIRM_ID, service.operator());
        operator::record_order(&service.store, &context, ordered).await?;
    }
    let order = RebuildOrder { models, act, now, tries: TRIES_MAX };
    let progress = Progress::new("events", which.json);
    let told = |done, all| progress.at_position(done, all);
    let made = rebuild::rebuild_models(system.main_pool(), &order, &told).await;
    progress.finish();
    match made {
        Ok(reports) => {
            let code = print_reports(which.json, &reports);
            if order.models.contains(&ReadModel::Deliveries) {
                note_kept_history(system.main_pool()).await?;
            }
            Ok(code)
        }
        Err(unfinished) => {
            print_reports(which.json, &unfinished.done);
            Err(unfinished.into())
        }
    }
}

/// Says from where on history was compared, if months have left.
async fn note_kept_history(pool: &PgPool) -> anyhow::Result<()> {
    if let Some(border) = deliveries::history_border(pool).await? {
        let kept_since = Timestamp::from(border.kept_since);
        print_note(&format!("deliveries before {kept_since} have left, and are not compared"));
    }
    Ok(())
}

fn print_reports(how: OutputArgs, reports: &[RebuildReport]) -> ExitCode {
    REPORTS.print(how, reports.iter().map(report_item).collect());
    if how.is_text() {
        for RebuildReport { difference, .. } in reports {
            difference.iter().for_each(|difference| print_line(&difference_line(difference)));
        }
    }
    if reports.iter().any(RebuildReport::differs) {
        ExitCode::from(EXIT_DIFFERS)
    } else {
        ExitCode::SUCCESS
    }
}

fn status_item(standing: &ModelStatus) -> Value {
    let ModelStatus { model, rows, checkpoint, lag, rebuilt } = standing;
    json!({
        "name": model.name(),
        "written": if checkpoint.is_some() { "following" } else { "with the append" },
        "rows": rows.iter().map(|(_, rows)| rows).sum::<i64>(),
        "tables": rows.iter().map(|(table, rows)| ((*table).to_owned(), json!(rows)))
            .collect::<serde_json::Map<_, _>>(),
        "checkpoint": checkpoint,
        "lag": lag,
        "rebuilt_at": rebuilt.as_ref().map(|rebuilt| Timestamp::from(rebuilt.at)),
        "rebuilt_to": rebuilt.as_ref().map(|rebuilt| rebuilt.position),
        "digest": rebuilt.as_ref().map(|rebuilt| &rebuilt.digest),
    })
}

fn report_item(report: &RebuildReport) -> Value {
    json!({
        "name": report.model.name(),
        "outcome": outcome_word(report),
        "rows": report.digest.rows,
        "digest": report.digest.hex(),
        "position": report.position,
        "events": report.events,
        "seconds": report.took.as_secs_f64(),
        "took": format!("{} ms", report.took.as_millis()),
        "held_ms": report.held.as_secs_f64() * 1_000.0,
        "difference": report.difference.as_ref().map(|difference| json!({
            "table": difference.table, "key": difference.key, "column": difference.column,
            "log": difference.log, "live": difference.live,
        })),
    })
}

const fn outcome_word(report: &RebuildReport) -> &'static str {
    match (report.outcome, &report.difference) {
        (RebuildOutcome::Compared, None) => "equal",
        (RebuildOutcome::Compared, Some(_)) => "differs",
        (RebuildOutcome::Replaced, None) => "rebuilt",
        (RebuildOutcome::Replaced, Some(_)) => "repaired",
        (RebuildOutcome::Refused, _) => "refused",
    }
}

/// The first difference as a line.
fn difference_line(difference: &RowDifference) -> String {
    let RowDifference { table, key, column, log, live } = difference;
    match (column, log, live) {
        (Some(column), Some(log), Some(live)) => {
            format!("{table} {key}: {column} is {live}, and the log says {log}")
        }
        (_, Some(log), _) => format!("{table} {key}: not there, and the log says {log}"),
        (_, None, live) => {
            let live = live.as_deref().unwrap_or_default();
            format!("{table} {key}: is there, and the log knows no such row: {live}")
        }
    }
}
