//! Signing secrets and reply addresses of firms, encrypted under the wrapping key.

use std::collections::{BTreeMap, HashMap};

use chrono::{DateTime, Utc};
use domain::delivery::signature::WebhookSecret;
use sqlx::PgConnection;
use uuid::Uuid;

use crate::entropy::Entropy;
use crate::error::{VaultError, unless_broken};
use crate::seal::{BrokenSeal, WrappingKey};

/// A firm's signing secret, and the time from which it signs.
#[derive(Debug, Clone)]
pub struct FirmSecret {
    /// The secret.
    pub secret: WebhookSecret,
    /// The time from which the secret signs.
    pub rotated_at: DateTime<Utc>,
}

/// Makes signing secrets for firms that have none.
pub async fn make_missing(
    connection: &mut PgConnection,
    wrapping: &WrappingKey,
    firm_ids: &[Uuid],
    at: DateTime<Utc>,
    entropy: &dyn Entropy,
) -> Result<(), VaultError> {
    if firm_ids.is_empty() {
        return Ok(());
    }
    let mut sealed = Vec::with_capacity(firm_ids.len());
    for firm_id in firm_ids {
        let secret = WebhookSecret::from_bytes(entropy.new_secret());
        sealed.push(seal_secret(wrapping, *firm_id, &secret, entropy)?);
    }
    sqlx::query(
        "insert into webhook_secrets (firm_id, secret, rotated_at)
         select firm_id, secret, $3 from unnest($1::uuid[], $2::bytea[]) as t(firm_id, secret)
             on conflict (firm_id) do nothing",
    )
    .bind(firm_ids)
    .bind(sealed)
    .bind(at)
    .execute(connection)
    .await?;
    Ok(())
}

/// Replaces a firm's signing secret. The new secret signs from the commit on.
pub async fn replace(
    connection: &mut PgConnection,
    wrapping: &WrappingKey,
    firm_id: Uuid,
    new: &FirmSecret,
    entropy: &dyn Entropy,
) -> Result<(), VaultError> {
    let sealed = seal_secret(wrapping, firm_id, &new.secret, entropy)?;
    sqlx::query(
        "insert into webhook_secrets (firm_id, secret, rotated_at) values ($1, $2, $3)
             on conflict (firm_id) do update
                set secret = excluded.secret, rotated_at = excluded.rotated_at",
    )
    .bind(firm_id)
    .bind(sealed)
    .bind(new.rotated_at)
    .execute(connection)
    .await?;
    Ok(())
}

/// The signing secrets of these firms. Leaves out secrets that cannot be decrypted.
pub async fn read(
    connection: &mut PgConnection,
    wrapping: &WrappingKey,
    firm_ids: &[Uuid],
) -> Result<HashMap<Uuid, FirmSecret>, VaultError> {
    let rows: Vec<(Uuid, Vec<u8>, DateTime<Utc>)> = sqlx::query_as(
        "select firm_id, secret, rotated_at from webhook_secrets where firm_id = any($1)",
    )
    .bind(firm_ids)
    .fetch_all(connection)
    .await?;
    Ok(rows
        .into_iter()
        .filter_map(|(firm_id, sealed, rotated_at)| {
            Some((
                firm_id,
                FirmSecret { secret: open_secret(wrapping, firm_id, &sealed)?, rotated_at },
            ))
        })
        .collect())
}

/// The time of the last new secret of a firm, if it has one.
pub async fn rotated_at(
    connection: &mut PgConnection,
    firm_id: Uuid,
) -> Result<Option<DateTime<Utc>>, sqlx::Error> {
    sqlx::query_scalar("select rotated_at from webhook_secrets where firm_id = $1")
        .bind(firm_id)
        .fetch_optional(connection)
        .await
}

/// The time of the last new secret of up to `limit` firms after one, in the order of the firms.
pub async fn rotations_after(
    connection: &mut PgConnection,
    after: Option<Uuid>,
    limit: i64,
) -> Result<Vec<(Uuid, DateTime<Utc>)>, sqlx::Error> {
    sqlx::query_as(
        "select firm_id, rotated_at from webhook_secrets
          where $1::uuid is null or firm_id > $1 order by firm_id limit $2",
    )
    .bind(after)
    .bind(limit)
    .fetch_all(connection)
    .await
}

