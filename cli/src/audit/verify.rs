//! `audit verify`: prints every flaw, and ends with an exit code for programs.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, bail};
use auditor::bundle::{self, BundleReport};
use auditor::verify::{self, AuditVerdict, AwaitedEntry, ComparedRows, DatabaseReport};
use auditor::{KeySource, PublicKey};
use deliverer::inspect::lane_proof::{self, LaneComparison, LaneFault};
use domain::audit::{AuditPeriod, EntryTime, ProvedPeriod};
use domain::time::Timestamp;
use indicatif::ProgressBar;

use super::args::AuditVerifyArgs;
use crate::databases::MainDatabase;
use crate::output::{print_line, print_note};
use crate::wiring::StorageArgs;

/// The verification could not be finished.
const EXIT_INCOMPLETE: u8 = 2;

/// A database or bundle that cannot be read counts as neither intact nor broken.
pub(crate) async fn run(storage: &StorageArgs, verify: &AuditVerifyArgs) -> ExitCode {
    let verified = async {
        let trusted = verify.public_keys.as_deref().map(keys).transpose()?;
        match &verify.bundle {
            Some(path) => file(path, trusted.as_deref()),
            None => database(storage, trusted).await,
        }
    };
    match verified.await {
        Ok(code) => code,
        Err(error) => {
            print_note(&format!("firmforms: {error:#}"));
            ExitCode::from(EXIT_INCOMPLETE)
        }
    }
}

fn file(path: &Path, trusted: Option<&[PublicKey]>) -> anyhow::Result<ExitCode> {
    let named = || path.display().to_string();
    let from = BufReader::new(File::open(path).with_context(named)?);
    let verdict = bundle::verify(from, trusted).with_context(named)?;
    Ok(print_verdict(&verdict, |report| of_bundle(report, trusted)))
}

/// Verifies the database as it is: no migration, no writes.
async fn database(
    storage: &StorageArgs,
    trusted: Option<Vec<PublicKey>>,
) -> anyhow::Result<ExitCode> {
    let looking = MainDatabase::at(storage).await?;
    let bar = if std::io::IsTerminal::is_terminal(&std::io::stderr()) {
        ProgressBar::new(0)
    } else {
        ProgressBar::hidden()
    };
    let progress = |done: i64, all: i64| {
        bar.set_length(all.cast_unsigned());
        bar.set_position(done.cast_unsigned());
    };
    let notary = storage.notary();
    let source = match &trusted {
        Some(_) => None,
        None => Some(notary.known_keys()?.source),
    };
    let verdict = verify::database(&looking.pool, &notary, trusted, progress).await;
    let lanes = lane_proof::compare(&looking.pool).await;
    bar.finish_and_clear();
    looking.close().await?;
    let verdict = verdict?;
    if matches!(verdict, AuditVerdict::Broken(_)) {
        return Ok(print_verdict(&verdict, of_database));
    }
    let lanes = lanes?;
    if let Some(LaneFault { lane_id, why }) = &lanes.fault {
        print_line(&format!("BROKEN: lanes {lane_id}: {why}"));
        return Ok(ExitCode::FAILURE);
    }
    let of_all = |report: &DatabaseReport| {
        [of_database(report), of_keys(report, source), of_tables(report, &lanes)].concat()
    };
    Ok(print_verdict(&verdict, of_all))
}

fn print_verdict<R>(verdict: &AuditVerdict<R>, lines: impl Fn(&R) -> Vec<String>) -> ExitCode {
    match verdict {
        AuditVerdict::Intact(report) => {
            lines(report).iter().for_each(|line| print_line(line));
            ExitCode::SUCCESS
        }
        AuditVerdict::Broken(flaw) => {
            print_line(&format!("BROKEN: {flaw}"));
            ExitCode::FAILURE
        }
        AuditVerdict::Incomplete(why) => {
            print_line(&format!("INCOMPLETE: {why}"));
            ExitCode::from(EXIT_INCOMPLETE)
        }
    }
}

fn of_database(report: &DatabaseReport) -> Vec<String> {
    let DatabaseReport { events, through, seals, entries, firms, checkpoints, witnessed, .. } =
        report;
    let mut lines = vec![
        format!("intact: {events} events up to position {through}, {seals} seals"),
        format!("        {entries} entries of {firms} firms"),
    ];
    if let Some((position, at)) = witnessed {
        lines.push(format!(
            "        {checkpoints} checkpoints; the last is of {at}, at position {position}"
        ));
    }
    lines
}

