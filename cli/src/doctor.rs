//! `doctor`: checks an installation, and names each fault with its remedy. It changes no schema and
//! starts no worker. Exit code 0: no fault; 1: a fault; 2: a check could not be made.

mod servers;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use auditor::AuditError;
use auditor::archive::SegmentWriter;
use chrono::{DateTime, TimeDelta, Utc};
use clap::Args;
use deliverer::inspect::checkup as queue;
use deliverer::inspect::lost_keys::{self, KeyCoverage};
use deliverer::upkeep::{self, ErasureProgress};
use domain::audit::Seal;
use domain::delivery::receiver::{FAILING_AFTER, FAILURES_MIN, hour_of};
use domain::event::Actor;
use domain::values::Timestamp;
use eventstore::log_tail;
use eventstore::presence::{self, ProcessGroup, SilentMember};
use eventstore::{Clock, checkup, connect, disk};
use explain::checkup::{BackupAges, CheckVerdict, Finding, ReceiverState, SigningHealth};
use projector::receivers::{self, ReceiverTotals};
use projector::{backups, firms, notices, pauses, replays, seals, signatures, verifications};
use serde_json::{Value, json};
use service::{Databases, Installation, SERVICE_DATABASES, StorageSettings};
use sqlx::PgPool;
use uuid::Uuid;
use vault::{Keyring, installation, secrets};

use self::servers::{KEYRING_CHECKS, MAIN_CHECKS, ServerKind};
use crate::databases::{KeyringPresence, require_main};
use crate::operator;
use crate::output::{Column, ListTable, ReportArgs};
use crate::shared_args::{ArchivePlace, ResponseRetentionArgs, archive_place};

const FINDINGS: ListTable = ListTable::new(
    &[Column::state("verdict"), Column::id("check"), Column::prose("says"), Column::note("do")],
    "no checks",
);

/// The followers of the log.
const FOLLOWERS: [&str; 3] = ["deliveries", "audit_log", "erase"];

/// A follower that has not moved for this long counts as stalled.
const STALLED_AFTER: TimeDelta = TimeDelta::minutes(5);

/// Checks run one after another, so two connections are enough.
const POOL_CONNECTIONS: u32 = 2;

#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// Acknowledges a lost end of the log first. Its alarm then ends.
    #[arg(long)]
    acknowledge: bool,
    #[command(flatten)]
    responses: ResponseRetentionArgs,
    /// Compare this archive with the log.
    #[arg(long, env = "FIRMFORMS_ARCHIVE_URL", value_parser = archive_place)]
    archive_url: Option<ArchivePlace>,
    #[command(flatten)]
    json: ReportArgs,
}

pub(crate) async fn run(
    storage: &StorageSettings,
    DoctorArgs { acknowledge, responses, archive_url, json }: DoctorArgs,
) -> anyhow::Result<ExitCode> {
    const UNCHECKED: &str = "the installation could not be checked";
    let databases = Databases::open(storage, SERVICE_DATABASES, Installation::MustExist).await;
    let mut databases = databases.context(UNCHECKED)?;
    if acknowledge {
        acknowledge_lost_tails(storage, &mut databases).await?;
    }
    let mut findings = check_all(storage, &mut databases).await.context(UNCHECKED)?;
    findings.push(Finding::response_retention(responses.keep_responses_days));
    if let Some(place) = archive_url {
        findings.push(check_archive(storage, &databases, &place).await?);
    }
    let findings = Finding::mute_consequences(findings);
    databases.release_cluster().await?;
    FINDINGS.print(json.into(), findings.iter().map(finding_json).collect());
    let wrong = findings.iter().any(|finding| finding.verdict == CheckVerdict::Wrong);
    Ok(ExitCode::from(u8::from(wrong)))
}

fn finding_json(finding: &Finding) -> Value {
    json!({
        "check": finding.check, "verdict": finding.verdict.name(), "says": finding.says,
        "do": finding.advice,
    })
}

/// Acknowledges every lost end of the log, by the operator at the terminal.
async fn acknowledge_lost_tails(
    storage: &StorageSettings,
    databases: &mut Databases,
) -> anyhow::Result<()> {
    databases.require_primaries().await?;
    let pool = connect(databases.main.options().clone(), 1);
    let now = Clock::of_database(&pool).await?.now().get();
    let by = Actor::NamedOperator(operator::at_terminal(storage, &pool).await?.name).to_string();
    log_tail::acknowledge_losses(&mut *pool.acquire().await?, &by, now).await?;
    pool.close().await;
    Ok(())
}

