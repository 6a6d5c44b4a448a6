//! Rewrapping: encrypts everything that is under the old wrapping key under a new one. Data keys
//! change their wrapping. Answers and other data under data keys stay untouched.
//!
//! No other process may work meanwhile: a process with the old key in memory would write rows that
//! the new key cannot decrypt. A run that was killed is repeated; rows that the new key decrypts
//! stay as they are.
//!
//! A row that neither key decrypts is already lost. The run leaves such a row, names it, and goes
//! on.

use sqlx::{Connection, PgConnection};
use uuid::Uuid;

use crate::entropy::Entropy;
use crate::error::VaultError;
use crate::keyring::{IDENTITY_PURPOSE, KeySubject, key_purpose};
use crate::seal::{BrokenSeal, WRAPPING_CHECK, WrappingKey};
use crate::secrets::firm_purpose;

/// Rows in one statement.
const BATCH_ROWS: i64 = 1_000;

/// A change from one wrapping key to another.
pub struct Rewrap<'a> {
    /// The key that wraps everything before the run.
    pub from: &'a WrappingKey,
    /// The key that wraps everything after the run.
    pub to: &'a WrappingKey,
    /// The source of nonces.
    pub entropy: &'a dyn Entropy,
}

/// The state of the keyring before a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RewrapState {
    /// One key wraps everything.
    Untouched,
    /// An earlier run was cut off.
    Begun,
}

/// Size of the sample. At least one row of the sample must decrypt before anything changes.
const SAMPLE_ROWS: i64 = 100;

/// The counts of a finished run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RewrapResult {
    /// Data keys that were wrapped anew.
    pub data_keys: u64,
    /// Signing secrets and reply addresses of firms.
    pub firm_secrets: u64,
    /// Rows that neither key decrypts: table and key.
    pub damaged: Vec<String>,
}

/// The outcome for one encrypted value.
enum ResealOutcome {
    Sealed(Vec<u8>),
    /// The value is already under the new key.
    AsTheyAre,
    /// Neither key decrypts the value.
    Damaged,
}

/// A column that holds secrets of firms under the wrapping key.
struct SealedColumn {
    table: &'static str,
    column: &'static str,
    purpose: &'static [u8],
}

const SEALED_COLUMNS: [SealedColumn; 2] = [
    SealedColumn { table: "webhook_secrets", column: "secret", purpose: b"secret" },
    SealedColumn { table: "firm_contacts", column: "contact", purpose: b"contact" },
];

