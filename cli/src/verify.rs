//! `verify deliveries`: proves from the log that each subscription got each occurrence once (case
//! I1). `--repair` queues deliveries that wait and are not queued.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use deliverer::inspect::proof::{self, LogFilter, ProofExample, ProofReport, ProofScope};
use deliverer::inspect::repair::{RepairOrder, repair_deliveries};
use domain::audit::AuditPeriod;
use domain::audit::once::DeliveryFaultKind;
use domain::values::{Timestamp, When};
use eventstore::Clock;
use serde_json::{Value, json};
use service::StorageSettings;
use sqlx::PgPool;

use crate::databases::{self, MainDatabase};
use crate::failure;
use crate::names::{self, NamedKind};
use crate::output::{ReportArgs, Tone, print_json, print_line, print_note, print_verdict};
use crate::progress::Progress;
use crate::shared_args::reason;

/// The proof could not be finished.
const EXIT_UNKNOWN: u8 = 2;

/// The proofs that a command can make.
#[derive(Debug, Subcommand)]
pub(crate) enum VerifyCommand {
    /// Prove that each occurrence lists exactly the subscriptions its match saw live. Prove that
    /// each delivery followed its rules.
    Deliveries(VerifyDeliveriesArgs),
}

#[derive(Debug, Args)]
pub(crate) struct VerifyDeliveriesArgs {
    /// Only this firm's deliveries: its id, the beginning of its id, or its name.
    #[arg(long)]
    firm: Option<String>,
    /// Only events recorded at this time or later: 2026-11-01, 2026-11-01T09:30:00Z, 2h, yesterday.
    #[arg(long)]
    since: Option<When>,
    /// Only events recorded before this time.
    #[arg(long)]
    until: Option<When>,
    /// Only from this position of the log on.
    #[arg(long, default_value_t = 1)]
    from: i64,
    /// Only up to this position of the log.
    #[arg(long, default_value_t = i64::MAX, hide_default_value = true)]
    to: i64,
    /// The number of examples of each kind to show.
    #[arg(long, default_value_t = 10)]
    examples: usize,
    /// Queue missing and lost deliveries, and change nothing else.
    #[arg(long, requires = "reason")]
    repair: bool,
    /// The reason of the repair; kept in the log.
    #[arg(long, value_parser = reason)]
    reason: Option<String>,
    #[command(flatten)]
    json: ReportArgs,
}

/// A database that cannot be read counts as neither proven nor wrong.
pub(crate) async fn run(
    storage: &StorageSettings,
    VerifyCommand::Deliveries(asked): VerifyCommand,
) -> ExitCode {
    let verified = async {
        let report = prove_deliveries(storage, &asked).await?;
        let repaired = match &asked.reason {
            Some(reason) if asked.repair => Some(repair_unsent(storage, &report, reason).await?),
            _ => None,
        };
        anyhow::Ok((report, repaired))
    };
    match verified.await {
        Ok((report, repaired)) => {
            print_report(&report, repaired, asked.json);
            exit_code(&report, repaired)
        }
        Err(error) => {
            print_note(&failure::error_line(&error));
            ExitCode::from(EXIT_UNKNOWN)
        }
    }
}

