//! Restores a backup into empty databases, and verifies the result.
//!
//! The migrations of this program make the schema that the backup had, its rows are loaded, and
//! then the later migrations run. So no statement of a backup is executed, whoever wrote it.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, bail, ensure};
use auditor::archive::LogArchive;
use auditor::verify::{AuditVerdict, VerifiedWith, database as verify_log};
use chrono::{DateTime, Utc};
use clap::Args;
use deliverer::inspect::lane_proof;
use deliverer::inspect::proof::{self, LogFilter, ProofScope};
use deliverer::upkeep;
use domain::delivery::INSTALLATION_FIRM_ID;
use domain::operations::MaintenanceEvent;
use domain::values::Timestamp;
use eventstore::checkup::{self, is_unused};
use eventstore::{connect, ranges};
use projector::backups::{self, BackupNote};
use projector::rebuild::{self, ReadModel, RebuildAct, RebuildOrder, RebuildReport, TRIES_MAX};
use serde_json::json;
use service::{
    Databases, Installation, KEYRING, MAIN, SERVICE_DATABASES, StorageSettings, System,
    SystemSetup, schema,
};
use sqlx::migrate::Migrator;
use sqlx::postgres::PgConnectOptions;
use tokio::task::block_in_place;
use vault::KEYRING_MIGRATIONS;

use super::files::FilePlacement;
use super::load::load_rows;
use super::manifest::{BackupManifest, KEYRING_DUMP, MAIN_DUMP};
use super::origin::{self, UnprovedPolicy, trusted_keys};
use super::programs::ClientProgram;
use super::source::{BackupSource, FoundBackup};
use crate::databases::UNUSED_BASE_URL;
use crate::operator;
use crate::output::{Column, RecordView, ReportArgs, print_note};
use crate::progress::Progress;
use crate::shared_args::KnownArchiveArgs;

const RESTORED: RecordView = RecordView::new(&[
    Column::time("taken_at"),
    Column::number("position"),
    Column::number("erasures"),
    Column::text("audit_log"),
    Column::text("deliveries"),
    Column::text("read_models"),
]);

/// The exit code of a database that was restored and is not as it was.
const EXIT_FAULTY: u8 = 1;

#[derive(Debug, Args)]
pub(crate) struct RestoreArgs {
    /// The folder of the backup, or - for a tar archive on standard input.
    place: PathBuf,
    /// The public keys that must have signed the backup, one per line, as `audit keys publish`
    /// prints them. By default the keys of this installation, and its wrapping key.
    #[arg(long)]
    public_keys: Option<PathBuf>,
    /// Restore a backup whose origin nothing proves, even if somebody has forged it. Its rows and
    /// keys are then believed as they are.
    #[arg(long, conflicts_with = "public_keys")]
    even_if_forged: bool,
    #[command(flatten)]
    archive: KnownArchiveArgs,
    #[command(flatten)]
    how: ReportArgs,
}

impl RestoreArgs {
    const fn unproved_policy(&self) -> UnprovedPolicy {
        if self.even_if_forged { UnprovedPolicy::Restore } else { UnprovedPolicy::Refuse }
    }
}

/// The result of one verification.
enum VerifiedPart {
    Sound(String),
    Faulty(String),
}

impl VerifiedPart {
    const fn is_sound(&self) -> bool {
        matches!(self, Self::Sound(_))
    }

    fn in_words(&self) -> &str {
        match self {
            Self::Sound(words) | Self::Faulty(words) => words,
        }
    }
}

pub(super) async fn run(
    storage: &StorageSettings,
    asked: &RestoreArgs,
) -> anyhow::Result<ExitCode> {
    cluster::check_owner(&storage.data_dir())?;
    let found = block_in_place(|| FoundBackup::open(&asked.place))?;
    let trusted = trusted_keys(storage, asked.public_keys.as_deref())?;
    origin::require_proof(found.prove_origin(&trusted), asked.unproved_policy())?;
    let source = found.read_manifest()?;
    block_in_place(|| source.verify_members(asked.how.into()))?;
    let placement = FilePlacement::plan_places(storage, &source)?;
    let mut databases = Databases::open(storage, SERVICE_DATABASES, Installation::MayBegin).await?;
    databases.require_primaries().await?;
    let options = [databases.main.options().clone(), databases.keyring.options().clone()];
    let restored = restore_both(storage, &source, &options).await;
    if let Err(error) = restored {
        databases.release_cluster().await?;
        return Err(error);
    }
    placement.carry_out()?;
    let setup = SystemSetup::for_commands(UNUSED_BASE_URL)?;
    let wrapping = placement.wrapping.clone();
    let mut system = System::start_on(databases, wrapping, setup, Installation::MayBegin).await?;
    system.service.operator = Some(operator::at_terminal(storage, system.main_pool()).await?);
    let ended = finish_restore(storage, &system, &source.manifest, asked).await;
    system.stop().await?;
    let code = ended?;
    tell_next(&source.manifest, placement.kept_checkpoints);
    Ok(code)
}

