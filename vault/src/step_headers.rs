//! Extra headers of workflow steps: they may be secrets of the firm's, so they are sealed like what
//! is sent with them.

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

/// Puts a step's headers away, unless they are there.
///
/// # Errors
/// [`VaultError`].
pub async fn put(
    connection: &mut PgConnection,
    delivery_id: Uuid,
    (subject, key): (KeySubject, &DataKey),
    headers: &Headers,
    entropy: &dyn Entropy,
) -> Result<(), VaultError> {
    let sealed = key.seal(PURPOSE, &serde_json::to_vec(headers)?, entropy)?;
    sqlx::query(
        "insert into step_headers (delivery_id, firm_id, response_id, headers)
         values ($1, $2, $3, $4) on conflict do nothing",
    )
    .bind(delivery_id)
    .bind(subject.firm_id)
    .bind(subject.subject_id)
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

/// The headers of these steps, by delivery, as far as a key among `keys` opens them.
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

/// Drops headers of deliveries whose bytes were kept long enough.
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
