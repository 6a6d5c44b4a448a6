//! The keyring: a second database with one wrapped data key per subject.

use std::collections::HashMap;
use std::io;

use chrono::{DateTime, Utc};
use eventstore::disk::{self, DiskSpace};
use eventstore::firm_rows::{self, FirmRowsCursor, FirmTable};
use eventstore::{ConnectionCache, LifeWatch, NewFormats, ReusedConnection};
use sqlx::migrate::{MigrateError, Migrator};
use sqlx::{FromRow, PgConnection, PgPool};
use uuid::Uuid;

use crate::entropy::Entropy;
use crate::error::{VaultError, unless_broken};
use crate::identity::IdentityKey;
use crate::seal::{BrokenSeal, DataKey, WRAPPING_CHECK, WrappingKey};

/// A firm, and the id of one of its responses or invites.
type SubjectIds = (Uuid, Uuid);

/// The owner of a data key: a response or an invite of a firm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KeySubject {
    /// The firm.
    pub firm_id: Uuid,
    /// The response or invite.
    pub subject_id: Uuid,
}

impl KeySubject {
    /// The firm, and the id of the subject within it.
    #[must_use]
    pub const fn ids(&self) -> SubjectIds {
        (self.firm_id, self.subject_id)
    }
}

impl From<SubjectIds> for KeySubject {
    fn from(ids: SubjectIds) -> Self {
        let (firm_id, subject_id) = ids;
        Self { firm_id, subject_id }
    }
}

/// An erasure that the keyring has carried out, by its event in the main database's log.
#[derive(Debug, Clone, PartialEq, Eq, FromRow)]
pub struct ErasedUpTo {
    /// The position of the event.
    pub position: i64,
    /// The digest of the event. A restored log has another event at the position, or none.
    pub digest: Vec<u8>,
}

/// Firm, subject, and the subject's wrapped data key.
type DataKeyRow = (Uuid, Uuid, Vec<u8>);

/// A trial row of 64 KiB. Digests do not compress, so it needs new pages.
const DATA_KEY_TRIAL: &str = "
    insert into data_keys (firm_id, subject_id, wrapped)
    select '00000000-0000-0000-0000-000000000000', gen_random_uuid(),
           convert_to(string_agg(md5(n::text), ''), 'utf8')
      from generate_series(1, 2048) n";

/// Asks the keyring for a row, which needs its server and its schema.
///
/// # Errors
/// If the database does not answer, or has no tables of a keyring.
pub async fn ask_keyring(connection: &mut PgConnection) -> Result<(), sqlx::Error> {
    sqlx::query("select from wrapping_check").fetch_optional(connection).await?;
    Ok(())
}

/// Tries to write a data key over this connection, and takes it back.
///
/// # Errors
/// If the database does not answer, or refuses for another reason than a full disk.
pub async fn try_keyring_write(connection: &mut PgConnection) -> Result<DiskSpace, sqlx::Error> {
    disk::try_write(connection, DATA_KEY_TRIAL).await
}

/// The purpose that the identity key is encrypted for.
pub(crate) const IDENTITY_PURPOSE: &[u8] = b"identity key";

/// The data keys of a firm, in the order of their subjects.
const KEYS_OF_FIRMS: &[FirmTable] = &[FirmTable { name: "data_keys", key: "subject_id" }];

/// Why a keyring refuses a wrapping key.
#[derive(Debug, thiserror::Error)]
pub enum WrongKey {
    /// The keyring was made with another wrapping key, or the database did not answer.
    #[error(
        "the keyring was made with another wrapping key: every process needs the same one ({0})"
    )]
    Another(#[from] VaultError),
    /// A rewrap was begun and not finished.
    #[error("the keyring is between two wrapping keys: run `firmforms keyring rewrap` again")]
    Rewrapping,
}

impl From<sqlx::Error> for WrongKey {
    fn from(error: sqlx::Error) -> Self {
        Self::Another(error.into())
    }
}

/// The data keys of some subjects.
pub type DataKeys = HashMap<KeySubject, DataKey>;

/// The database of wrapped data keys, with the wrapping key.
#[derive(Clone)]
pub struct Keyring {
    connections: ConnectionCache,
    wrapping: WrappingKey,
    main: Option<MainDatabase>,
    new_formats: NewFormats,
}

