//! `backup` and `restore`: both databases, the keys and the signed checkpoints, as one folder or
//! archive.
//!
//! - `manifest` names the members of a backup, with their digests. `origin` signs the manifest, and
//!   judges where a backup is from before anything else of it is read.
//! - `take` takes a backup beside a running service. The main database is dumped first, as of one
//!   snapshot, and the keyring last: a keyring that is older lacks keys, and nothing brings them
//!   back.
//! - `sink` is the place that a backup goes to, `source` a backup that is read.
//! - `programs` runs `pg_dump` and `pg_restore`.
//! - `restore` refuses a backup that does not fit, restores it into empty databases, and verifies
//!   the result. `script` reads the rows of a dump, and `load` loads them into a schema of this
//!   program's migrations: nothing else of a dump reaches a database. `files` puts keys and
//!   checkpoints in their places, and replaces none.

mod files;
mod load;
mod manifest;
mod origin;
mod programs;
mod restore;
mod script;
mod sink;
mod source;
mod take;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, ensure};
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use service::StorageSettings;

use self::manifest::{BackupManifest, KEYRING_DUMP, MAIN_DUMP, WRAPPING_KEY};
use self::origin::{ProvedOrigin, TrustedKeys, UnprovedOrigin};
use self::programs::ClientProgram;
use self::source::FoundBackup;
use crate::audit;
use crate::output::{Column, OutputArgs, RecordView, ReportArgs};

pub(crate) use self::restore::RestoreArgs;

const BACKUP: RecordView = RecordView::new(&[
    Column::text("backup"),
    Column::time("taken_at"),
    Column::number("position"),
    Column::number("bytes"),
    Column::number("checkpoint"),
    Column::text("keys"),
    Column::text("origin"),
    Column::text("version"),
])
.quiet_field("backup");

/// The arguments of `backup`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct BackupArgs {
    #[command(subcommand)]
    part: Option<BackupCommand>,
    /// A new folder, or - for a tar archive on standard output.
    #[arg(required = true)]
    place: Option<PathBuf>,
    /// Leave out the wrapping key and the keys that sign checkpoints. Keep them elsewhere: without
    /// the wrapping key nothing can be restored.
    #[arg(long)]
    without_keys: bool,
    #[command(flatten)]
    how: ReportArgs,
}

#[derive(Debug, Subcommand)]
pub(crate) enum BackupCommand {
    /// Compare a backup with its signature and its digests, and read the lists of its dumps.
    Verify(BackupVerifyArgs),
}

#[derive(Debug, Args)]
pub(crate) struct BackupVerifyArgs {
    /// The folder, or - for a tar archive on standard input.
    place: PathBuf,
    /// The trusted public keys, one per line, as `audit keys publish` prints them. By default the
    /// keys of this installation.
    #[arg(long)]
    public_keys: Option<PathBuf>,
    #[command(flatten)]
    how: ReportArgs,
}

pub(crate) async fn run(storage: &StorageSettings, asked: &BackupArgs) -> anyhow::Result<()> {
    match (&asked.part, &asked.place) {
        (Some(BackupCommand::Verify(asked)), _) => verify_backup(storage, asked),
        (None, Some(place)) => take::run(storage, asked, place).await,
        // The command line requires one of them.
        (None, None) => Ok(()),
    }
}

pub(crate) async fn restore(
    storage: &StorageSettings,
    asked: &RestoreArgs,
) -> anyhow::Result<ExitCode> {
    restore::run(storage, asked).await
}

fn verify_backup(storage: &StorageSettings, asked: &BackupVerifyArgs) -> anyhow::Result<()> {
    let found = FoundBackup::open(&asked.place)?;
    let origin = found.prove_origin(&trusted_keys(storage, asked.public_keys.as_deref())?);
    // A backup without a proof may be whole. Whoever names the keys wants a proof.
    match origin {
        Err(unproved) if asked.public_keys.is_some() => anyhow::bail!(unproved),
        Err(changed @ UnprovedOrigin::Changed) => anyhow::bail!(changed),
        Ok(_) | Err(_) => {}
    }
    let source = found.read_manifest()?;
    source.verify_members(asked.how.into())?;
    let program = ClientProgram::find_for_version(
        "pg_restore",
        storage.pg_bin.as_deref(),
        source.manifest.server,
    )?;
    for dump in [MAIN_DUMP, KEYRING_DUMP] {
        let list = program.list_dump(source.open_member(dump)?).context(dump)?;
        ensure!(list.contains(" TABLE DATA "), "{dump}: it has no tables");
    }
    print_backup(asked.how.into(), &asked.place, BackupView { manifest: &source.manifest, origin });
    Ok(())
}

/// The keys of a file, else those of the installation.
fn trusted_keys(storage: &StorageSettings, file: Option<&Path>) -> anyhow::Result<TrustedKeys> {
    TrustedKeys::new(storage, file.map(audit::public_keys).transpose()?)
}

/// A backup as an operator sees it.
struct BackupView<'a> {
    manifest: &'a BackupManifest,
    origin: Result<ProvedOrigin, UnprovedOrigin>,
}

fn print_backup(how: OutputArgs, place: &Path, backup: BackupView<'_>) {
    BACKUP.print(how, &backup_json(place, backup));
}

fn backup_json(place: &Path, BackupView { manifest, origin }: BackupView<'_>) -> Value {
    let has_keys = manifest.find_member(WRAPPING_KEY).is_some();
    json!({
        "backup": place.display().to_string(),
        "taken_at": domain::values::Timestamp::from(manifest.taken_at),
        "position": manifest.position,
        "bytes": manifest.total_bytes(),
        "checkpoint": manifest.checkpoint,
        "keys": if has_keys { "inside" } else { "left out" },
        "origin": origin.map_or("not proved".to_owned(), |proved| proved.in_words()),
        "version": manifest.version,
    })
}
