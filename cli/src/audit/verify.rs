//! `audit verify`: prints every flaw, and ends with an exit code for programs.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, bail};
use auditor::bundle::{self, BundleReport};
use auditor::verify::{
    self, AddedLate, AuditVerdict, AwaitedEntry, ComparedRows, DatabaseReport, VerifiedWith,
};
use auditor::{KeySource, PublicKey};
use deliverer::inspect::lane_proof::{self, LaneComparison, LaneFault};
use domain::audit::{AuditPeriod, EntryTime, ProvedPeriod};
use domain::values::Timestamp;
use serde_json::{Value, json};
use service::StorageSettings;

use super::args::AuditVerifyArgs;
use crate::databases::MainDatabase;
use crate::failure;
use crate::output::{self, ReportArgs, Tone, print_json, print_line, print_note};
use crate::progress::Progress;

/// The first word about data without a flaw.
const INTACT: &str = "intact";

/// The verification could not be finished.
const EXIT_INCOMPLETE: u8 = 2;

/// A database or bundle that cannot be read counts as neither intact nor broken.
pub(crate) async fn run(storage: &StorageSettings, verify: &AuditVerifyArgs) -> ExitCode {
    let verified = async {
        let trusted = verify.public_keys.as_deref().map(public_keys).transpose()?;
        match &verify.bundle {
            Some(path) => verify_bundle(path, trusted.as_deref(), verify.how),
            None => {
                let archive = verify.archive.open()?;
                verify_database(storage, VerifiedWith { trusted, archive }, verify.how).await
            }
        }
    };
    match verified.await {
        Ok(code) => code,
        Err(error) => {
            print_note(&failure::error_line(&error));
            ExitCode::from(EXIT_INCOMPLETE)
        }
    }
}

fn verify_bundle(
    path: &Path,
    trusted: Option<&[PublicKey]>,
    how: ReportArgs,
) -> anyhow::Result<ExitCode> {
    let named = || path.display().to_string();
    let from = BufReader::new(File::open(path).with_context(named)?);
    let verdict = bundle::verify(from, trusted).with_context(named)?;
    if how.json {
        return Ok(print_verdict_json(&verdict, bundle_json));
    }
    Ok(print_verdict(&verdict, |report| of_bundle(report, trusted)))
}

/// Verifies the database as it is: no migration, no writes.
async fn verify_database(
    storage: &StorageSettings,
    with: VerifiedWith,
    how: ReportArgs,
) -> anyhow::Result<ExitCode> {
    let looking = MainDatabase::open_from(storage).await?;
    let progress = Progress::new("events", how.into());
    let told = |done, all| progress.at_position(done, all);
    let notary = storage.notary();
    let source = match &with.trusted {
        Some(_) => None,
        None => Some(notary.known_keys()?.source),
    };
    let verdict = verify::database(&looking.pool, &notary, with, told).await;
    let lanes = lane_proof::compare_all_lanes(&looking.pool).await;
    progress.finish();
    looking.close().await?;
    let verdict = verdict?;
    let lanes =
        if matches!(verdict, AuditVerdict::Broken(_)) { LaneComparison::default() } else { lanes? };
    if let Some(LaneFault { lane_id, why }) = &lanes.fault {
        return Ok(print_broken(how, &format!("lanes {lane_id}: {why}")));
    }
    if how.json {
        let told = |report: &DatabaseReport| database_json(report, &lanes, source);
        return Ok(print_verdict_json(&verdict, told));
    }
    let of_all = |report: &DatabaseReport| {
        [of_database(report), of_keys(report, source), of_tables(report, &lanes)].concat()
    };
    Ok(print_verdict(&verdict, of_all))
}

fn print_verdict<R>(verdict: &AuditVerdict<R>, lines: impl Fn(&R) -> Vec<String>) -> ExitCode {
    match verdict {
        AuditVerdict::Intact(report) => {
            for line in lines(report) {
                match line.strip_prefix(INTACT) {
                    Some(rest) => output::print_verdict(INTACT, Tone::Good, rest),
                    None => print_line(&line),
                }
            }
            ExitCode::SUCCESS
        }
        AuditVerdict::Broken(flaw) => print_broken(ReportArgs { json: false }, &flaw.to_string()),
        AuditVerdict::Incomplete(why) => {
            output::print_verdict("INCOMPLETE", Tone::Caution, &format!(": {why}"));
            ExitCode::from(EXIT_INCOMPLETE)
        }
    }
}

fn print_broken(how: ReportArgs, flaw: &str) -> ExitCode {
    if how.json {
        print_json(&json!({"verdict": "broken", "flaw": flaw}));
    } else {
        output::print_verdict("BROKEN", Tone::Bad, &format!(": {flaw}"));
    }
    ExitCode::FAILURE
}

fn print_verdict_json<R>(verdict: &AuditVerdict<R>, report: impl Fn(&R) -> Value) -> ExitCode {
    match verdict {
        AuditVerdict::Intact(intact) => {
            let mut said = report(intact);
            said["verdict"] = INTACT.into();
            print_json(&said);
            ExitCode::SUCCESS
        }
        AuditVerdict::Broken(flaw) => print_broken(ReportArgs { json: true }, &flaw.to_string()),
        AuditVerdict::Incomplete(why) => {
            print_json(&json!({"verdict": "incomplete", "why": why}));
            ExitCode::from(EXIT_INCOMPLETE)
        }
    }
}