async fn check_all(
    storage: &StorageSettings,
    databases: &mut Databases,
) -> anyhow::Result<Vec<Finding>> {
    let wrapping = storage.wrapping_key(Installation::MustExist)?;
    let presence = require_main(databases).await?;
    let pool = connect(databases.main.options().clone(), POOL_CONNECTIONS);
    let keyring = connect(databases.keyring.options().clone(), POOL_CONNECTIONS);
    let keyring = Keyring::new(keyring, wrapping);
    let server = Finding::server_version(checkup::server_version(&pool).await?);
    let (missing, unknown) = checkup::main_migrations(&pool).await?;
    let mut findings = vec![server, Finding::schema_version("schema", missing, unknown)];
    let main = servers::check_hosts(&pool, &databases.main, MAIN_CHECKS).await?;
    let keys = match presence {
        KeyringPresence::Readable => {
            let (keys, known) = keyring.schema();
            let (missing, unknown) = checkup::migration_counts(keys, known).await?;
            findings.push(Finding::schema_version("keyring_schema", missing, unknown));
            servers::check_hosts(keys, &databases.keyring, KEYRING_CHECKS).await?
        }
        KeyringPresence::Away => servers::survey_hosts(&databases.keyring, KEYRING_CHECKS).await,
    };
    // Later checks need tables that a missing schema does not have.
    if findings.iter().all(|finding| finding.verdict == CheckVerdict::Fine) {
        if presence == KeyringPresence::Readable {
            findings.extend(look_at_pair(&pool, &keyring, keys.kind).await?);
        }
        findings.extend(look_inside(storage, &pool, main.kind).await?);
    }
    findings.extend(main.findings.into_iter().chain(keys.findings));
    pool.close().await;
    keyring.close().await;
    Ok(findings)
}

/// The checks that need the keyring, whose server is of this kind.
async fn look_at_pair(
    pool: &PgPool,
    keyring: &Keyring,
    kind: ServerKind,
) -> anyhow::Result<Vec<Finding>> {
    let now = Clock::of_database(pool).await?.now().get();
    let mut findings = check_keys(pool, keyring).await;
    findings.extend(check_pair(pool, keyring).await?);
    if kind == ServerKind::Primary {
        let tried = vault::try_keyring_write(&mut *keyring.pool().acquire().await?).await;
        findings.push(servers::disk_finding(KEYRING_CHECKS, tried));
    }
    findings.push(check_backup(pool, keyring.pool(), now).await?);
    findings.push(missing_secrets(pool, keyring).await?);
    Ok(findings)
}

async fn look_inside(
    storage: &StorageSettings,
    pool: &PgPool,
    kind: ServerKind,
) -> anyhow::Result<Vec<Finding>> {
    let clock = Clock::of_database(pool).await?;
    let now = clock.now().get();
    let mut findings = vec![Finding::clock_skew(clock.fault())];
    if kind == ServerKind::Primary {
        let tried = disk::try_log_write(&mut *pool.acquire().await?).await;
        findings.push(servers::disk_finding(MAIN_CHECKS, tried));
    }
    findings.push(lost_tail(pool).await?);
    let log = checkup::log_end(pool).await?;
    findings.push(Finding::next_position(log.next, log.highest));
    findings.push(Finding::oldest_append(checkup::oldest_appender(pool).await?));
    findings.push(check_snapshots(pool).await?);
    for name in FOLLOWERS {
        let (behind, oldest) = checkup::unread_events(pool, name).await?;
        findings.push(Finding::follower_lag(name, behind, oldest.map(|at| time_since(now, at))));
    }
    findings.push(check_seals(pool, now).await?);
    findings.extend(check_queue(pool, now, kind).await?);
    findings.push(check_receivers(pool, now).await?);
    findings.push(open_notices(pool, now).await?);
    findings.push(check_pauses(pool).await?);
    let (running, held, stalled) = replays::under_way(pool, now - STALLED_AFTER).await?;
    findings.push(Finding::open_replays(running, held, stalled));
    findings.push(check_checkpoints(storage, pool, now).await?);
    findings.push(check_verification(pool, now).await?);
    Ok(findings)
}

