//! `projections`: how read models stand, and making them anew from the log (invariant I7).

use std::io::IsTerminal;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use domain::time::Timestamp;
use indicatif::ProgressBar;
use projector::rebuild::{self, Act, Difference, Model, Order, Outcome, Report, Standing, TRIES};
use serde_json::{Value, json};

use crate::args::Json;
use crate::operate::{print, say};
use crate::wiring::{self, Place, System};

/// A read model is not what the log says, and stays so.
const DIFFERS: u8 = 1;

/// It could not be done.
const COULD_NOT: u8 = 2;

/// What is asked of read models.
#[derive(Debug, Subcommand)]
pub(crate) enum Projections {
    /// Each read model: its rows, how far it follows the log, when it was last made anew.
    Status(Json),
    /// Make read models anew from the log beside live traffic, and put them in their place. Exit code
    /// 0: done; 1: refused, because an entry of the audit log or a seal would have changed; 2: it
    /// could not be done.
    Rebuild(Which),
    /// The same without putting them in their place. Exit code 0: each is what the log says; 1: one is
    /// not, with the first row that differs; 2: it cannot be told.
    Verify(Which),
}

#[derive(Debug, Args)]
#[command(group(clap::ArgGroup::new("which").required(true)))]
pub(crate) struct Which {
    /// The read model, by the name of its (first) table.
    #[arg(group = "which")]
    name: Option<Model>,
    /// All of them: the log is read once.
    #[arg(long, group = "which")]
    all: bool,
    #[command(flatten)]
    json: Json,
}

/// What could not be done is neither done nor undone.
pub(crate) async fn run(place: &Place, command: Projections) -> ExitCode {
    let done = async {
        let system = wiring::open(place).await?;
        let code = asked(&system, command).await;
        system.stop().await?;
        code
    };
    done.await.unwrap_or_else(|error: anyhow::Error| {
        eprintln!("firmforms: {error:#}");
        ExitCode::from(COULD_NOT)
    })
}

async fn asked(system: &System, command: Projections) -> anyhow::Result<ExitCode> {
    match command {
        Projections::Status(how) => {
            let all = rebuild::status(system.pool()).await?;
            let fields = ["name", "written", "rows", "checkpoint", "lag", "rebuilt_at"];
            print(how, all.iter().map(standing).collect(), &fields);
            Ok(ExitCode::SUCCESS)
        }
        Projections::Rebuild(which) => make(system, which, Act::Replace).await,
        Projections::Verify(which) => make(system, which, Act::Verify).await,
    }
}

async fn make(system: &System, which: Which, act: Act) -> anyhow::Result<ExitCode> {
    let models = which.name.map_or_else(|| Model::ALL.to_vec(), |model| vec![model]);
    let now = system.service.clock.now().get();
    let order = Order { models, act, now, tries: TRIES };
    let bar =
        if std::io::stderr().is_terminal() { ProgressBar::new(0) } else { ProgressBar::hidden() };
    let progress = |done: i64, all: i64| {
        bar.set_length(all.cast_unsigned());
        bar.set_position(done.cast_unsigned());
    };
    let made = rebuild::run(system.pool(), &order, &progress).await;
    bar.finish_and_clear();
    match made {
        Ok(reports) => Ok(told(which.json, &reports)),
        Err(unfinished) => {
            told(which.json, &unfinished.done);
            Err(unfinished.into())
        }
    }
}

fn told(how: Json, reports: &[Report]) -> ExitCode {
    let fields = ["name", "outcome", "rows", "digest", "position", "seconds"];
    print(how, reports.iter().map(report).collect(), &fields);
    if !how.json {
        for Report { difference, .. } in reports {
            difference.iter().for_each(|difference| say(&line(difference)));
        }
    }
    if reports.iter().any(Report::differs) { ExitCode::from(DIFFERS) } else { ExitCode::SUCCESS }
}

fn standing(standing: &Standing) -> Value {
    let Standing { model, rows, checkpoint, lag, rebuilt } = standing;
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

fn report(report: &Report) -> Value {
    json!({
        "name": report.model.name(),
        "outcome": outcome(report),
        "rows": report.digest.rows,
        "digest": report.digest.hex(),
        "position": report.position,
        "events": report.events,
        "seconds": report.took.as_secs_f64(),
        "held_ms": report.held.as_secs_f64() * 1_000.0,
        "difference": report.difference.as_ref().map(|difference| json!({
            "table": difference.table, "key": difference.key, "column": difference.column,
            "log": difference.log, "live": difference.live,
        })),
    })
}

const fn outcome(report: &Report) -> &'static str {
    match (report.outcome, &report.difference) {
        (Outcome::Compared, None) => "equal",
        (Outcome::Compared, Some(_)) => "differs",
        (Outcome::Replaced, None) => "rebuilt",
        (Outcome::Replaced, Some(_)) => "repaired",
        (Outcome::Refused, _) => "refused",
    }
}

/// The first difference in a line.
fn line(difference: &Difference) -> String {
    let Difference { table, key, column, log, live } = difference;
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
