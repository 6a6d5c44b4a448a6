//! The keyring: one wrapped data key per subject, in a database of its own.

use std::collections::HashMap;

use chrono::{DateTime, Utc};
use eventstore::ConnectionCache;
use sqlx::PgPool;
use sqlx::migrate::{MigrateError, Migrator};
use uuid::Uuid;

use crate::entropy::Entropy;
use crate::identity::IdentityKey;
use crate::responses::{VaultError, unless_broken};
use crate::seal::{BrokenSeal, DataKey, WrappingKey};

/// Whose data a key is for: a response, or an invite, of a firm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KeySubject {
    /// The firm.
    pub firm_id: Uuid,
    /// The response or invite.
    pub subject_id: Uuid,
}

/// Firm, subject, and the subject's wrapped data key.
type DataKeyRow = (Uuid, Uuid, Vec<u8>);

/// What the identity key is sealed as.
pub(crate) const IDENTITY_PURPOSE: &[u8] = b"identity key";

/// What is sealed to tell one wrapping key from another.
pub(crate) const WRAPPING_CHECK: &[u8] = b"wrapping key";

/// Why a keyring is not used with a wrapping key.
#[derive(Debug, thiserror::Error)]
pub enum WrongKey {
    /// It is another one; or the database did not answer.
    #[error(
        "the keyring was made with another wrapping key: every process needs the same one ({0})"
    )]
    Another(#[from] VaultError),
    /// Rewrapping was begun and not ended.
    #[error("the keyring is between two wrapping keys: run `firmforms keyring rewrap` to its end")]
    Rewrapping,
}

impl From<sqlx::Error> for WrongKey {
    fn from(error: sqlx::Error) -> Self {
        Self::Another(error.into())
    }
}

/// The data keys of some subjects.
pub type DataKeys = HashMap<KeySubject, DataKey>;

/// The database of wrapped data keys, with the key that unwraps them.
#[derive(Clone)]
pub struct Keyring {
    connections: ConnectionCache,
    wrapping: WrappingKey,
    /// Start of the server that has the main database, where that is known.
    main_started_at: Option<DateTime<Utc>>,
}

/// The migrations of its database.
pub static KEYRING_MIGRATIONS: Migrator = sqlx::migrate!("../migrations/keyring");

impl Keyring {
    /// The keyring in this database.
    #[must_use]
    pub fn new(pool: PgPool, wrapping: WrappingKey) -> Self {
        Self { connections: ConnectionCache::of(pool), wrapping, main_started_at: None }
    }

    /// The keyring of this main database. If one server has both, [`Self::make`] does not wait for the
    /// disk: the data that a key seals is committed later, and that commit flushes the same log.
    ///
    /// # Errors
    /// If the database does not answer.
    pub async fn beside(self, main: &PgPool) -> Result<Self, sqlx::Error> {
        let started_at = sqlx::query_scalar("select pg_postmaster_start_time()");
        Ok(Self { main_started_at: started_at.fetch_one(main).await?, ..self })
    }

    /// Its connections, for those who watch them.
    #[must_use]
    pub const fn pool(&self) -> &PgPool {
        self.connections.pool()
    }

    /// Brings the database to this build's schema.
    ///
    /// # Errors
    /// If a migration fails.
    pub async fn migrate(&self) -> Result<(), MigrateError> {
        KEYRING_MIGRATIONS.run(self.pool()).await
    }

    /// Its database, and the migrations that this build knows of it.
    #[must_use]
    pub fn schema(&self) -> (&PgPool, &'static Migrator) {
        (self.pool(), &KEYRING_MIGRATIONS)
    }

    /// Closes its connections.
    pub async fn close(&self) {
        self.connections.close().await;
    }

    /// The key that wraps, for secrets that are no subject's.
    #[must_use]
    pub const fn wrapping(&self) -> &WrappingKey {
        &self.wrapping
    }

