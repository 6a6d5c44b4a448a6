//! Takes a backup beside a running service.

use std::path::Path;

use anyhow::{Context, ensure};
use domain::operations::MaintenanceEvent;
use eventstore::checkup::{self, SchemaStanding};
use eventstore::{Clock, connect, proof};
use projector::backups::{self, BackupNote};
use projector::signatures;
use service::{Databases, Installation, SERVICE_DATABASES, StorageSettings, schema};
use sqlx::postgres::PgConnectOptions;
use sqlx::{PgPool, Postgres, Transaction};
use tokio::task::block_in_place;
use vault::{WrappingKey, installation, sealed_check};

use super::args::BackupArgs;
use super::files;
use super::manifest::{
    BackupFacts, BackupManifest, KEYRING_DUMP, MAIN_DUMP, SchemaVersions, WRAPPING_KEY,
};
use super::origin::{ManifestOrigin, TrustedKeys};
use super::programs::ClientProgram;
use super::sink::BackupSink;
use super::view::{BackupView, print_backup};
use crate::operator;
use crate::output::print_note;
use crate::version::version;

/// One connection holds the snapshot, another one asks.
const POOL_CONNECTIONS: u32 = 2;

/// The two databases that a backup is taken from.
struct BackedUp {
    main: PgPool,
    keyring: PgPool,
    options: [PgConnectOptions; 2],
}

pub(super) async fn run(
    storage: &StorageSettings,
    asked: &BackupArgs,
    place: &Path,
) -> anyhow::Result<()> {
    let mut databases =
        Databases::open(storage, SERVICE_DATABASES, Installation::MustExist).await?;
    databases.require_primaries().await?;
    let options = [databases.main.options().clone(), databases.keyring.options().clone()];
    let [main, keyring] = options.clone().map(|one| connect(one, POOL_CONNECTIONS));
    schema::require_schema(&main, &keyring).await?;
    let from = BackedUp { main, keyring, options };
    let key = if asked.without_keys { None } else { Some(storage.wrapping_key_text()?) };
    let mut manifest = begin_manifest(&from, key.as_deref()).await?;
    let sealing = sealing_key(storage, &manifest)?;
    let program =
        ClientProgram::find_for_version("pg_dump", storage.pg_bin.as_deref(), manifest.server)?;
    let mut sink = BackupSink::begin(place)?;
    let ordered = MaintenanceEvent::BackupOrdered { with_keys: !asked.without_keys };
    operator::record_alone(storage, &from.options[0], ordered).await?;

    let mut snapshot = proof::begin_snapshot(&from.main).await?;
    read_snapshot(&mut snapshot, &mut manifest).await?;
    let shared = proof::share_snapshot(&mut snapshot).await?;
    block_in_place(|| {
        add_files(storage, key.as_deref(), &mut sink, &mut manifest)?;
        add_dumps(&program, &from.options, &shared, &mut sink, &mut manifest)
    })?;
    snapshot.rollback().await?;
    let text = manifest.to_text()?;
    let origin = ManifestOrigin::new(text.as_bytes(), &storage.notary(), sealing.as_ref())?;
    block_in_place(|| sink.end_with_manifest(&text, &origin))?;
    note_backup(&from.main, &manifest).await?;
    from.main.close().await;
    from.keyring.close().await;
    databases.release_cluster().await?;
    if place != Path::new("-") {
        let origin = TrustedKeys::new(storage, None)?.prove_origin(text.as_bytes(), &origin);
        print_backup(asked.how.into(), place, BackupView { manifest: &manifest, origin });
    }
    Ok(())
}

