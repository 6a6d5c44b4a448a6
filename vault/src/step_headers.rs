//! Extra headers and URLs of workflow steps. Headers may hold a firm's secrets, and URLs answers of
//! people, so the vault encrypts them like the body.

use std::collections::HashMap;

use sqlx::{FromRow, PgConnection, PgPool};
use uuid::Uuid;

use crate::entropy::Entropy;
use crate::error::{VaultError, unless_broken};
use crate::keyring::{DataKeys, KeySubject};
use crate::seal::{BrokenSeal, DataKey};

const HEADERS_PURPOSE: &[u8] = b"step headers";

/// Purpose of a step's URL. It names the delivery, so that no URL of another step of the response
/// can take its place.
fn url_purpose(delivery_id: Uuid) -> Vec<u8> {
    [b"step url ".as_slice(), delivery_id.as_bytes()].concat()
}

/// Names and values, in order.
pub type Headers = Vec<(String, String)>;

/// The parts of a step's request that the log does not hold.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct StepSecrets {
    /// The extra headers.
    pub headers: Headers,
    /// The URL. `None` for a step that an older build queued.
    pub url: Option<String>,
}

/// The delivery and the data key of a step's headers and URL.
pub struct StepHeadersKey<'a> {
    /// The step's delivery.
    pub delivery_id: Uuid,
    /// The owner of the data key.
    pub subject: KeySubject,
    /// The subject's data key.
    pub key: &'a DataKey,
}

/// Stores the headers and the URL of a step. A step that is already stored stays.
pub async fn put(
    connection: &mut PgConnection,
    kept: &StepHeadersKey<'_>,
    step: &StepSecrets,
    entropy: &dyn Entropy,
) -> Result<(), VaultError> {
    let headers = kept.key.seal(HEADERS_PURPOSE, &serde_json::to_vec(&step.headers)?, entropy)?;
    let seal =
        |url: &String| kept.key.seal(&url_purpose(kept.delivery_id), url.as_bytes(), entropy);
    let url = step.url.as_ref().map(seal).transpose()?;
    sqlx::query(
        "insert into step_headers (delivery_id, firm_id, response_id, headers, url)
         values ($1, $2, $3, $4, $5) on conflict do nothing",
    )
    .bind(kept.delivery_id)
    .bind(kept.subject.firm_id)
    .bind(kept.subject.subject_id)
    .bind(headers)
    .bind(url)
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
    url: Option<Vec<u8>>,
}

/// The headers and URLs of these deliveries, as far as a key of `keys` decrypts them.
pub async fn read(
    connection: &mut PgConnection,
    keys: &DataKeys,
    delivery_ids: &[Uuid],
) -> Result<HashMap<Uuid, StepSecrets>, sqlx::Error> {
    if delivery_ids.is_empty() {
        return Ok(HashMap::new());
    }
    let rows: Vec<StepHeadersRow> = sqlx::query_as(
        "select delivery_id, firm_id, response_id, headers, url from step_headers
          where delivery_id = any($1)",
    )
    .bind(delivery_ids)
    .fetch_all(connection)
    .await?;
    Ok(rows
        .iter()
        .filter_map(|row| {
            let subject = KeySubject { firm_id: row.firm_id, subject_id: row.response_id };
            let step = unless_broken(open_secrets(keys.get(&subject)?, row), row.delivery_id);
            Some((row.delivery_id, step?))
        })
        .collect())
}

fn open_secrets(key: &DataKey, row: &StepHeadersRow) -> Result<StepSecrets, VaultError> {
    let headers = serde_json::from_slice(&key.open(HEADERS_PURPOSE, &row.headers)?)?;
    let open_url = |sealed: &Vec<u8>| -> Result<String, BrokenSeal> {
        let url = key.open(&url_purpose(row.delivery_id), sealed)?;
        String::from_utf8(url).map_err(|_| BrokenSeal)
    };
    Ok(StepSecrets { headers, url: row.url.as_ref().map(open_url).transpose()? })
}

/// The steps with headers and a URL whose id is above this one, in the order of the ids, at most
/// `limit`.
pub async fn list_after(
    connection: &mut PgConnection,
    after: Uuid,
    limit: i64,
) -> Result<Vec<Uuid>, sqlx::Error> {
    sqlx::query_scalar(
        "select delivery_id from step_headers where delivery_id > $1
          order by delivery_id limit $2",
    )
    .bind(after)
    .bind(limit)
    .fetch_all(connection)
    .await
}

/// Whether the vault has the headers and the URL of this step.
pub async fn is_kept(pool: &PgPool, delivery_id: Uuid) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar("select exists (select from step_headers where delivery_id = $1)")
        .bind(delivery_id)
        .fetch_one(pool)
        .await
}

/// Deletes headers and URLs of deliveries whose retention has ended.
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
