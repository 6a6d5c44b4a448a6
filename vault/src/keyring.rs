//! The keyring: one wrapped data key per subject, in a database of its own.

use std::collections::HashMap;

use sqlx::PgPool;
use sqlx::migrate::{MigrateError, Migrator};
use uuid::Uuid;

use crate::entropy::Entropy;
use crate::seal::{DataKey, WrappingKey};

/// Whose data a key is for: a response of a firm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Subject {
    /// The firm.
    pub firm_id: Uuid,
    /// The response.
    pub response_id: Uuid,
}

/// The data keys of some subjects.
pub type DataKeys = HashMap<Subject, DataKey>;

/// The database of wrapped data keys, with the key that unwraps them.
#[derive(Clone)]
pub struct Keyring {
    pool: PgPool,
    wrapping: WrappingKey,
}

static KEYRING: Migrator = sqlx::migrate!("../migrations/keyring");

impl Keyring {
    /// The keyring in this database.
    #[must_use]
    pub const fn new(pool: PgPool, wrapping: WrappingKey) -> Self {
        Self { pool, wrapping }
    }

    /// Brings the database to this build's schema.
    ///
    /// # Errors
    /// If a migration fails.
    pub async fn migrate(&self) -> Result<(), MigrateError> {
        KEYRING.run(&self.pool).await
    }

    /// Closes its connections.
    pub async fn close(&self) {
        self.pool.close().await;
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
        subjects: &[Subject],
        entropy: &dyn Entropy,
    ) -> Result<DataKeys, sqlx::Error> {
        let mut subjects = subjects.to_vec();
        subjects.sort_unstable();
        subjects.dedup();
        let (firm_ids, response_ids) = columns(&subjects);
        let wrapped = subjects
            .iter()
            .map(|subject| {
                self.wrapping
                    .0
                    .seal(&purpose(subject), &entropy.secret(), entropy)
            })
            .collect::<Result<Vec<_>, _>>()
            .map_err(protocol)?;
        let rows = sqlx::query_as(
            "insert into data_keys as k (firm_id, subject_id, wrapped)
             select * from unnest($1::uuid[], $2::uuid[], $3::bytea[])
                 on conflict (firm_id, subject_id) do update set wrapped = k.wrapped
             returning firm_id, subject_id, wrapped",
        )
        .bind(firm_ids)
        .bind(response_ids)
        .bind(wrapped)
        .fetch_all(&self.pool)
        .await?;
        self.unwrap(rows)
    }

    /// The keys of these subjects, where there is one.
    ///
    /// # Errors
    /// If the database does not answer.
    pub async fn find(&self, subjects: &[Subject]) -> Result<DataKeys, sqlx::Error> {
        let (firm_ids, response_ids) = columns(subjects);
        let rows = sqlx::query_as(
            "select firm_id, subject_id, wrapped from data_keys
              where (firm_id, subject_id) in (select * from unnest($1::uuid[], $2::uuid[]))",
        )
        .bind(firm_ids)
        .bind(response_ids)
        .fetch_all(&self.pool)
        .await?;
        self.unwrap(rows)
    }

    fn unwrap(&self, rows: Vec<(Uuid, Uuid, Vec<u8>)>) -> Result<DataKeys, sqlx::Error> {
        rows.into_iter()
            .map(|(firm_id, response_id, wrapped)| {
                let subject = Subject {
                    firm_id,
                    response_id,
                };
                let bytes = self
                    .wrapping
                    .0
                    .open(&purpose(&subject), &wrapped)
                    .map_err(protocol)?;
                let bytes = <[u8; 32]>::try_from(bytes).map_err(|_| protocol(crate::Broken))?;
                Ok((subject, DataKey::new(&bytes)))
            })
            .collect()
    }
}

fn columns(subjects: &[Subject]) -> (Vec<Uuid>, Vec<Uuid>) {
    subjects
        .iter()
        .map(|subject| (subject.firm_id, subject.response_id))
        .unzip()
}

fn purpose(subject: &Subject) -> Vec<u8> {
    [
        b"data key",
        subject.firm_id.as_bytes().as_slice(),
        subject.response_id.as_bytes(),
    ]
    .concat()
}

/// A wrapped key that does not open is a damaged or foreign keyring: an error of the store.
fn protocol(error: crate::Broken) -> sqlx::Error {
    sqlx::Error::Decode(Box::new(error))
}