    /// The keys of these subjects, made where there is none. Two callers that race get one key.
    ///
    /// # Errors
    /// If the database does not answer.
    pub async fn make(
        &self,
        subjects: &[KeySubject],
        entropy: &dyn Entropy,
    ) -> Result<DataKeys, sqlx::Error> {
        let mut subjects = subjects.to_vec();
        subjects.sort_unstable();
        subjects.dedup();
        let (firm_ids, subject_ids) = columns(&subjects);
        let wrapped = subjects
            .iter()
            .map(|subject| self.wrapping.0.seal(&purpose(subject), &entropy.secret(), entropy))
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| sqlx::Error::Encode(Box::new(error)))?;
        let mut connection = self.connections.take().await?;
        let rows: Vec<DataKeyRow> = sqlx::query_as(
            "with flush as materialized (
                 select set_config('synchronous_commit',
                                   case when pg_postmaster_start_time() = $4 then 'off'
                                        else current_setting('synchronous_commit') end, true))
             insert into data_keys as k (firm_id, subject_id, wrapped)
             select t.* from unnest($1::uuid[], $2::uuid[], $3::bytea[]) t, flush
                 on conflict (firm_id, subject_id) do update set wrapped = k.wrapped
             returning firm_id, subject_id, wrapped",
        )
        .bind(firm_ids)
        .bind(subject_ids)
        .bind(wrapped)
        .bind(self.main_started_at)
        .fetch_all(&mut *connection)
        .await?;
        self.connections.give_back(connection);
        Ok(self.unwrap(&rows))
    }

    /// The keys of these subjects, where there is one; a damaged one is left out, so that it holds
    /// up no other.
    ///
    /// # Errors
    /// If the database does not answer.
    pub async fn find(&self, subjects: &[KeySubject]) -> Result<DataKeys, sqlx::Error> {
        let (firm_ids, subject_ids) = columns(subjects);
        let mut connection = self.connections.take().await?;
        let rows: Vec<DataKeyRow> = sqlx::query_as(
            "select firm_id, subject_id, wrapped from data_keys
              where (firm_id, subject_id) in (select * from unnest($1::uuid[], $2::uuid[]))",
        )
        .bind(firm_ids)
        .bind(subject_ids)
        .fetch_all(&mut *connection)
        .await?;
        self.connections.give_back(connection);
        Ok(self.unwrap(&rows))
    }

    /// A wrapped key that does not open is damaged: left out and said so.
    fn unwrap(&self, rows: &[DataKeyRow]) -> DataKeys {
        rows.iter()
            .filter_map(|(firm_id, subject_id, wrapped)| {
                let subject = KeySubject { firm_id: *firm_id, subject_id: *subject_id };
                Some((subject, unless_broken(self.open(&subject, wrapped), *subject_id)?))
            })
            .collect()
    }

    fn open(&self, subject: &KeySubject, wrapped: &[u8]) -> Result<DataKey, VaultError> {
        let bytes = self.wrapping.0.open(&purpose(subject), wrapped)?;
        Ok(DataKey::new(&<[u8; 32]>::try_from(bytes).map_err(|_| BrokenSeal)?))
    }

    /// Drops the keys of subjects: what they sealed is lost for good, copies of it too.
    ///
    /// # Errors
    /// If the database does not answer.
    pub async fn forget(&self, subjects: &[KeySubject]) -> Result<(), sqlx::Error> {
        let (firm_ids, subject_ids) = columns(subjects);
        sqlx::query(
            "delete from data_keys
              where (firm_id, subject_id) in (select * from unnest($1::uuid[], $2::uuid[]))",
        )
        .bind(firm_ids)
        .bind(subject_ids)
        .execute(self.pool())
        .await?;
        Ok(())
    }

    /// The key that tells people apart, made when there is none.
    ///
    /// # Errors
    /// [`VaultError`].
    pub async fn identity(&self, entropy: &dyn Entropy) -> Result<IdentityKey, VaultError> {
        let sealed = self.wrapping.0.seal(IDENTITY_PURPOSE, &entropy.secret(), entropy)?;
        sqlx::query("insert into identity_key (sealed) values ($1) on conflict do nothing")
            .bind(sealed)
            .execute(self.pool())
            .await?;
        let sealed: Vec<u8> =
            sqlx::query_scalar("select sealed from identity_key").fetch_one(self.pool()).await?;
        let key = self.wrapping.0.open(IDENTITY_PURPOSE, &sealed)?;
        Ok(IdentityKey::new(&<[u8; 32]>::try_from(key).map_err(|_| BrokenSeal)?))
    }

    /// Whether the wrapping key and the identity key are those that were written down at the first start,
    /// as far as they were: writes nothing.
    ///
    /// # Errors
    /// [`WrongKey`].
    pub async fn check_read_only(&self) -> Result<Option<IdentityKey>, WrongKey> {
        let check: Option<(Vec<u8>, bool)> =
            sqlx::query_as("select sealed, rewrapping from wrapping_check")
                .fetch_optional(self.pool())
                .await?;
        if let Some((sealed, rewrapping)) = check {
            if rewrapping {
                return Err(WrongKey::Rewrapping);
            }
            self.wrapping.0.open(WRAPPING_CHECK, &sealed).map_err(VaultError::from)?;
        }
        let sealed: Option<Vec<u8>> = sqlx::query_scalar("select sealed from identity_key")
            .fetch_optional(self.pool())
            .await?;
        let Some(sealed) = sealed else { return Ok(None) };
        let key = self.wrapping.0.open(IDENTITY_PURPOSE, &sealed).map_err(VaultError::from)?;
        let key = <[u8; 32]>::try_from(key).map_err(|_| VaultError::from(BrokenSeal))?;
        Ok(Some(IdentityKey::new(&key)))
    }

    /// Makes sure that this is the wrapping key the keyring was made with: some data key must open,
    /// and a sealed word, written once.
    ///
    /// # Errors
    /// [`WrongKey`].
    pub async fn check_wrapping_key(&self, entropy: &dyn Entropy) -> Result<(), WrongKey> {
        let question = "select sealed, rewrapping from wrapping_check";
        let there: Option<(Vec<u8>, bool)> =
            sqlx::query_as(question).fetch_optional(self.pool()).await?;
        let (sealed, rewrapping) = match there {
            Some(there) => there,
            None => {
                self.write_check(entropy).await?;
                sqlx::query_as(question).fetch_one(self.pool()).await?
            }
        };
        if rewrapping {
            return Err(WrongKey::Rewrapping);
        }
        self.wrapping.0.open(WRAPPING_CHECK, &sealed).map_err(VaultError::from)?;
        Ok(())
    }

    async fn write_check(&self, entropy: &dyn Entropy) -> Result<(), VaultError> {
        let some: Option<DataKeyRow> =
            sqlx::query_as("select firm_id, subject_id, wrapped from data_keys limit 1")
                .fetch_optional(self.pool())
                .await?;
        if let Some((firm_id, subject_id, wrapped)) = some {
            self.open(&KeySubject { firm_id, subject_id }, &wrapped)?;
        }
        let sealed = self.wrapping.0.seal(WRAPPING_CHECK, WRAPPING_CHECK, entropy)?;
        sqlx::query("insert into wrapping_check (sealed) values ($1) on conflict do nothing")
            .bind(sealed)
            .execute(self.pool())
            .await?;
        Ok(())
    }
}

fn columns(subjects: &[KeySubject]) -> (Vec<Uuid>, Vec<Uuid>) {
    subjects.iter().map(|subject| (subject.firm_id, subject.subject_id)).unzip()
}

pub(crate) fn purpose(subject: &KeySubject) -> Vec<u8> {
    [b"data key", subject.firm_id.as_bytes().as_slice(), subject.subject_id.as_bytes()].concat()
}