/// The hosts of a keyring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyringHosts {
    /// Other hosts than the main database's.
    Own,
    /// The hosts of the main database. A primary of one database is the primary of both.
    OfMain,
}

/// The main database of a keyring.
#[derive(Clone)]
struct MainDatabase {
    life: LifeWatch,
    hosts: KeyringHosts,
}

/// Whether the keyring in this database was used with a wrapping key. A database without its tables
/// was not.
///
/// # Errors
/// If the database does not answer, or refuses.
pub async fn is_in_use(connection: &mut PgConnection) -> Result<bool, sqlx::Error> {
    let there = "select to_regclass('public.wrapping_check') is not null";
    if !sqlx::query_scalar(there).fetch_one(&mut *connection).await? {
        return Ok(false);
    }
    let used = "select exists (select from public.wrapping_check)";
    sqlx::query_scalar(used).fetch_one(connection).await
}

/// The check value of the keyring in this database, as [`WrappingKey::opens_check`] takes it.
/// `None` for a keyring that was never used.
///
/// # Errors
/// If the database does not answer. [`WrongKey::Rewrapping`] between two keys.
pub async fn sealed_check(pool: &PgPool) -> Result<Option<Vec<u8>>, WrongKey> {
    let check: Option<(Vec<u8>, bool)> =
        sqlx::query_as("select sealed, rewrapping from wrapping_check")
            .fetch_optional(pool)
            .await?;
    match check {
        Some((_, true)) => Err(WrongKey::Rewrapping),
        check => Ok(check.map(|(sealed, _)| sealed)),
    }
}

/// The migrations of the keyring.
pub static KEYRING_MIGRATIONS: Migrator = sqlx::migrate!("../migrations/keyring");

impl Keyring {
    /// The keyring in this database.
    #[must_use]
    pub fn new(pool: PgPool, wrapping: WrappingKey) -> Self {
        let connections = ConnectionCache::new(pool);
        Self { connections, wrapping, main: None, new_formats: NewFormats::default() }
    }

    /// Returns the same keyring, whose keys deflate texts while new formats are allowed.
    #[must_use]
    pub fn with_formats(self, new_formats: NewFormats) -> Self {
        Self { new_formats, ..self }
    }

    /// Whether older builds serve the same database.
    #[must_use]
    pub const fn new_formats(&self) -> &NewFormats {
        &self.new_formats
    }

    /// Ties the keyring to this main database. If one server holds both databases,
    /// [`Self::make_keys`] does not wait for the disk. Data under a new key is committed later, and
    /// that commit flushes the key too: both share one write-ahead log. The transaction of the data
    /// begins before the key is made, or its statement names the life of the server before that. So
    /// a crash between them refuses the commit. The next try must make the key again.
    #[must_use]
    pub fn tied_to_main(self, life: LifeWatch, hosts: KeyringHosts) -> Self {
        Self { main: Some(MainDatabase { life, hosts }), ..self }
    }

    /// Returns the same keyring with a watch of its server's life. The pool must tell it of new
    /// connections.
    #[must_use]
    pub fn watched_by(self, life: LifeWatch) -> Self {
        let connections = ConnectionCache::watched(self.pool().clone(), life);
        Self { connections, ..self }
    }

    /// Start time of the main database's server, if known.
    fn main_started_at(&self) -> Option<DateTime<Utc>> {
        self.main.as_ref()?.life.present_life().map(|life| life.started_at)
    }

    /// Confirms that a committed change stays, and gives the connection back. Fails if this server
    /// is not the primary any more, because the change is lost with an old primary. The main
    /// database may have moved to a newer primary before the keyring did, so its life counts too.
    fn confirm_change(&self, connection: ReusedConnection) -> Result<(), sqlx::Error> {
        connection.require_this_life()?;
        let main = self.main.as_ref().filter(|main| main.hosts == KeyringHosts::OfMain);
        if let (Some(main), Some(own)) =
            (main.and_then(|main| main.life.present_life()), self.life().present_life())
            && own.is_older_than(&main)
        {
            let left = "the keyring is on an older primary than the main database";
            return Err(io::Error::other(left).into());
        }
        self.connections.give_back(connection);
        Ok(())
    }

