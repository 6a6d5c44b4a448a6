//! The notary: the keys and the signed checkpoints of one service. It says whether it may sign, and
//! reads the state to be signed. It signs in a turn.

use domain::audit::{LastSignature, SeriesState, SigningRefusal};
use projector::signatures;
use sqlx::PgConnection;
use uuid::Uuid;

use crate::checkpoints::CheckpointFolder;
use crate::complete::{LogStretch, require_complete};
use crate::error::AuditError;
use crate::keys::{KeyFolder, PublicKey};
use crate::snapshot::{self, AuditSnapshot};

/// The keys and the signed checkpoints of one service.
#[derive(Debug, Clone)]
pub struct Notary {
    /// The keys.
    pub keys: KeyFolder,
    /// The checkpoints.
    pub checkpoints: CheckpointFolder,
}

/// Public keys, and their source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownKeys {
    /// The keys.
    pub keys: Vec<PublicKey>,
    /// Their source.
    pub source: KeySource,
}

/// The source of public keys. Trust in a signature is trust in this source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeySource {
    /// The folder of the private keys.
    SignersFolder,
    /// The folder of the checkpoints that they signed.
    BesideCheckpoints,
}

impl Notary {
    /// Whether this notary has the key that signs.
    #[must_use]
    pub fn can_sign(&self) -> bool {
        self.keys.current_key().is_ok_and(|key| key.is_some())
    }

    /// Why this notary may not sign the next checkpoint of an installation.
    ///
    /// # Errors
    /// If a file cannot be read.
    pub fn signing_refusal(
        &self,
        remembered: Option<&LastSignature>,
        installation_id: Option<Uuid>,
    ) -> Result<Option<SigningRefusal>, AuditError> {
        let remembered_file = match remembered {
            Some(remembered) => self.checkpoints.read_numbered(remembered.number)?,
            None => None,
        };
        let last_file = self.checkpoints.read_last()?;
        let signing_key_id = self.keys.current_key()?.map(|key| key.public().id());
        let key_ids: Vec<String> = self.keys.public_keys()?.iter().map(PublicKey::id).collect();
        let state = SeriesState {
            remembered,
            remembered_file: remembered_file.as_ref().map(|file| &file.checkpoint),
            last_file: last_file.as_ref().map(|file| &file.checkpoint),
            key_ids: &key_ids,
            signing_key_id: signing_key_id.as_deref(),
            installation_id,
        };
        Ok(state.check_signer().err())
    }

    /// Why this notary may not begin a new series.
    ///
    /// # Errors
    /// If a file cannot be read.
    pub fn new_series_refusal(&self) -> Result<Option<SigningRefusal>, AuditError> {
        let last = self.checkpoints.numbered_files()?.last().map(|(number, _)| *number);
        Ok(last.map(|number| SigningRefusal::OldSeriesThere { number }))
    }

    /// The keys that a verification trusts by default. A machine without the signer's keys takes
    /// the public keys that lie beside the checkpoints.
    ///
    /// # Errors
    /// If a file cannot be read.
    pub fn known_keys(&self) -> Result<KnownKeys, AuditError> {
        let keys = self.keys.public_keys()?;
        if keys.is_empty() {
            let keys = self.checkpoints.public_keys()?;
            return Ok(KnownKeys { keys, source: KeySource::BesideCheckpoints });
        }
        Ok(KnownKeys { keys, source: KeySource::SignersFolder })
    }

    /// The current state, if the log agrees with the last signed checkpoint, and the audit log has
    /// the entry of each event since.
    pub(crate) async fn checked_snapshot(
        &self,
        connection: &mut PgConnection,
    ) -> Result<AuditSnapshot, AuditError> {
        let last = self.checkpoints.read_last()?;
        if let Some(last) = &last {
            snapshot::require_unbroken(connection, &last.checkpoint).await?;
        }
        let standing = AuditSnapshot::read(connection).await?;
        // A new series begins in an empty folder, and the database knows the last signature.
        let after = match last {
            Some(last) => last.checkpoint.position,
            None => signatures::last(connection).await?.map_or(0, |last| last.position),
        };
        let stretch = LogStretch { after, through: standing.position };
        require_complete(connection, stretch).await?;
        Ok(standing)
    }
}
