//! Rewrapping: what is sealed under the wrapping key is sealed under another one. Nothing that people
//! answered is touched: their data keys are.
//!
//! Nobody else may be at work: who has the old key in memory would write what nobody can read. Killed
//! on the way, it is run again: what opens under the new key already is left as it is.

use sqlx::{Connection, PgConnection};
use uuid::Uuid;

use crate::entropy::Entropy;
use crate::keyring::{CHECK, IDENTITY, Subject, purpose as of_subject};
use crate::responses::VaultError;
use crate::seal::{Broken, WrappingKey};
use crate::secrets::purpose as of_firm;

/// Rows at a time.
const BATCH: i64 = 1_000;

/// From one wrapping key to another.
pub struct Rewrap<'a> {
    /// The key that everything is under now.
    pub from: &'a WrappingKey,
    /// The key that it is under afterwards.
    pub to: &'a WrappingKey,
    /// Where nonces come from.
    pub entropy: &'a dyn Entropy,
}

/// What was sealed anew.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Rewrapped {
    /// Data keys.
    pub data_keys: u64,
    /// Signing secrets and reply addresses of firms.
    pub of_firms: u64,
}

impl Rewrap<'_> {
    /// Rewraps everything: firms' secrets in the main database, then the keyring. From its first moment
    /// to its last, neither key is taken for the right one.
    ///
    /// # Errors
    /// [`VaultError::Broken`] if `from` is not the key that everything is under, and nothing has changed
    /// then; otherwise if a database does not answer: run it again.
    pub async fn run(
        &self,
        main: &mut PgConnection,
        keyring: &mut PgConnection,
    ) -> Result<Rewrapped, VaultError> {
        self.begin(keyring).await?;
        let mut done = Rewrapped::default();
        for (table, column, what) in [
            ("webhook_secrets", "secret", b"secret".as_slice()),
            ("firm_contacts", "contact", b"contact"),
        ] {
            done.of_firms += self.firms(main, (table, column), what).await?;
        }
        done.data_keys = self.data_keys(keyring).await?;
        self.end(keyring).await?;
        Ok(done)
    }

    /// The bytes under the new key; none if they are.
    fn seal(&self, purpose: &[u8], sealed: &[u8]) -> Result<Option<Vec<u8>>, Broken> {
        match self.from.0.open(purpose, sealed) {
            Ok(bytes) => self.to.0.seal(purpose, &bytes, self.entropy).map(Some),
            Err(Broken) => self.to.0.open(purpose, sealed).map(|_| None),
        }
    }

    async fn begin(&self, keyring: &mut PgConnection) -> Result<(), VaultError> {
        let sealed: Vec<u8> = sqlx::query_scalar("select sealed from wrapping_check")
            .fetch_one(&mut *keyring)
            .await?;
        self.seal(CHECK, &sealed)?;
        sqlx::query("update wrapping_check set rewrapping = true").execute(keyring).await?;
        Ok(())
    }

    async fn end(&self, keyring: &mut PgConnection) -> Result<(), VaultError> {
        let mut transaction = keyring.begin().await?;
        let sealed: Option<Vec<u8>> = sqlx::query_scalar("select sealed from identity_key")
            .fetch_optional(&mut *transaction)
            .await?;
        if let Some(sealed) =
            sealed.map(|sealed| self.seal(IDENTITY, &sealed)).transpose()?.flatten()
        {
            sqlx::query("update identity_key set sealed = $1")
                .bind(sealed)
                .execute(&mut *transaction)
                .await?;
        }
        sqlx::query("update wrapping_check set sealed = $1, rewrapping = false")
            .bind(self.to.0.seal(CHECK, CHECK, self.entropy)?)
            .execute(&mut *transaction)
            .await?;
        Ok(transaction.commit().await?)
    }

    async fn firms(
        &self,
        main: &mut PgConnection,
        (table, column): (&'static str, &'static str),
        what: &[u8],
    ) -> Result<u64, VaultError> {
        let (mut after, mut count) = (Uuid::nil(), 0);
        let read = format!(
            "select firm_id, {column} from {table} where firm_id > $1 order by firm_id limit $2"
        );
        let write = format!(
            "update {table} r set {column} = t.sealed
               from unnest($1::uuid[], $2::bytea[]) as t(firm_id, sealed) where r.firm_id = t.firm_id"
        );
        loop {
            let rows: Vec<(Uuid, Vec<u8>)> =
                sqlx::query_as(&read).bind(after).bind(BATCH).fetch_all(&mut *main).await?;
            let Some((last, _)) = rows.last() else { return Ok(count) };
            after = *last;
            let (mut firm_ids, mut sealed) = (Vec::new(), Vec::new());
            for (firm_id, bytes) in rows {
                if let Some(anew) = self.seal(&of_firm(what, firm_id), &bytes)? {
                    firm_ids.push(firm_id);
                    sealed.push(anew);
                }
            }
            count += firm_ids.len() as u64;
            sqlx::query(&write).bind(firm_ids).bind(sealed).execute(&mut *main).await?;
        }
    }

    async fn data_keys(&self, keyring: &mut PgConnection) -> Result<u64, VaultError> {
        let (mut after, mut count) = ((Uuid::nil(), Uuid::nil()), 0);
        loop {
            let rows: Vec<(Uuid, Uuid, Vec<u8>)> = sqlx::query_as(
                "select firm_id, subject_id, wrapped from data_keys
                  where (firm_id, subject_id) > ($1, $2) order by firm_id, subject_id limit $3",
            )
            .bind(after.0)
            .bind(after.1)
            .bind(BATCH)
            .fetch_all(&mut *keyring)
            .await?;
            let Some((firm_id, subject_id, _)) = rows.last() else { return Ok(count) };
            after = (*firm_id, *subject_id);
            count += self.write_keys(keyring, rows).await?;
        }
    }

    async fn write_keys(
        &self,
        keyring: &mut PgConnection,
        rows: Vec<(Uuid, Uuid, Vec<u8>)>,
    ) -> Result<u64, VaultError> {
        let (mut firm_ids, mut subject_ids, mut wrapped) = (Vec::new(), Vec::new(), Vec::new());
        for (firm_id, subject_id, bytes) in rows {
            let purpose = of_subject(&Subject { firm_id, subject_id });
            if let Some(anew) = self.seal(&purpose, &bytes)? {
                firm_ids.push(firm_id);
                subject_ids.push(subject_id);
                wrapped.push(anew);
            }
        }
        let count = firm_ids.len() as u64;
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
        Ok(count)
    }
}