/// Checks the worker that seals. A seal that it has not made ends its work for good.
async fn check_seals(pool: &PgPool, now: DateTime<Utc>) -> anyhow::Result<Finding> {
    let mut connection = pool.acquire().await?;
    let sealed_to = seals::sealed_to(&mut connection).await?;
    let surplus = seals::count_above(&mut connection, sealed_to).await?;
    let whole = checkup::whole_since(pool, sealed_to + Seal::POSITIONS_PER_BLOCK).await?;
    Ok(Finding::seal_lag(surplus, whole.map(|at| time_since(now, at))))
}

/// Checks whether this main database was used with these keys. The check writes nothing: a key
/// tried on a new keyring by mistake must not become its key.
async fn check_keys(pool: &PgPool, keyring: &Keyring) -> Vec<Finding> {
    let (wrapping, identity) = match keyring.check_read_only().await {
        Ok(Some(identity)) => (None, identity.check_read_only(pool).await.err()),
        Ok(None) => (None, None),
        Err(error) => (Some(error), None),
    };
    vec![
        Finding::usable_key("wrapping_key", wrapping.map(|error| error.to_string())),
        Finding::usable_key("identity_key", identity.map(|error| error.to_string())),
    ]
}

/// Checks whether main database and keyring belong together, and neither is older than the other.
async fn check_pair(pool: &PgPool, keyring: &Keyring) -> anyhow::Result<[Finding; 4]> {
    let KeyCoverage { looked, lost } = lost_keys::check_newest(pool, keyring).await?;
    let ErasureProgress { mark, carried_out } = upkeep::erasure_progress(pool, keyring).await?;
    Ok([
        Finding::same_installation(installation::read_ids(pool, keyring).await?),
        Finding::newest_keys(looked, lost),
        Finding::missed_erasures(mark, carried_out),
        Finding::dead_keys(keyring.dead_rows().await?),
    ])
}

async fn check_snapshots(pool: &PgPool) -> anyhow::Result<Finding> {
    let oldest = checkup::oldest_snapshot(&mut *pool.acquire().await?).await?;
    Ok(oldest.map_or_else(Finding::no_old_snapshot, |held| {
        Finding::oldest_snapshot(&held.holder, held.held_for, held.transactions)
    }))
}

/// A standby does not know the processes at work, so only the primary tells whether one sends.
async fn check_queue(
    pool: &PgPool,
    now: DateTime<Utc>,
    kind: ServerKind,
) -> anyhow::Result<Vec<Finding>> {
    let found = queue::count_queue(pool, now, now - STALLED_AFTER).await?;
    let (live, dead) = queue::count_rows(pool).await?;
    let oldest = found.oldest_due_at.map(|at| time_since(now, at));
    let mut findings = vec![Finding::queue_backlog(found.queued, found.due_lanes, oldest)];
    if kind == ServerKind::Primary {
        let mut connection = pool.acquire().await?;
        let senders = presence::count_members(&mut connection, ProcessGroup::Sending).await?;
        let silent = presence::silent_members(&mut connection, ProcessGroup::Sending).await?;
        let silent: Vec<String> = silent.iter().map(name_silent).collect();
        findings.push(Finding::unspread_occurrences(found.unspread, senders));
        findings.push(Finding::sender_count(senders, &silent, found.due_lanes));
    }
    findings.push(Finding::stuck_lanes(found.stuck_lanes));
    findings.push(Finding::ended_leases(found.ended_leases));
    findings.push(Finding::outbox_bloat(live, dead));
    Ok(findings)
}

fn name_silent(SilentMember { session, silent_for }: &SilentMember) -> String {
    format!("{session} for {} s", silent_for.as_secs())
}

/// Sums the attempts of this hour and the one before, and names the hosts that fail for a day.
async fn check_receivers(pool: &PgPool, now: DateTime<Utc>) -> anyhow::Result<Finding> {
    let totals = receivers::totals(pool, hour_of(now) - TimeDelta::hours(1)).await?;
    let failing = receivers::failing_since(pool, now - FAILING_AFTER, FAILURES_MIN).await?;
    let ReceiverTotals { hosts, attempts, delivered } = totals;
    Ok(Finding::receiver_faults(&ReceiverState { hosts, attempts, delivered, failing }))
}

async fn open_notices(pool: &PgPool, now: DateTime<Utc>) -> anyhow::Result<Finding> {
    let open = notices::backlog(&mut *pool.acquire().await?).await?;
    let oldest = open.oldest_mail_at.map(|at| time_since(now, at));
    Ok(Finding::open_notices(open.mails, oldest, open.posts, open.post_tries))
}