impl Rewrap<'_> {
    /// Marks the keyring as between two keys. From now on no process starts to work with either
    /// key. Returns whether an earlier run had already marked it.
    ///
    /// # Errors
    /// [`VaultError::Broken`] if neither key decrypts the check value or any row of the sample.
    /// Nothing has changed then. Other errors if the database does not answer.
    pub async fn begin(&self, keyring: &mut PgConnection) -> Result<RewrapState, VaultError> {
        let (sealed, rewrapping): (Vec<u8>, bool) =
            sqlx::query_as("select sealed, rewrapping from wrapping_check")
                .fetch_one(&mut *keyring)
                .await?;
        if !self.can_open(WRAPPING_CHECK, &sealed) {
            return Err(BrokenSeal.into());
        }
        self.open_sample(keyring).await?;
        sqlx::query("update wrapping_check set rewrapping = true").execute(keyring).await?;
        Ok(if rewrapping { RewrapState::Begun } else { RewrapState::Untouched })
    }

    /// Removes the mark of [`Self::begin`]. Only right while nothing was rewrapped.
    pub async fn call_off(&self, keyring: &mut PgConnection) -> Result<(), VaultError> {
        sqlx::query("update wrapping_check set rewrapping = false").execute(keyring).await?;
        Ok(())
    }

    /// Rewraps everything after [`Self::begin`]: firms' secrets in the main database, then the
    /// keyring.
    ///
    /// # Errors
    /// If a database does not answer: run it again.
    pub async fn rewrap_all(
        &self,
        main: &mut PgConnection,
        keyring: &mut PgConnection,
    ) -> Result<RewrapResult, VaultError> {
        let mut done = RewrapResult::default();
        for of_firms in &SEALED_COLUMNS {
            self.rewrap_firms(main, of_firms, &mut done).await?;
        }
        self.data_keys(keyring, &mut done).await?;
        self.finish_keyring(keyring, &mut done).await?;
        Ok(done)
    }

    /// Encrypts a value under the new key.
    fn reseal_value(&self, purpose: &[u8], sealed: &[u8]) -> Result<ResealOutcome, BrokenSeal> {
        match self.from.0.open(purpose, sealed) {
            Ok(bytes) => self.to.0.seal(purpose, &bytes, self.entropy).map(ResealOutcome::Sealed),
            Err(BrokenSeal) if self.can_open(purpose, sealed) => Ok(ResealOutcome::AsTheyAre),
            Err(BrokenSeal) => Ok(ResealOutcome::Damaged),
        }
    }

    fn can_open(&self, purpose: &[u8], sealed: &[u8]) -> bool {
        [self.from, self.to].into_iter().any(|key| key.0.open(purpose, sealed).is_ok())
    }

    /// Checks that at least one row of the sample decrypts. Single rows may be damaged.
    async fn open_sample(&self, keyring: &mut PgConnection) -> Result<(), VaultError> {
        let rows: Vec<(Uuid, Uuid, Vec<u8>)> =
            sqlx::query_as("select firm_id, subject_id, wrapped from data_keys limit $1")
                .bind(SAMPLE_ROWS)
                .fetch_all(keyring)
                .await?;
        let opens = |(firm_id, subject_id, wrapped): &(Uuid, Uuid, Vec<u8>)| {
            let subject = KeySubject { firm_id: *firm_id, subject_id: *subject_id };
            self.can_open(&key_purpose(&subject), wrapped)
        };
        if rows.is_empty() || rows.iter().any(opens) { Ok(()) } else { Err(BrokenSeal.into()) }
    }

    async fn finish_keyring(
        &self,
        keyring: &mut PgConnection,
        done: &mut RewrapResult,
    ) -> Result<(), VaultError> {
        let mut transaction = keyring.begin().await?;
        let sealed: Option<Vec<u8>> = sqlx::query_scalar("select sealed from identity_key")
            .fetch_optional(&mut *transaction)
            .await?;
        match sealed.map(|sealed| self.reseal_value(IDENTITY_PURPOSE, &sealed)).transpose()? {
            Some(ResealOutcome::Sealed(sealed)) => {
                sqlx::query("update identity_key set sealed = $1")
                    .bind(sealed)
                    .execute(&mut *transaction)
                    .await?;
            }
            Some(ResealOutcome::Damaged) => done.damaged.push("identity_key".to_owned()),
            Some(ResealOutcome::AsTheyAre) | None => {}
        }
        sqlx::query("update wrapping_check set sealed = $1, rewrapping = false")
            .bind(self.to.0.seal(WRAPPING_CHECK, WRAPPING_CHECK, self.entropy)?)
            .execute(&mut *transaction)
            .await?;
        Ok(transaction.commit().await?)
    }

    async fn rewrap_firms(
        &self,
        main: &mut PgConnection,
        SealedColumn { table, column, purpose }: &SealedColumn,
        done: &mut RewrapResult,
    ) -> Result<(), VaultError> {
        let mut after = Uuid::nil();
        let read = format!(
            "select firm_id, {column} from {table} where firm_id > $1 order by firm_id limit $2"
        );
        let write = format!(
            "update {table} r set {column} = t.sealed
               from unnest($1::uuid[], $2::bytea[]) as t(firm_id, sealed) where r.firm_id = t.firm_id"
        );
        loop {
            let rows: Vec<(Uuid, Vec<u8>)> =
                sqlx::query_as(&read).bind(after).bind(BATCH_ROWS).fetch_all(&mut *main).await?;
            let Some((last, _)) = rows.last() else { return Ok(()) };
            after = *last;
            let mut firm_ids = Vec::new();
            let mut sealed = Vec::new();
            for (firm_id, bytes) in rows {
                match self.reseal_value(&firm_purpose(purpose, firm_id), &bytes)? {
                    ResealOutcome::Sealed(anew) => {
                        firm_ids.push(firm_id);
                        sealed.push(anew);
                    }
                    ResealOutcome::AsTheyAre => {}
                    ResealOutcome::Damaged => done.damaged.push(format!("{table} {firm_id}")),
                }
            }
            done.firm_secrets += firm_ids.len() as u64;
            sqlx::query(&write).bind(firm_ids).bind(sealed).execute(&mut *main).await?;
        }
    }

    async fn data_keys(
        &self,
        keyring: &mut PgConnection,
        done: &mut RewrapResult,
    ) -> Result<(), VaultError> {
        let mut after = (Uuid::nil(), Uuid::nil());
        loop {
            let rows: Vec<(Uuid, Uuid, Vec<u8>)> = sqlx::query_as(
                "select firm_id, subject_id, wrapped from data_keys
                  where (firm_id, subject_id) > ($1, $2) order by firm_id, subject_id limit $3",
            )
            .bind(after.0)
            .bind(after.1)
            .bind(BATCH_ROWS)
            .fetch_all(&mut *keyring)
            .await?;
            let Some((firm_id, subject_id, _)) = rows.last() else { return Ok(()) };
            after = (*firm_id, *subject_id);
            self.write_keys(keyring, rows, done).await?;
        }
    }

    async fn write_keys(
        &self,
        keyring: &mut PgConnection,
        rows: Vec<(Uuid, Uuid, Vec<u8>)>,
        done: &mut RewrapResult,
    ) -> Result<(), VaultError> {
        let mut firm_ids = Vec::new();
        let mut subject_ids = Vec::new();
        let mut wrapped = Vec::new();
        for (firm_id, subject_id, bytes) in rows {
            let purpose = key_purpose(&KeySubject { firm_id, subject_id });
            match self.reseal_value(&purpose, &bytes)? {
                ResealOutcome::Sealed(anew) => {
                    firm_ids.push(firm_id);
                    subject_ids.push(subject_id);
                    wrapped.push(anew);
                }
                ResealOutcome::AsTheyAre => {}
                ResealOutcome::Damaged => {
                    done.damaged.push(format!("data_keys {firm_id} {subject_id}"));
                }
            }
        }
        done.data_keys += firm_ids.len() as u64;
        sqlx::query(
            "update data_keys k set wrapped = t.wrapped
               from unnest($1::uuid[], $2::uuid[], $3::bytea[]) as t(firm_id, subject_id, wrapped)
              where (k.firm_id, k.subject_id) = (t.firm_id, t.subject_id)",
        )
        .bind(firm_ids)
        .bind(subject_ids)
        .bind(wrapped)
        .execute(keyring)
        .await?;
        Ok(())
    }
}
