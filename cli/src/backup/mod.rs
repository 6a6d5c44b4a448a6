//! `backup` and `restore`: both databases, the keys and the signed checkpoints, as one folder or
//! archive.
//!
//! - `manifest` names the members of a backup, with their digests. `origin` signs the manifest, and
//!   judges where a backup is from before anything else of it is read.
//! - `take` takes a backup beside a running service. The main database is dumped first, as of one
//!   snapshot, and the keyring last: a keyring that is older lacks keys, and nothing brings them
//!   back.
//! - `sink` is the place that a backup goes to, `source` a backup that is read. `view` shows one.
//! - `programs` runs `pg_dump` and `pg_restore`.
//! - `restore` refuses a backup that does not fit, restores it into empty databases, and verifies
//!   the result. `script` reads the rows of a dump, and `load` loads them into a schema of this
//!   program's migrations: nothing else of a dump reaches a database. `files` puts keys and
//!   checkpoints in their places, and replaces none.

mod args;
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
mod view;

use std::process::ExitCode;

use anyhow::{Context, ensure};
use service::StorageSettings;

use self::args::{BackupCommand, BackupVerifyArgs};
use self::manifest::{KEYRING_DUMP, MAIN_DUMP};
use self::origin::{UnprovedOrigin, trusted_keys};
use self::programs::ClientProgram;
use self::source::FoundBackup;
use self::view::{BackupView, print_backup};

pub(crate) use self::args::BackupArgs;
pub(crate) use self::restore::RestoreArgs;

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