async fn lost_tail(pool: &PgPool) -> anyhow::Result<Finding> {
    let lost = log_tail::unacknowledged_losses(&mut *pool.acquire().await?).await?;
    let from = lost.iter().map(|one| one.from_position).min();
    let noticed = lost.first().map(|one| Timestamp::from(one.noticed_at));
    Ok(Finding::log_tail(from, noticed))
}

async fn check_pauses(pool: &PgPool) -> anyhow::Result<Finding> {
    let held = pauses::list(pool).await?;
    let held: Vec<String> =
        held.iter().map(|pause| format!("{} ({})", pause.scope(), pause.reason)).collect();
    Ok(Finding::open_pauses(&held))
}

async fn check_checkpoints(
    storage: &StorageSettings,
    pool: &PgPool,
    now: DateTime<Utc>,
) -> anyhow::Result<Finding> {
    let notary = storage.notary();
    let mut connection = pool.acquire().await?;
    let remembered = signatures::last(&mut connection).await?;
    let ours = installation::id_seen_by(&mut connection).await?;
    drop(connection);
    let last = notary.checkpoints.read_last()?.map(|last| last.checkpoint.at);
    let signed_at = remembered.as_ref().map(|remembered| remembered.at).max(last);
    let age = signed_at.map(|at| time_since(now, at.get()));
    let health = match (notary.signing_refusal(remembered.as_ref(), ours)?, age) {
        _ if !notary.checkpoints.is_writable() => SigningHealth::NotWritable,
        (_, None) => SigningHealth::NeverSigned,
        (None, Some(age)) => SigningHealth::Signing { age },
        (Some(refusal), Some(age)) => SigningHealth::Refused { refusal, age },
    };
    Ok(Finding::checkpoint_signing(&health))
}

async fn check_verification(pool: &PgPool, now: DateTime<Utc>) -> anyhow::Result<Finding> {
    let ended = verifications::state(&mut *pool.acquire().await?).await?.ended;
    let age = ended.as_ref().map_or(Duration::ZERO, |ended| time_since(now, ended.at.get()));
    Ok(Finding::last_verification(ended.as_ref(), age))
}

/// The age of the last backup, and of the archives of the write-ahead log. Without the archive of
/// both servers nothing can be restored from one.
async fn check_backup(
    pool: &PgPool,
    keyring: &PgPool,
    now: DateTime<Utc>,
) -> anyhow::Result<Finding> {
    let last = backups::last(&mut *pool.acquire().await?).await?;
    let archives = (checkup::archived_at(pool).await?, checkup::archived_at(keyring).await?);
    let archived = archives.0.zip(archives.1).map(|(main, keyring)| main.min(keyring));
    Ok(Finding::backup_age(BackupAges {
        taken: last.map(|last| time_since(now, last.taken_at)),
        archived: archived.map(|at| time_since(now, at)),
    }))
}

async fn check_archive(
    storage: &StorageSettings,
    databases: &Databases,
    place: &ArchivePlace,
) -> anyhow::Result<Finding> {
    let archive = match place.open() {
        Ok(archive) => archive,
        Err(error) => return Ok(Finding::unknown_archive(&error.to_string())),
    };
    let pool = connect(databases.main.options().clone(), 1);
    let notary = storage.notary();
    let writer = SegmentWriter::new(&pool, &archive, &notary);
    let standing = writer.standing().await;
    let now = Clock::of_database(&pool).await?.now().get();
    pool.close().await;
    Ok(match standing {
        Ok(standing) => {
            let age = standing.waiting_since.map(|at| time_since(now, at));
            Finding::archive(standing.through, standing.waiting, age)
        }
        Err(error @ AuditError::BrokenArchive(_)) => Finding::broken_archive(&error.to_string()),
        Err(error) => Finding::unknown_archive(&error.to_string()),
    })
}

async fn missing_secrets(pool: &PgPool, keyring: &Keyring) -> anyhow::Result<Finding> {
    let firms = firms::list(pool).await?;
    let open: Vec<Uuid> =
        firms.iter().filter(|firm| firm.status != "closed").map(|firm| firm.firm_id).collect();
    let mut connection = pool.acquire().await?;
    let found = secrets::read(&mut connection, keyring.wrapping_key(), &open).await?;
    Ok(Finding::missing_secrets(open.len() - found.len()))
}

fn time_since(now: DateTime<Utc>, at: DateTime<Utc>) -> Duration {
    (now - at).to_std().unwrap_or_default()
}
