//! Takes signed checkpoints: reads a snapshot, signs it, stores the file. Two concurrent calls take
//! two checkpoints.

use domain::audit::{AuditCheckpoint, FORMAT_VERSION, GENESIS_HASH};
use domain::time::Timestamp;
use sqlx::{PgConnection, PgPool};
use vault::Entropy;

use crate::error::AuditError;
use crate::files::{CheckpointFolder, SignedCheckpoint};
use crate::keys::{KeyFolder, SigningKey};
use crate::snapshot::{self, AuditSnapshot};

/// The keys and the signed checkpoints of one service.
#[derive(Debug, Clone)]
pub struct Notary {
    /// The keys.
    pub keys: KeyFolder,
    /// The checkpoints.
    pub checkpoints: CheckpointFolder,
}

impl Notary {
    /// Signs the current state of the log, and stores the signed checkpoint.
    ///
    /// # Errors
    /// If the database does not answer, a file cannot be read or written, or the log differs from
    /// the last signed checkpoint.
    pub async fn take(
        &self,
        pool: &PgPool,
        entropy: &dyn Entropy,
        at: Timestamp,
    ) -> Result<SignedCheckpoint, AuditError> {
        let mut transaction = snapshot::begin(pool).await?;
        let standing = self.standing(&mut transaction).await?;
        transaction.rollback().await?;
        self.sign(&standing, entropy, at)
    }

    /// The current state, if the log agrees with the last signed checkpoint.
    pub(crate) async fn standing(
        &self,
        connection: &mut PgConnection,
    ) -> Result<AuditSnapshot, AuditError> {
        if let Some(last) = self.checkpoints.last()? {
            snapshot::require_unbroken(connection, &last.checkpoint).await?;
        }
        AuditSnapshot::read(connection).await
    }

    /// Signs a snapshot and stores it under the next free number.
    pub(crate) fn sign(
        &self,
        standing: &AuditSnapshot,
        entropy: &dyn Entropy,
        at: Timestamp,
    ) -> Result<SignedCheckpoint, AuditError> {
        let key = self.keys.current(entropy)?;
        loop {
            let signed = signed(self.checkpoint(standing, at, &key)?, &key);
            if self.checkpoints.keep(&signed)? {
                return Ok(signed);
            }
        }
    }

    fn checkpoint(
        &self,
        standing: &AuditSnapshot,
        at: Timestamp,
        key: &SigningKey,
    ) -> Result<AuditCheckpoint, AuditError> {
        let before = self.checkpoints.last()?.map(|signed| signed.checkpoint);
        Ok(AuditCheckpoint {
            v: FORMAT_VERSION,
            number: before.as_ref().map_or(0, |before| before.number) + 1,
            at,
            position: standing.position,
            firms: u64::try_from(standing.heads.len()).unwrap_or(u64::MAX),
            heads: standing.root(),
            seals: standing.seals,
            sealed: standing.sealed,
            open: standing.open,
            previous: before.map_or(GENESIS_HASH, |before| before.hash()),
            key_id: key.public().id(),
        })
    }
}

fn signed(checkpoint: AuditCheckpoint, key: &SigningKey) -> SignedCheckpoint {
    let signature = hex::encode(key.sign(&checkpoint.signed_bytes()));
    SignedCheckpoint { checkpoint, public_key: key.public().hex(), signature }
}