    /// The watch of its server's life.
    #[must_use]
    pub const fn life(&self) -> &LifeWatch {
        self.connections.life()
    }

    /// The connection pool, for metrics and checks.
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

    /// The keyring's database, and the migrations that this build knows.
    #[must_use]
    pub fn schema(&self) -> (&PgPool, &'static Migrator) {
        (self.pool(), &KEYRING_MIGRATIONS)
    }

    /// Closes all connections.
    pub async fn close(&self) {
        self.connections.close().await;
    }

    /// The wrapping key, for secrets that belong to no subject.
    #[must_use]
    pub const fn wrapping_key(&self) -> &WrappingKey {
        &self.wrapping
    }

    /// The data keys of these subjects. Makes missing keys; two concurrent callers get the same
    /// key.
    pub async fn make_keys(
        &self,
        subjects: &[KeySubject],
        entropy: &dyn Entropy,
    ) -> Result<DataKeys, sqlx::Error> {
        let mut subjects = subjects.to_vec();
        subjects.sort_unstable();
        subjects.dedup();
        let (firm_ids, subject_ids) = subject_columns(&subjects);
        let wrapped = subjects
            .iter()
            .map(|subject| {
                self.wrapping.0.seal(&key_purpose(subject), &entropy.new_secret(), entropy)
            })
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| sqlx::Error::Encode(Box::new(error)))?;
        let mut connection = self.connections.take().await?;
        // `flush` turns the wait for the disk off if this server is also the main database's: both
        // then have one start time. The update changes nothing. Without it, `returning` would leave
        // out keys that were there.
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
        .bind(self.main_started_at())
        .fetch_all(&mut *connection)
        .await?;
        // Data under a lost key could never be read again.
        self.confirm_change(connection)?;
        Ok(self.unwrap_keys(&rows))
    }

    /// The data keys of these subjects, as far as there are any. Leaves out a damaged key, so that
    /// other subjects are still served.
    pub async fn find_keys(&self, subjects: &[KeySubject]) -> Result<DataKeys, sqlx::Error> {
        let (firm_ids, subject_ids) = subject_columns(subjects);
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
        Ok(self.unwrap_keys(&rows))
    }

    /// Decrypts data keys. Leaves out and logs a key that does not decrypt.
    fn unwrap_keys(&self, rows: &[DataKeyRow]) -> DataKeys {
        rows.iter()
            .filter_map(|(firm_id, subject_id, wrapped)| {
                let subject = KeySubject { firm_id: *firm_id, subject_id: *subject_id };
                Some((subject, unless_broken(self.open_key(&subject, wrapped), *subject_id)?))
            })
            .collect()
    }

    fn open_key(&self, subject: &KeySubject, wrapped: &[u8]) -> Result<DataKey, VaultError> {
        let bytes = self.wrapping.0.open(&key_purpose(subject), wrapped)?;
        let key = DataKey::new(&<[u8; 32]>::try_from(bytes).map_err(|_| BrokenSeal)?);
        Ok(key.that_deflates(self.new_formats.are_allowed()))
    }

    /// Deletes the data keys of subjects. Everything under these keys is lost for good, in every
    /// copy.
    pub async fn forget_keys(&self, subjects: &[KeySubject]) -> Result<(), sqlx::Error> {
        let mut connection = self.connections.take().await?;
        delete_keys(&mut connection, subjects).await?;
        self.confirm_change(connection)
    }

    /// The firms among these that have data keys.
    pub async fn firms_with_keys(&self, firm_ids: &[Uuid]) -> Result<Vec<Uuid>, sqlx::Error> {
        let mut connection = self.connections.take().await?;
        let firms = firm_rows::with_rows(&mut connection, KEYS_OF_FIRMS, firm_ids).await?;
        self.connections.give_back(connection);
        Ok(firms)
    }

    /// Deletes the next data keys of a firm, up to `limit`. Returns their number: fewer than
    /// `limit` if none is left behind the cursor.
    pub async fn forget_firm(
        &self,
        firm_id: Uuid,
        cursor: &mut FirmRowsCursor,
        limit: usize,
    ) -> Result<usize, sqlx::Error> {
        let mut connection = self.connections.take().await?;
        let forgotten =
            firm_rows::drop_next(&mut connection, KEYS_OF_FIRMS, firm_id, cursor, limit).await?;
        self.confirm_change(connection)?;
        Ok(forgotten)
    }

    /// Dead rows of data keys, as the server last counted them. Each still holds its key.
    pub async fn dead_rows(&self) -> Result<i64, sqlx::Error> {
        sqlx::query_scalar(
            "select coalesce(sum(n_dead_tup), 0)::bigint
               from pg_stat_user_tables where relname = 'data_keys'",
        )
        .fetch_one(self.pool())
        .await
    }

    /// The last erasure that was carried out here.
    pub async fn erased_up_to(&self) -> Result<Option<ErasedUpTo>, sqlx::Error> {
        sqlx::query_as("select position, digest from erased_up_to")
            .fetch_optional(self.pool())
            .await
    }

    /// Deletes the data keys of erased subjects like [`Self::forget_keys`], and marks the last of
    /// these erasures. One commit does both, so a backup has both or neither.
    pub async fn forget_up_to(
        &self,
        subjects: &[KeySubject],
        last: &ErasedUpTo,
    ) -> Result<(), sqlx::Error> {
        let mut transaction = self.connections.begin().await?;
        delete_keys(&mut transaction, subjects).await?;
        sqlx::query(
            "insert into erased_up_to (position, digest) values ($1, $2)
                 on conflict (single) do update
                    set position = excluded.position, digest = excluded.digest",
        )
        .bind(last.position)
        .bind(&last.digest)
        .execute(&mut *transaction)
        .await?;
        transaction.commit().await?;
        self.confirm_change(transaction)
    }

    /// The identity key. Makes the key if there is none.
    pub async fn identity_key(&self, entropy: &dyn Entropy) -> Result<IdentityKey, VaultError> {
        let sealed = self.wrapping.0.seal(IDENTITY_PURPOSE, &entropy.new_secret(), entropy)?;
        sqlx::query("insert into identity_key (sealed) values ($1) on conflict do nothing")
            .bind(sealed)
            .execute(self.pool())
            .await?;
        let sealed: Vec<u8> =
            sqlx::query_scalar("select sealed from identity_key").fetch_one(self.pool()).await?;
        let key = self.wrapping.0.open(IDENTITY_PURPOSE, &sealed)?;
        Ok(IdentityKey::new(&<[u8; 32]>::try_from(key).map_err(|_| BrokenSeal)?))
    }

    /// Checks the wrapping key and reads the identity key, without writing anything. A keyring that
    /// was never used passes, and has no identity key yet.
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

    /// Checks that the keyring was made with this wrapping key. The first check decrypts one data
    /// key, if there is one, and stores a check value. Later checks decrypt that value.
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
            self.open_key(&KeySubject { firm_id, subject_id }, &wrapped)?;
        }
        let sealed = self.wrapping.0.seal(WRAPPING_CHECK, WRAPPING_CHECK, entropy)?;
        sqlx::query("insert into wrapping_check (sealed) values ($1) on conflict do nothing")
            .bind(sealed)
            .execute(self.pool())
            .await?;
        Ok(())
    }
}

async fn delete_keys(
    connection: &mut PgConnection,
    subjects: &[KeySubject],
) -> Result<(), sqlx::Error> {
    let (firm_ids, subject_ids) = subject_columns(subjects);
    sqlx::query(
        "delete from data_keys
          where (firm_id, subject_id) in (select * from unnest($1::uuid[], $2::uuid[]))",
    )
    .bind(firm_ids)
    .bind(subject_ids)
    .execute(connection)
    .await?;
    Ok(())
}

fn subject_columns(subjects: &[KeySubject]) -> (Vec<Uuid>, Vec<Uuid>) {
    subjects.iter().map(|subject| (subject.firm_id, subject.subject_id)).unzip()
}

pub(crate) fn key_purpose(subject: &KeySubject) -> Vec<u8> {
    [b"data key", subject.firm_id.as_bytes().as_slice(), subject.subject_id.as_bytes()].concat()
}