/// The facts that hold before the snapshot. The time is not later than the snapshot: all that was
/// reported since must be reported again after a restore.
async fn begin_manifest(from: &BackedUp, key: Option<&str>) -> anyhow::Result<BackupManifest> {
    let check = sealed_check(&from.keyring).await.context("the keyring")?;
    let check = check.context("the keyring was never used: there is nothing to back up")?;
    if let Some(key) = key {
        ensure!(
            files::key_of(key)?.opens_check(&check),
            "the keyring was made with another wrapping key than the one that is set here"
        );
    }
    let SchemaStanding { found: main, .. } = checkup::main_schema(&from.main).await?;
    let keyring = checkup::schema_standing(&from.keyring, &vault::KEYRING_MIGRATIONS).await?.found;
    let server = checkup::server_version(&from.main).await?;
    let server = server.max(checkup::server_version(&from.keyring).await?);
    let facts = BackupFacts {
        version: version().to_owned(),
        taken_at: Clock::of_database(&from.main).await?.now().get(),
        installation_id: installation::id_in(&from.main).await?,
        schemas: SchemaVersions { main, keyring },
        wrapping_check: hex::encode(check),
        server: u32::try_from(server / 10_000)?,
    };
    Ok(BackupManifest::new(facts))
}

/// The wrapping key of this machine, if it has the one of the keyring. A backup without keys may be
/// taken where it is not.
fn sealing_key(
    storage: &StorageSettings,
    manifest: &BackupManifest,
) -> anyhow::Result<Option<WrappingKey>> {
    let key = TrustedKeys::new(storage, None)?.wrapping;
    let check = hex::decode(&manifest.wrapping_check)?;
    Ok(key.filter(|key| key.opens_check(&check)))
}

async fn read_snapshot(
    snapshot: &mut Transaction<'static, Postgres>,
    manifest: &mut BackupManifest,
) -> anyhow::Result<()> {
    manifest.position = proof::height(snapshot).await?;
    manifest.checkpoint = signatures::last(snapshot).await?.map(|last| last.number);
    manifest.has_roles = checkup::has_row_guards(snapshot).await?;
    Ok(())
}

/// Adds keys, and the checkpoints that the snapshot knows. A later one would contradict the dump.
fn add_files(
    storage: &StorageSettings,
    key: Option<&str>,
    sink: &mut BackupSink,
    manifest: &mut BackupManifest,
) -> anyhow::Result<()> {
    let notary = storage.notary();
    if let Some(key) = key {
        let text = format!("{}\n", key.trim());
        manifest.members.push(sink.add_member(WRAPPING_KEY, &mut text.as_bytes())?);
        let keys = files::signing_keys(&notary)?;
        if keys.is_empty() && manifest.checkpoint.is_some() {
            print_note("note: the keys that sign checkpoints are not on this machine");
        }
        for file in keys {
            manifest.members.push(file.add_to(sink)?);
        }
    }
    let checkpoints = files::checkpoint_files(&notary, manifest.checkpoint)?;
    if checkpoints.is_empty() && manifest.checkpoint.is_some() {
        print_note("note: the signed checkpoints are not on this machine, and not in the backup");
    }
    for file in checkpoints {
        manifest.members.push(file.add_to(sink)?);
    }
    Ok(())
}

/// Dumps the main database as of the snapshot, and then the keyring: it is at least as new.
fn add_dumps(
    program: &ClientProgram,
    [main, keyring]: &[PgConnectOptions; 2],
    snapshot: &str,
    sink: &mut BackupSink,
    manifest: &mut BackupManifest,
) -> anyhow::Result<()> {
    for (database, snapshot, name) in
        [(main, Some(snapshot), MAIN_DUMP), (keyring, None, KEYRING_DUMP)]
    {
        let added = program.dump_database(database, snapshot, |dump| sink.add_member(name, dump));
        manifest.members.push(added.with_context(|| name.to_owned())?);
    }
    Ok(())
}

async fn note_backup(main: &PgPool, manifest: &BackupManifest) -> anyhow::Result<()> {
    let note = BackupNote {
        taken_at: manifest.taken_at,
        position: manifest.position,
        bytes: i64::try_from(manifest.total_bytes())?,
    };
    backups::note(&mut *main.acquire().await?, note)
        .await
        .context("the backup is whole, but its time cannot be noted for `doctor`")
}
