//! A turn: the right of one session to sign the next checkpoint. One session of a database has it
//! at a time, so an installation of several processes has one signer at a time. A turn reads a
//! snapshot, signs it, stores the file, and notes the signature in the database.

use domain::audit::{AuditCheckpoint, FORMAT_VERSION, GENESIS_HASH, LastSignature, SigningRefusal};
use domain::values::Timestamp;
use eventstore::crash;
use eventstore::presence::{self, ProcessGroup, SolePlace};
use projector::signatures;
use sqlx::{Connection, PgConnection, PgPool};
use uuid::Uuid;
use vault::{Entropy, installation};

use crate::checkpoints::SignedCheckpoint;
use crate::error::AuditError;
use crate::keys::SigningKey;
use crate::notary::Notary;
use crate::snapshot::{self, AuditSnapshot};

/// The right to sign. Its end frees the right, also if the signer is dropped or killed.
pub(crate) struct SigningTurn<'a> {
    notary: &'a Notary,
    connection: PgConnection,
    remembered: Option<LastSignature>,
    series: SignatureSeries,
    installation_id: Option<Uuid>,
}

/// The series of a signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SignatureSeries {
    /// The series of the signature before, or the first one.
    Current,
    /// A new series.
    New,
}

impl Notary {
    /// Signs the current state of the log, and stores the signed checkpoint.
    ///
    /// # Errors
    /// If the database does not answer, another process signs, this one may not continue the
    /// series, a file cannot be read or written, or the log differs from the last signed
    /// checkpoint.
    pub async fn take_checkpoint(
        &self,
        pool: &PgPool,
        entropy: &dyn Entropy,
        at: Timestamp,
    ) -> Result<SignedCheckpoint, AuditError> {
        self.take_turn(pool).await?.take_checkpoint(pool, entropy, at).await
    }

    /// Signs the current state of the log as the first checkpoint of a new series.
    ///
    /// # Errors
    /// As [`Notary::take_checkpoint`]. The folder of checkpoints must be empty.
    pub async fn begin_series(
        &self,
        pool: &PgPool,
        entropy: &dyn Entropy,
        at: Timestamp,
    ) -> Result<SignedCheckpoint, AuditError> {
        SigningTurn::begin(self, pool, SignatureSeries::New)
            .await?
            .take_checkpoint(pool, entropy, at)
            .await
    }

    /// Takes the turn to continue the series.
    pub(crate) async fn take_turn(&self, pool: &PgPool) -> Result<SigningTurn<'_>, AuditError> {
        SigningTurn::begin(self, pool, SignatureSeries::Current).await
    }
}

impl<'a> SigningTurn<'a> {
    /// Waits some seconds for the turn, and takes it if the notary may sign.
    pub(crate) async fn begin(
        notary: &'a Notary,
        pool: &PgPool,
        series: SignatureSeries,
    ) -> Result<Self, AuditError> {
        // A pool would hand the connection, and so the turn, to another task.
        let mut connection = pool.acquire().await?.detach();
        match presence::join_alone(&mut connection, ProcessGroup::Signing).await? {
            SolePlace::Taken => {}
            SolePlace::HeldBy(holder) => return Err(AuditError::SignedElsewhere { holder }),
        }
        notary.keys.complete_pair()?;
        let remembered = signatures::last_for_signer(&mut connection).await?;
        let installation_id = installation::id_seen_by(&mut connection).await?;
        let refusal = match series {
            SignatureSeries::Current => {
                notary.signing_refusal(remembered.as_ref(), installation_id)?
            }
            SignatureSeries::New => notary.new_series_refusal()?,
        };
        match refusal {
            Some(refusal) => Err(refusal.into()),
            None => Ok(Self { notary, connection, remembered, series, installation_id }),
        }
    }

    /// The time of the last signature.
    pub(crate) fn last_signed_at(&self) -> Option<Timestamp> {
        self.remembered.as_ref().map(|last| last.at)
    }

    /// Reads the current state of the log, and signs it.
    pub(crate) async fn take_checkpoint(
        self,
        pool: &PgPool,
        entropy: &dyn Entropy,
        at: Timestamp,
    ) -> Result<SignedCheckpoint, AuditError> {
        let mut transaction = snapshot::begin(pool).await?;
        let standing = self.notary.checked_snapshot(&mut transaction).await?;
        transaction.rollback().await?;
        self.sign_snapshot(&standing, entropy, at).await
    }

    /// Signs a snapshot that was read in this turn, stores it, and notes the signature.
    pub(crate) async fn sign_snapshot(
        mut self,
        standing: &AuditSnapshot,
        entropy: &dyn Entropy,
        at: Timestamp,
    ) -> Result<SignedCheckpoint, AuditError> {
        let Notary { keys, checkpoints } = self.notary;
        let key = match keys.current_key()? {
            Some(key) => key,
            None => keys.make_next(entropy)?,
        };
        for public in keys.public_keys()? {
            checkpoints.publish_key(&public)?;
        }
        let signed = sign_checkpoint(self.next_checkpoint(standing, at, &key)?, &key);
        if !checkpoints.store_new(&signed)? {
            let number = signed.checkpoint.number;
            return Err(SigningRefusal::ForeignCheckpoint { number }.into());
        }
        crash::point("checkpointed");
        let signature = self.last_signature(&signed.checkpoint);
        signatures::note(&mut self.connection, &signature).await?;
        self.connection.close().await?;
        Ok(signed)
    }

    fn next_checkpoint(
        &self,
        standing: &AuditSnapshot,
        at: Timestamp,
        key: &SigningKey,
    ) -> Result<AuditCheckpoint, AuditError> {
        let before = self.notary.checkpoints.read_last()?.map(|signed| signed.checkpoint);
        // 0.2.0 reads no checkpoint with an id. So a series that it began goes on without ids.
        let installation_id =
            before.as_ref().map_or(self.installation_id, |before| before.installation_id);
        Ok(AuditCheckpoint {
            v: FORMAT_VERSION,
            number: before.as_ref().map_or(0, |before| before.number) + 1,
            at,
            position: standing.position,
            firms: u64::try_from(standing.heads.len()).unwrap_or(u64::MAX),
            heads: standing.heads_root(),
            seals: standing.seals,
            sealed: standing.sealed,
            open: standing.open,
            previous: before.map_or(GENESIS_HASH, |before| before.hash()),
            key_id: key.public().id(),
            installation_id,
        })
    }

    fn last_signature(&self, checkpoint: &AuditCheckpoint) -> LastSignature {
        let before = self.remembered.as_ref().map_or(0, |last| last.series);
        let series = match self.series {
            SignatureSeries::Current => before.max(1),
            SignatureSeries::New => before + 1,
        };
        LastSignature {
            series,
            number: checkpoint.number,
            hash: checkpoint.hash(),
            key_id: checkpoint.key_id.clone(),
            position: checkpoint.position,
            at: checkpoint.at,
        }
    }
}

fn sign_checkpoint(checkpoint: AuditCheckpoint, key: &SigningKey) -> SignedCheckpoint {
    let signature = hex::encode(key.sign(&checkpoint.signed_bytes()));
    SignedCheckpoint { checkpoint, public_key: key.public().hex(), signature }
}