/// Tables and rows that no proof covers.
const NOT_PROVED: [&str; 2] = ["tokens", "portal_links"];

/// The word of the internal API for the source of the trusted keys.
const fn source_word(source: Option<KeySource>) -> &'static str {
    match source {
        None => "named",
        Some(KeySource::SignersFolder) => "signers_folder",
        Some(KeySource::BesideCheckpoints) => "beside_checkpoints",
    }
}

fn database_json(
    report: &DatabaseReport,
    lanes: &LaneComparison,
    source: Option<KeySource>,
) -> Value {
    let compared = &report.compared;
    let witnessed = report.witnessed.map(|(position, at)| json!({"position": position, "at": at}));
    json!({
        "events": report.events, "archived": report.archived, "through": report.through, "seals": report.seals,
        "entries": report.entries, "firms": report.firms, "checkpoints": report.checkpoints,
        "last_checkpoint": witnessed, "events_unsigned": report.events_unsigned,
        "trusted_keys": source_word(source), "not_proved": NOT_PROVED,
        "events_awaited": report.events_awaited,
        "entries_awaited": report.entries_awaited, "blocks_awaited": report.blocks_awaited,
        "late_entries": report.late_entries,
        "late": report.first_late.iter().map(late_json).collect::<Vec<_>>(),
        "compared": {"keys": compared.keys, "hooks": compared.hooks, "secrets": compared.secrets,
                     "lanes": lanes.lanes, "sign_ins": compared.sign_ins,
                     "users": compared.users, "portal_sessions": compared.portal_sessions,
                     "unreadable": compared.unreadable},
    })
}

fn late_json(late: &AddedLate) -> Value {
    let AddedLate { firm_id, sequence, position, at, action, stated_at, stated_by, reason } = late;
    json!({
        "firm_id": firm_id, "sequence": sequence, "position": position, "at": at,
        "action": action, "stated_at": stated_at, "stated_by": stated_by, "reason": reason,
    })
}

fn bundle_json(report: &BundleReport) -> Value {
    let BundleReport { firm_id, first, last, of, checkpoint: (number, at), key, period } = report;
    json!({
        "firm_id": firm_id, "first": first, "last": last, "of": of,
        "period": period.as_ref().map(period_json),
        "checkpoint": number, "checkpoint_at": at, "key_id": key.id(), "public_key": key.hex(),
    })
}

fn period_json(proved: &ProvedPeriod) -> Value {
    let ProvedPeriod { period: AuditPeriod { since, until }, entries, before, after } = proved;
    let entry = |entry: &EntryTime| json!({"sequence": entry.sequence, "at": entry.at});
    json!({
        "since": since, "until": until, "entries": entries,
        "before": before.as_ref().map(entry), "after": after.as_ref().map(entry),
    })
}

fn of_database(report: &DatabaseReport) -> Vec<String> {
    let DatabaseReport { events, through, seals, entries, firms, checkpoints, witnessed, .. } =
        report;
    let mut lines = vec![
        format!("intact: {events} events up to position {through}, {seals} seals"),
        format!("        {entries} entries in {firms} chains"),
    ];
    if report.archived > 0 {
        lines.push(format!("        {} events are in the archive alone", report.archived));
    }
    if let Some((position, at)) = witnessed {
        lines.push(format!(
            "        {checkpoints} checkpoints; the last is of {at}, at position {position}"
        ));
        if report.events_unsigned > 0 {
            let unsigned = report.events_unsigned;
            lines.push(format!(
                "        not signed yet: {unsigned} events after position {position}; \
                 `firmforms audit checkpoint` signs them"
            ));
        }
    }
    if report.late_entries > 0 {
        lines.push(format!("        {} entries were added late:", report.late_entries));
    }
    lines.extend(report.first_late.iter().map(late_line));
    lines
}

fn late_line(late: &AddedLate) -> String {
    let AddedLate { firm_id, sequence, position, at, action, stated_at, stated_by, reason } = late;
    let reason = reason.as_deref().unwrap_or_default();
    format!(
        "          entry {sequence} of firm {firm_id}: {action} of {at}, position {position}; \
         {stated_by} stated at position {stated_at}: {reason}"
    )
}

/// The tables that are in no chain, and how far the proof is behind the log.
fn of_tables(report: &DatabaseReport, lanes: &LaneComparison) -> Vec<String> {
    let ComparedRows { keys, hooks, secrets, sign_ins, users, portal_sessions, unreadable, .. } =
        &report.compared;
    let lanes = lanes.lanes;
    let mut lines = vec![
        format!(
            "        {keys} keys, {hooks} subscriptions, {lanes} lanes and the age of {secrets} \
             signing secrets are as the log says"
        ),
        format!(
            "        {sign_ins} sign-ins, {users} users and {portal_sessions} portal sessions are \
             as the log says"
        ),
    ];
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
        "        not proved: the table of tokens of the internal API (`firmforms tokens list`), \
         and unused links to the portal"
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

/// Reads public keys from a file, one on a line.
pub(crate) fn public_keys(path: &Path) -> anyhow::Result<Vec<PublicKey>> {
    let named = || path.display().to_string();
    let text = std::fs::read_to_string(path).with_context(named)?;
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    let keys: Option<Vec<PublicKey>> = lines.map(PublicKey::from_hex).collect();
    match keys {
        Some(keys) if !keys.is_empty() => Ok(keys),
        _ => bail!("{}: not public keys, 64 hexadecimal digits on a line each", named()),
    }
}
