//! Taking a checkpoint: look, sign, keep. Two that take one at a time take two.

use domain::audit::{BEGINNING, Checkpoint, VERSION};
use domain::time::Timestamp;
use sqlx::{PgConnection, PgPool};
use vault::Entropy;

use crate::error::AuditError;
use crate::files::{Checkpoints, Signed};
use crate::keys::{Keys, SigningKey};
use crate::snapshot::{self, Standing};

/// Who takes checkpoints: keys, and where checkpoints are kept.
#[derive(Debug, Clone)]
pub struct Notary {
    /// The keys.
    pub keys: Keys,
    /// The checkpoints.
    pub checkpoints: Checkpoints,
}

impl Notary {
    /// Takes a checkpoint of how everything stands now, and keeps it.
    ///
    /// # Errors
    /// If the database does not answer, a file cannot be read or written, or the log is not what was
    /// signed last.
    pub async fn take(
        &self,
        pool: &PgPool,
        entropy: &dyn Entropy,
        at: Timestamp,
    ) -> Result<Signed, AuditError> {
        let mut transaction = snapshot::begin(pool).await?;
        let standing = self.standing(&mut transaction).await?;
        transaction.rollback().await?;
        self.sign(&standing, entropy, at)
    }

    /// How everything stands, if the log still says what was signed last.
    pub(crate) async fn standing(
        &self,
        connection: &mut PgConnection,
    ) -> Result<Standing, AuditError> {
        if let Some(last) = self.checkpoints.last()? {
            snapshot::goes_on_from(connection, &last.checkpoint).await?;
        }
        Standing::read(connection).await
    }

    /// Signs a standing, and keeps it at the next free place.
    pub(crate) fn sign(
        &self,
        standing: &Standing,
        entropy: &dyn Entropy,
        at: Timestamp,
    ) -> Result<Signed, AuditError> {
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
        standing: &Standing,
        at: Timestamp,
        key: &SigningKey,
    ) -> Result<Checkpoint, AuditError> {
        let before = self.checkpoints.last()?.map(|signed| signed.checkpoint);
        Ok(Checkpoint {
            v: VERSION,
            number: before.as_ref().map_or(0, |before| before.number) + 1,
            at,
            position: standing.position,
            firms: u64::try_from(standing.heads.len()).unwrap_or(u64::MAX),
            heads: standing.root(),
            seals: standing.seals,
            sealed: standing.sealed,
            open: standing.open,
            previous: before.map_or(BEGINNING, |before| before.hash()),
            key_id: key.public().id(),
        })
    }
}

fn signed(checkpoint: Checkpoint, key: &SigningKey) -> Signed {
    let signature = hex::encode(key.sign(&checkpoint.signed_bytes()));
    Signed { checkpoint, public_key: key.public().hex(), signature }
}