/// The tables that are in no chain, and how far the proof is behind the log.
fn of_tables(report: &DatabaseReport, lanes: &LaneComparison) -> Vec<String> {
    let ComparedRows { keys, hooks, secrets, unreadable } = &report.compared;
    let lanes = lanes.lanes;
    let mut lines = vec![format!(
        "        {keys} keys, {hooks} subscriptions, {lanes} lanes and the age of {secrets} signing \
         secrets are as the log says"
    )];
    if !unreadable.is_empty() {
        let tables = unreadable.join(", ");
        lines.push(format!("        not compared, since this login may not read it: {tables}"));
    }
    if report.events_awaited > 0 {
        let DatabaseReport { events_awaited, entries_awaited, .. } = report;
        lines.push(format!(
            "        the audit log is {events_awaited} events behind, and lacks {entries_awaited} entries"
        ));
    }
    for AwaitedEntry { position, firm_id, at, action } in &report.first_awaited {
        lines.push(format!("          position {position}, of {at}: {action} of firm {firm_id}"));
    }
    if report.blocks_awaited > 0 {
        lines.push(format!("        the seals are {} blocks behind", report.blocks_awaited));
    }
    lines.push(
        "        not proved: the table of tokens of the internal API (`firmforms tokens list`)"
            .to_owned(),
    );
    lines
}

/// Names the source of the trusted keys; `None` for keys that the caller named.
fn of_keys(report: &DatabaseReport, source: Option<KeySource>) -> Vec<String> {
    let line = match source {
        _ if report.witnessed.is_none() => return Vec::new(),
        None => return Vec::new(),
        Some(KeySource::SignersFolder) => "the signer's own folder of keys was trusted",
        Some(KeySource::BesideCheckpoints) => "the keys beside the checkpoints were trusted",
    };
    vec![format!("        {line}: see --public-keys")]
}

fn of_bundle(report: &BundleReport, trusted: Option<&[PublicKey]>) -> Vec<String> {
    let BundleReport { firm_id, first, last, of, checkpoint: (number, at), key, period } = report;
    let mut lines = vec![
        format!("intact: entries {first} to {last} of {of} of firm {firm_id}"),
        format!("        checkpoint {number} of {at}, signed with the key {}", key.id()),
    ];
    lines.extend(period.iter().flat_map(|period| of_period(period, report)));
    if trusted.is_none() {
        lines.push(format!(
            "        is that key the service's? compare {} with the published one, \
             or name those you believe: --public-keys FILE",
            key.hex()
        ));
    }
    lines
}

/// The content of a bundle's period. An open period is proved up to the checkpoint only.
fn of_period(proved: &ProvedPeriod, report: &BundleReport) -> [String; 2] {
    let ProvedPeriod { period: AuditPeriod { since, until }, entries, before, after } = proved;
    let bound = |at: &Option<Timestamp>| at.map_or("any time".to_owned(), |at| at.to_string());
    let count = match entries {
        0 => "no entries".to_owned(),
        1 => "1 entry".to_owned(),
        more => format!("{more} entries"),
    };
    let reach = if proved.is_open() { " up to the checkpoint" } else { "" };
    let since = bound(since);
    let until = bound(until);
    let of = |entry: &EntryTime| format!("entry {} of {}", entry.sequence, entry.at);
    let before = before.as_ref().map_or("the begin of the chain".to_owned(), of);
    let after = after.as_ref().map(of);
    let after = after.unwrap_or_else(|| {
        format!("none yet: entry {} is the last at checkpoint {}", report.of, report.checkpoint.0)
    });
    [
        format!("        {count} in this period{reach}: from {since}, before {until}"),
        format!("        before it: {before}; after it: {after}"),
    ]
}

fn keys(path: &Path) -> anyhow::Result<Vec<PublicKey>> {
    let named = || path.display().to_string();
    let text = std::fs::read_to_string(path).with_context(named)?;
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    let keys: Option<Vec<PublicKey>> = lines.map(PublicKey::from_hex).collect();
    match keys {
        Some(keys) if !keys.is_empty() => Ok(keys),
        _ => bail!("{}: not public keys, 64 hexadecimal digits on a line each", named()),
    }
}
