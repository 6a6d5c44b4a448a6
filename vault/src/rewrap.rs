//! Rewrapping: what is sealed under the wrapping key is sealed under another one. Nothing that people
//! answered is touched: their data keys are.
//!
//! Nobody else may be at work: who has the old key in memory would write what nobody can read. Killed
//! on the way, it is run again: what opens under the new key already is left as it is.
//!
//! What opens under neither key is lost already: it is left as it is and named, and keeps nobody from the
//! rest.

use sqlx::{Connection, PgConnection};
use uuid::Uuid;

use crate::entropy::Entropy;
use crate::keyring::{IDENTITY_PURPOSE, KeySubject, WRAPPING_CHECK, purpose as of_subject};
use crate::responses::VaultError;
use crate::seal::{BrokenSeal, WrappingKey};
use crate::secrets::purpose as of_firm;

/// Rows at a time.
const BATCH_ROWS: i64 = 1_000;

/// From one wrapping key to another.
pub struct Rewrap<'a> {
    /// The key that everything is under now.
    pub from: &'a WrappingKey,
    /// The key that it is under afterwards.
    pub to: &'a WrappingKey,
    /// Where nonces come from.
    pub entropy: &'a dyn Entropy,
}

/// How it was before a run began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RewrapState {
    /// Everything was under one key.
    Untouched,
    /// A run before was cut off.
    Begun,
}

/// Rows of which one has to open before anything is changed.
const SAMPLE_ROWS: i64 = 100;

/// What was sealed anew.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RewrapResult {
    /// Data keys.
    pub data_keys: u64,
    /// Signing secrets and reply addresses of firms.
    pub firm_secrets: u64,
    /// What opens under neither key: the table, and the row's key.
    pub damaged: Vec<String>,
}

/// What becomes of sealed bytes.
enum ResealOutcome {
    Sealed(Vec<u8>),
    /// They are under the new key.
    AsTheyAre,
    /// They open under neither.
    Damaged,
}

/// Where firms have something under the wrapping key.
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
    /// From now on neither key is taken for the right one: nobody begins to work. Says whether it was so
    /// before, from a run that was cut off.
    ///
    /// # Errors
    /// [`VaultError::Broken`] if neither is the key that everything is under, and nothing has changed then;
    /// otherwise if the database does not answer.
    pub async fn begin(&self, keyring: &mut PgConnection) -> Result<RewrapState, VaultError> {
        let (sealed, rewrapping): (Vec<u8>, bool) =
            sqlx::query_as("select sealed, rewrapping from wrapping_check")
                .fetch_one(&mut *keyring)
                .await?;
        if !self.opens(WRAPPING_CHECK, &sealed) {
            return Err(BrokenSeal.into());
        }
        self.open_sample(keyring).await?;
        sqlx::query("update wrapping_check set rewrapping = true").execute(keyring).await?;
        Ok(if rewrapping { RewrapState::Begun } else { RewrapState::Untouched })
    }

    /// Leaves everything as it was: nothing was rewrapped since it began.
    ///
    /// # Errors
    /// If the database does not answer.
    pub async fn call_off(&self, keyring: &mut PgConnection) -> Result<(), VaultError> {
        sqlx::query("update wrapping_check set rewrapping = false").execute(keyring).await?;
        Ok(())
    }

    /// Rewraps everything, once it has begun: firms' secrets in the main database, then the keyring.
    ///
    /// # Errors
    /// If a database does not answer: run it again.
    pub async fn run(
        &self,
        main: &mut PgConnection,
        keyring: &mut PgConnection,
    ) -> Result<RewrapResult, VaultError> {
        let mut done = RewrapResult::default();
        for of_firms in &SEALED_COLUMNS {
            self.firms(main, of_firms, &mut done).await?;
        }
        self.data_keys(keyring, &mut done).await?;
        self.end(keyring, &mut done).await?;
        Ok(done)
    }

    /// The bytes under the new key.
    fn seal(&self, purpose: &[u8], sealed: &[u8]) -> Result<ResealOutcome, BrokenSeal> {
        match self.from.0.open(purpose, sealed) {
            Ok(bytes) => self.to.0.seal(purpose, &bytes, self.entropy).map(ResealOutcome::Sealed),
            Err(BrokenSeal) if self.opens(purpose, sealed) => Ok(ResealOutcome::AsTheyAre),
            Err(BrokenSeal) => Ok(ResealOutcome::Damaged),
        }
    }

    fn opens(&self, purpose: &[u8], sealed: &[u8]) -> bool {
        [self.from, self.to].into_iter().any(|key| key.0.open(purpose, sealed).is_ok())
    }

    /// A few may be damaged, and not all of them.
    async fn open_sample(&self, keyring: &mut PgConnection) -> Result<(), VaultError> {
        let rows: Vec<(Uuid, Uuid, Vec<u8>)> =
            sqlx::query_as("select firm_id, subject_id, wrapped from data_keys limit $1")
                .bind(SAMPLE_ROWS)
                .fetch_all(keyring)
                .await?;
        let opens = |(firm_id, subject_id, wrapped): &(Uuid, Uuid, Vec<u8>)| {
            let subject = KeySubject { firm_id: *firm_id, subject_id: *subject_id };
            self.opens(&of_subject(&subject), wrapped)
        };
        if rows.is_empty() || rows.iter().any(opens) { Ok(()) } else { Err(BrokenSeal.into()) }
    }

    async fn end(
        &self,
        keyring: &mut PgConnection,
        done: &mut RewrapResult,
    ) -> Result<(), VaultError> {
        let mut transaction = keyring.begin().await?;
        let sealed: Option<Vec<u8>> = sqlx::query_scalar("select sealed from identity_key")
            .fetch_optional(&mut *transaction)
            .await?;
        match sealed.map(|sealed| self.seal(IDENTITY_PURPOSE, &sealed)).transpose()? {
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

    async fn firms(
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
            let (mut firm_ids, mut sealed) = (Vec::new(), Vec::new());
            for (firm_id, bytes) in rows {
                match self.seal(&of_firm(purpose, firm_id), &bytes)? {
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
        let (mut firm_ids, mut subject_ids, mut wrapped) = (Vec::new(), Vec::new(), Vec::new());
        for (firm_id, subject_id, bytes) in rows {
            let purpose = of_subject(&KeySubject { firm_id, subject_id });
            match self.seal(&purpose, &bytes)? {
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