/// A database that a dump is restored into.
struct RestoredDatabase<'a> {
    name: &'static str,
    dump: &'static str,
    options: &'a PgConnectOptions,
    /// The migrations up to those of the backup.
    migrator: Migrator,
}

/// Restores both dumps. The rows of each are restored all or not at all.
async fn restore_both(
    storage: &StorageSettings,
    source: &BackupSource,
    [main, keyring]: &[PgConnectOptions; 2],
) -> anyhow::Result<()> {
    require_known_schema(&source.manifest)?;
    let schemas = source.manifest.schemas;
    let both = [
        RestoredDatabase {
            name: MAIN,
            dump: MAIN_DUMP,
            options: main,
            migrator: migrations_up_to(eventstore::main_migrations(), schemas.main),
        },
        RestoredDatabase {
            name: KEYRING,
            dump: KEYRING_DUMP,
            options: keyring,
            migrator: migrations_up_to(&KEYRING_MIGRATIONS, schemas.keyring),
        },
    ];
    let mut version = source.manifest.server;
    for database in &both {
        let pool = connect(database.options.clone(), 1);
        let unused = is_unused(&pool).await.context(database.name)?;
        let server = checkup::server_version(&pool).await.context(database.name)? / 10_000;
        pool.close().await;
        ensure!(
            unused,
            "{} is not empty: a restore replaces nothing; name empty databases",
            database.name
        );
        version = version.max(u32::try_from(server)?);
    }
    let program =
        ClientProgram::find_for_version("pg_restore", storage.pg_bin.as_deref(), version)?;
    let [main, keyring] = both;
    restore_rows(&program, source, &main).await.context(MAIN)?;
    restore_rows(&program, source, &keyring)
        .await
        .context("the keyring (the main database is restored: empty it before you restore again)")
}

/// Makes the schema of the backup, and loads the rows into it.
async fn restore_rows(
    program: &ClientProgram,
    source: &BackupSource,
    database: &RestoredDatabase<'_>,
) -> anyhow::Result<()> {
    let pool = connect(database.options.clone(), 1);
    eventstore::bring_up(&pool, &database.migrator).await?;
    pool.close().await;
    let script = block_in_place(|| program.begin_script(source.open_member(database.dump)?))?;
    let unknown = load_rows(database.options, script).await?;
    if !unknown.is_empty() {
        print_note(&format!(
            "note: {} has rows that are not this program's, and they are left out: {}",
            database.dump,
            unknown.join(", ")
        ));
    }
    Ok(())
}

/// The migrations that a database with this schema has had.
fn migrations_up_to(all: &Migrator, schema: i64) -> Migrator {
    let migrations = all.iter().filter(|one| one.version <= schema).cloned().collect();
    Migrator { migrations, ..Migrator::DEFAULT }
}

/// Refuses a backup that a newer build took: its schema cannot be read.
fn require_known_schema(manifest: &BackupManifest) -> anyhow::Result<()> {
    let known = schema::known_schemas();
    for (name, found, known) in
        [(MAIN, manifest.schemas.main, known.0), (KEYRING, manifest.schemas.keyring, known.1)]
    {
        if found > known {
            bail!(
                "the backup of {name} has the schema {found}, and this program knows {known}: use \
                 firmforms {} or newer",
                manifest.version
            );
        }
    }
    Ok(())
}

/// Carries erasures out again, records the restore, and verifies.
async fn finish_restore(
    storage: &StorageSettings,
    system: &System,
    manifest: &BackupManifest,
    asked: &RestoreArgs,
) -> anyhow::Result<ExitCode> {
    let how = asked.how;
    let erasures = upkeep::redo_erasures(&system.deliverer).await;
    let erasures = erasures.context("carrying out recorded erasures")?;
    let BackupManifest { taken_at, position, .. } = *manifest;
    record_restore(system, taken_at, position).await?;
    let bytes = i64::try_from(manifest.total_bytes())?;
    let note = BackupNote { taken_at, position, bytes };
    backups::note(&mut *system.main_pool().acquire().await?, note).await?;
    let archive = asked.archive.open()?;
    let audit_log = audit_log(storage, system, archive, how).await?;
    let deliveries = verify_deliveries(system, how).await?;
    let read_models = read_models(system, how).await?;
    let verified = [&audit_log, &deliveries, &read_models];
    RESTORED.print(
        how.into(),
        &json!({
            "taken_at": Timestamp::from(taken_at), "position": position, "erasures": erasures,
            "audit_log": audit_log.in_words(), "deliveries": deliveries.in_words(),
            "read_models": read_models.in_words(),
        }),
    );
    let is_sound = verified.iter().all(|one| one.is_sound());
    Ok(if is_sound { ExitCode::SUCCESS } else { ExitCode::from(EXIT_FAULTY) })
}

