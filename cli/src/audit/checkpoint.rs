//! `audit checkpoint`: signs a checkpoint now, in the current series or as the first of a new one.

use anyhow::bail;
use api::commands::checkpoint_series;
use auditor::{AuditError, SignedCheckpoint};
use eventstore::Clock;
use projector::signatures;
use serde_json::{Value, json};
use service::{StorageSettings, System, schema};
use vault::SystemEntropy;

use super::args::AuditCheckpointArgs;
use crate::databases::{self, MainDatabase};
use crate::failure::terminal_error;
use crate::output::{Column, RecordView};

const TAKEN: RecordView = RecordView::new(&[
    Column::number("number"),
    Column::time("at"),
    Column::number("position"),
    Column::number("firms"),
    Column::number("seals"),
    Column::id("key_id"),
    Column::id("hash"),
])
.quiet_field("number");

pub(crate) async fn run(
    storage: &StorageSettings,
    asked: &AuditCheckpointArgs,
) -> anyhow::Result<()> {
    let taken = match &asked.reason {
        Some(reason) => {
            let system = databases::open(storage).await?;
            let begun = begin_series(storage, &system, reason).await;
            system.stop().await?;
            begun?
        }
        None => in_current_series(storage).await?,
    };
    TAKEN.print(asked.json, &checkpoint_json(&taken));
    Ok(())
}

/// Signs without the keyring: the main database is enough.
async fn in_current_series(storage: &StorageSettings) -> anyhow::Result<SignedCheckpoint> {
    let database = MainDatabase::open_from(storage).await?;
    let at = Clock::of_database(&database.pool).await?.now();
    let taken = storage.signing_notary()?.take_checkpoint(&database.pool, &SystemEntropy, at).await;
    database.close().await?;
    taken.map_err(explain_refusal)
}

/// Records the new series in the audit log, and signs its first checkpoint.
async fn begin_series(
    storage: &StorageSettings,
    system: &System,
    reason: &str,
) -> anyhow::Result<SignedCheckpoint> {
    let notary = storage.signing_notary()?;
    if let Some(refusal) = notary.new_series_refusal()? {
        bail!("{}: {refusal}", notary.checkpoints.folder().display());
    }
    let service = &system.service;
    let ended = signatures::last(&mut *system.main_pool().acquire().await?).await?;
    let recorded = checkpoint_series::begin(service, ended, reason, service.operator()).await;
    recorded.map_err(terminal_error)?;
    let at = service.clock.now();
    notary.begin_series(system.main_pool(), &SystemEntropy, at).await.map_err(explain_refusal)
}

/// Names the login that a refused signer needs.
fn explain_refusal(error: AuditError) -> anyhow::Error {
    let is_denied = match &error {
        AuditError::Database(error) => schema::is_denied(error),
        _ => false,
    };
    let error = anyhow::Error::from(error);
    if is_denied {
        return error.context("this login may not sign: use one of the service or the projector");
    }
    error
}

fn checkpoint_json(taken: &SignedCheckpoint) -> Value {
    let said = &taken.checkpoint;
    json!({
        "number": said.number, "at": said.at, "position": said.position, "firms": said.firms,
        "seals": said.seals, "key_id": said.key_id, "hash": hex::encode(said.hash()),
    })
}