fn seal_secret(
    wrapping: &WrappingKey,
    firm_id: Uuid,
    secret: &WebhookSecret,
    entropy: &dyn Entropy,
) -> Result<Vec<u8>, BrokenSeal> {
    wrapping.0.seal(&firm_purpose(b"secret", firm_id), secret.as_str().as_bytes(), entropy)
}

/// Decrypts a firm's signing secret from its row. `None` if it cannot be decrypted.
#[must_use]
pub fn open_secret(wrapping: &WrappingKey, firm_id: Uuid, sealed: &[u8]) -> Option<WebhookSecret> {
    unless_broken(try_open(wrapping, firm_id, sealed), firm_id)
}

fn try_open(
    wrapping: &WrappingKey,
    firm_id: Uuid,
    sealed: &[u8],
) -> Result<WebhookSecret, VaultError> {
    let bytes = wrapping.0.open(&firm_purpose(b"secret", firm_id), sealed)?;
    let text = String::from_utf8(bytes).map_err(|_| BrokenSeal)?;
    Ok(WebhookSecret::parse(&text).map_err(|_| BrokenSeal)?)
}

/// Stores reply addresses of firms. `None` deletes a firm's address.
pub async fn put_contacts(
    connection: &mut PgConnection,
    wrapping: &WrappingKey,
    contacts: &BTreeMap<Uuid, Option<String>>,
    entropy: &dyn Entropy,
) -> Result<(), VaultError> {
    let mut cleared = Vec::new();
    let mut given = Vec::new();
    let mut sealed = Vec::new();
    for (firm_id, reply_to) in contacts {
        if let Some(reply_to) = reply_to {
            let purpose = firm_purpose(b"contact", *firm_id);
            sealed.push(wrapping.0.seal(&purpose, reply_to.as_bytes(), entropy)?);
            given.push(*firm_id);
        } else {
            cleared.push(*firm_id);
        }
    }
    if !cleared.is_empty() {
        clear_contacts(connection, &cleared).await?;
    }
    if !given.is_empty() {
        keep_contacts(connection, &given, &sealed).await?;
    }
    Ok(())
}

async fn clear_contacts(
    connection: &mut PgConnection,
    firm_ids: &[Uuid],
) -> Result<(), sqlx::Error> {
    sqlx::query("delete from firm_contacts where firm_id = any($1)")
        .bind(firm_ids)
        .execute(connection)
        .await?;
    Ok(())
}

async fn keep_contacts(
    connection: &mut PgConnection,
    firm_ids: &[Uuid],
    sealed: &[Vec<u8>],
) -> Result<(), sqlx::Error> {
    sqlx::query(
        "insert into firm_contacts (firm_id, contact) select * from unnest($1::uuid[], $2::bytea[])
             on conflict (firm_id) do update set contact = excluded.contact",
    )
    .bind(firm_ids)
    .bind(sealed)
    .execute(connection)
    .await?;
    Ok(())
}

/// A firm's reply address, if there is one and it can be decrypted.
pub async fn reply_address(
    connection: &mut PgConnection,
    wrapping: &WrappingKey,
    firm_id: Uuid,
) -> Result<Option<String>, sqlx::Error> {
    let sealed: Option<Vec<u8>> =
        sqlx::query_scalar("select contact from firm_contacts where firm_id = $1")
            .bind(firm_id)
            .fetch_optional(connection)
            .await?;
    Ok(sealed.and_then(|sealed| unless_broken(open_contact(wrapping, firm_id, &sealed), firm_id)))
}

fn open_contact(
    wrapping: &WrappingKey,
    firm_id: Uuid,
    sealed: &[u8],
) -> Result<String, VaultError> {
    let bytes = wrapping.0.open(&firm_purpose(b"contact", firm_id), sealed)?;
    Ok(String::from_utf8(bytes).map_err(|_| BrokenSeal)?)
}

pub(crate) fn firm_purpose(kind: &[u8], firm_id: Uuid) -> Vec<u8> {
    [kind, firm_id.as_bytes().as_slice()].concat()
}