async fn record_restore(
    system: &System,
    taken_at: DateTime<Utc>,
    position: i64,
) -> anyhow::Result<()> {
    let restored = MaintenanceEvent::BackupRestored { taken_at: taken_at.into(), position };
    let service = &system.service;
    let context = service.context(INSTALLATION_FIRM_ID, service.operator());
    Ok(operator::record_order(&service.store, &context, restored).await?)
}

async fn audit_log(
    storage: &StorageSettings,
    system: &System,
    archive: Option<LogArchive>,
    how: ReportArgs,
) -> anyhow::Result<VerifiedPart> {
    let progress = Progress::new("events", how.into());
    let told = |done, all| progress.at_position(done, all);
    let with = VerifiedWith { archive, ..VerifiedWith::default() };
    let verdict = verify_log(system.main_pool(), &storage.notary(), with, told).await;
    progress.finish();
    let lanes = lane_proof::compare_all_lanes(system.main_pool()).await?;
    Ok(match (verdict?, lanes.fault) {
        (AuditVerdict::Broken(flaw), _) => VerifiedPart::Faulty(format!("BROKEN: {flaw}")),
        (_, Some(fault)) => VerifiedPart::Faulty(format!("lanes {}: {}", fault.lane_id, fault.why)),
        (AuditVerdict::Incomplete(why), None) => VerifiedPart::Sound(format!("incomplete: {why}")),
        (AuditVerdict::Intact(report), None) => VerifiedPart::Sound(format!(
            "intact: {} events, {} entries, {} checkpoints",
            report.events, report.entries, report.checkpoints
        )),
    })
}

async fn verify_deliveries(system: &System, how: ReportArgs) -> anyhow::Result<VerifiedPart> {
    let progress = Progress::new("events", how.into());
    let told = |done, all| progress.at_position(done, all);
    let part = LogFilter { firm_id: None, since: None, until: None };
    let scope = ProofScope { from: 1, to: i64::MAX, part, examples: 0 };
    let report = proof::verify(system.main_pool(), scope, told).await;
    progress.finish();
    let report = report?;
    let wrong: u64 = report.wrong.values().sum();
    Ok(match wrong {
        0 => VerifiedPart::Sound("proven: none is missing, doubled or lost".to_owned()),
        _ => VerifiedPart::Faulty(format!(
            "{wrong} faults: `firmforms verify deliveries` names them"
        )),
    })
}

async fn read_models(system: &System, how: ReportArgs) -> anyhow::Result<VerifiedPart> {
    let progress = Progress::new("events", how.into());
    let told = |done, all| progress.at_position(done, all);
    let has_all = ranges::border(&mut *system.main_pool().acquire().await?).await?.is_none();
    let compared = |model: &ReadModel| has_all || !model.needs_all_events();
    let models: Vec<ReadModel> = ReadModel::ALL.into_iter().filter(compared).collect();
    let now = system.service.clock.now().get();
    let order = RebuildOrder { models, act: RebuildAct::Verify, now, tries: TRIES_MAX };
    let reports = rebuild::rebuild_models(system.main_pool(), &order, &told).await;
    progress.finish();
    let reports = reports?;
    let differing: Vec<&str> = reports
        .iter()
        .filter(|report| RebuildReport::differs(report))
        .map(|report| report.model.name())
        .collect();
    Ok(match differing.as_slice() {
        [] => VerifiedPart::Sound(format!("{} equal the log", reports.len())),
        _ => VerifiedPart::Faulty(format!("{} differ from the log", differing.join(", "))),
    })
}

fn tell_next(manifest: &BackupManifest, kept_checkpoints: usize) {
    if manifest.has_roles {
        print_note("next: `firmforms migrate --roles` makes the roles and their grants again");
    }
    if kept_checkpoints > 0 {
        print_note(&format!(
            "note: {kept_checkpoints} checkpoints here are newer than the backup: they witness the \
             lost end of the log"
        ));
    }
    print_note(&format!(
        "next: `firmforms serve --paused`, then report all activity since {} again",
        Timestamp::from(manifest.taken_at)
    ));
}
