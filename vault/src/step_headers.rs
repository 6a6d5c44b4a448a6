//! Extra headers of workflow steps. Headers may hold a firm's secrets, so the vault encrypts them
//! like the body.

use std::collections::HashMap;

use sqlx::{FromRow, PgConnection};
use uuid::Uuid;

use crate::entropy::Entropy;
use crate::keyring::{DataKeys, KeySubject};
use crate::responses::{VaultError, unless_broken};
use crate::seal::DataKey;

const PURPOSE: &[u8] = b"step headers";

/// Names and values, in order.
pub type Headers = Vec<(String, String)>;

/// The delivery and the data key of a step's headers.
pub struct StepHeadersKey<'a> {
    /// The step's delivery.
    pub delivery_id: Uuid,
    /// The owner of the data key.
    pub subject: KeySubject,
    /// The subject's data key.
    pub key: &'a DataKey,
}

/// Stores the headers of a step. Headers that are already stored stay.
///
/// # Errors
/// [`VaultError`].
pub async fn put(
    connection: &mut PgConnection,
    kept: &StepHeadersKey<'_>,
    headers: &Headers,
    entropy: &dyn Entropy,
) -> Result<(), VaultError> {
    let sealed = kept.key.seal(PURPOSE, &serde_json::to_vec(headers)?, entropy)?;
    sqlx::query(
        "insert into step_headers (delivery_id, firm_id, response_id, headers)
         values ($1, $2, $3, $4) on conflict do nothing",
    )
    .bind(kept.delivery_id)
    .bind(kept.subject.firm_id)
    .bind(kept.subject.subject_id)
    .bind(sealed)
    .execute(connection)
    .await?;
    Ok(())
}

#[derive(FromRow)]
struct StepHeadersRow {
    delivery_id: Uuid,
    firm_id: Uuid,
    response_id: Uuid,
    headers: Vec<u8>,
}

/// The headers of these deliveries, as far as a key of `keys` decrypts them.
///
/// # Errors
/// If the database does not answer.
pub async fn read(
    connection: &mut PgConnection,
    keys: &DataKeys,
    delivery_ids: &[Uuid],
) -> Result<HashMap<Uuid, Headers>, sqlx::Error> {
    if delivery_ids.is_empty() {
        return Ok(HashMap::new());
    }
    let rows: Vec<StepHeadersRow> = sqlx::query_as(
        "select delivery_id, firm_id, response_id, headers from step_headers
          where delivery_id = any($1)",
    )
    .bind(delivery_ids)
    .fetch_all(connection)
    .await?;
    Ok(rows
        .iter()
        .filter_map(|row| {
            let subject = KeySubject { firm_id: row.firm_id, subject_id: row.response_id };
            let headers = unless_broken(open(keys.get(&subject)?, &row.headers), row.delivery_id);
            Some((row.delivery_id, headers?))
        })
        .collect())
}

fn open(key: &DataKey, sealed: &[u8]) -> Result<Headers, VaultError> {
    Ok(serde_json::from_slice(&key.open(PURPOSE, sealed)?)?)
}

/// Deletes headers of deliveries whose retention has ended.
///
/// # Errors
/// If the database does not answer.
pub async fn drop_all(
    connection: &mut PgConnection,
    delivery_ids: &[Uuid],
) -> Result<(), sqlx::Error> {
    sqlx::query("delete from step_headers where delivery_id = any($1)")
        .bind(delivery_ids)
        .execute(connection)
        .await?;
    Ok(())
}