/// A finished repair of all faults counts as proven, if there were no others.
fn exit_code(report: &ProofReport, repaired: Option<u64>) -> ExitCode {
    let wrong: u64 = report.wrong.values().sum();
    if wrong == repaired.unwrap_or_default() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Reads the database as it is: no migration, no writes.
async fn prove_deliveries(
    storage: &StorageSettings,
    asked: &VerifyDeliveriesArgs,
) -> anyhow::Result<ProofReport> {
    let looking = MainDatabase::open_from(storage).await?;
    let scope = asked.proof_scope(&looking.pool).await?;
    let progress = Progress::new("events", asked.json.into());
    let told = |done, all| progress.at_position(done, all);
    let report = proof::verify(&looking.pool, scope, told).await;
    progress.finish();
    looking.close().await?;
    Ok(report?)
}

impl VerifyDeliveriesArgs {
    async fn proof_scope(&self, pool: &PgPool) -> anyhow::Result<ProofScope> {
        let now = Clock::of_database(pool).await?.now();
        let AuditPeriod { since, until } = names::past_period(self.since, self.until, now)?;
        let part = LogFilter {
            firm_id: names::id_of_any(pool, NamedKind::Firm, self.firm.as_deref()).await?,
            since: since.map(Timestamp::get),
            until: until.map(Timestamp::get),
        };
        Ok(ProofScope { from: self.from, to: self.to, part, examples: self.examples })
    }
}

async fn repair_unsent(
    storage: &StorageSettings,
    report: &ProofReport,
    reason: &str,
) -> anyhow::Result<u64> {
    if report.unsent.is_empty() {
        return Ok(0);
    }
    let system = databases::open(storage).await?;
    let operator = system.service.operator.clone();
    let order = RepairOrder {
        actor: system.service.operator(),
        terminal: operator.map(|operator| operator.terminal),
        reason: reason.to_owned(),
    };
    let repaired = repair_deliveries(&system.deliverer, &report.unsent, &order).await?;
    system.stop().await?;
    Ok(repaired)
}

fn print_report(report: &ProofReport, repaired: Option<u64>, how: ReportArgs) {
    if how.json {
        return print_json(&as_json(report, repaired));
    }
    let ProofReport { through, occurrences, subscriptions, .. } = report;
    let (word, tone) =
        if report.is_proven() { ("proven", Tone::Good) } else { ("WRONG", Tone::Bad) };
    let rest = format!(
        ": {occurrences} occurrences up to position {through}, {subscriptions} subscriptions"
    );
    print_verdict(word, tone, &rest);
    report_lines(report, repaired).iter().for_each(|line| print_line(line));
}

fn as_json(report: &ProofReport, repaired: Option<u64>) -> Value {
    let count = |kind| report.wrong.get(&kind).copied().unwrap_or_default();
    let counts: serde_json::Map<String, Value> = DeliveryFaultKind::ALL
        .into_iter()
        .map(|kind| (kind.name().to_owned(), count(kind).into()))
        .collect();
    json!({
        "proven": report.is_proven(), "through": report.through,
        "occurrences": report.occurrences, "overlaps": report.overlaps,
        "subscriptions": report.subscriptions, "listed": report.listed,
        "unspread": report.unspread, "deliveries": report.deliveries,
        "wrong": counts, "repaired": repaired,
        "examples": report.examples.iter().map(example_item).collect::<Vec<_>>(),
    })
}

fn example_item(one: &ProofExample) -> Value {
    json!({
        "kind": one.wrong.kind().name(), "why": one.wrong.to_string(), "position": one.position,
        "delivery_id": one.delivery_id, "occurrence_id": one.occurrence_id,
        "hook_id": one.hook_id,
    })
}

fn report_lines(report: &ProofReport, repaired: Option<u64>) -> Vec<String> {
    let ProofReport { overlaps, listed, unspread, deliveries, .. } = report;
    let mut lines = vec![
        format!("        {listed} deliveries listed, {unspread} of them not in the outbox yet"),
        format!("        {overlaps} matches overlapped a change of the firm's subscriptions"),
        format!("        {deliveries} deliveries begun and looked at"),
    ];
    for (kind, count) in &report.wrong {
        lines.push(format!("{}: {count}", kind.name()));
        let of_kind = report.examples.iter().filter(|one| one.wrong.kind() == *kind);
        lines.extend(of_kind.map(|one| {
            let position = one.position.map_or("-".to_owned(), |at| at.to_string());
            format!("  position {position}  delivery {}  {}", one.delivery_id, one.wrong)
        }));
    }
    lines.extend(repaired.map(|count| format!("repaired: {count} deliveries queued")));
    lines
}
