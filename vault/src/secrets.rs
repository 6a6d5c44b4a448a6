//! Secrets and contacts of firms, sealed under the wrapping key.

use std::collections::HashMap;

use chrono::{DateTime, Utc};
use domain::signature::WebhookSecret;
use sqlx::PgConnection;
use uuid::Uuid;

use crate::entropy::Entropy;
use crate::responses::{VaultError, unless_broken};
use crate::seal::{Broken, WrappingKey};

/// A firm's signing secret, and since when it signs.
#[derive(Debug, Clone)]
pub struct FirmSecret {
    /// The secret.
    pub secret: WebhookSecret,
    /// Since when.
    pub rotated_at: DateTime<Utc>,
}

/// Gives a firm its signing secret, if it has none.
///
/// # Errors
/// [`VaultError`].
pub async fn make(
    connection: &mut PgConnection,
    wrapping: &WrappingKey,
    firm_id: Uuid,
    at: DateTime<Utc>,
    entropy: &dyn Entropy,
) -> Result<(), VaultError> {
    let secret = WebhookSecret::from_bytes(entropy.secret());
    let sealed =
        wrapping.0.seal(&purpose(b"secret", firm_id), secret.as_str().as_bytes(), entropy)?;
    sqlx::query(
        "insert into webhook_secrets (firm_id, secret, rotated_at) values ($1, $2, $3)
             on conflict (firm_id) do nothing",
    )
    .bind(firm_id)
    .bind(sealed)
    .bind(at)
    .execute(connection)
    .await?;
    Ok(())
}

/// The signing secrets of these firms, as far as they can be read.
///
/// # Errors
/// [`VaultError`].
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
            let secret = unless_broken(open(wrapping, firm_id, &sealed), firm_id)?;
            Some((firm_id, FirmSecret { secret, rotated_at }))
        })
        .collect())
}

fn open(wrapping: &WrappingKey, firm_id: Uuid, sealed: &[u8]) -> Result<WebhookSecret, VaultError> {
    let bytes = wrapping.0.open(&purpose(b"secret", firm_id), sealed)?;
    let text = String::from_utf8(bytes).map_err(|_| Broken)?;
    Ok(WebhookSecret::parse(&text).map_err(|_| Broken)?)
}

/// Keeps a firm's reply address; nothing clears it.
///
/// # Errors
/// [`VaultError`].
pub async fn put_contact(
    connection: &mut PgConnection,
    wrapping: &WrappingKey,
    firm_id: Uuid,
    reply_to: Option<&str>,
    entropy: &dyn Entropy,
) -> Result<(), VaultError> {
    let Some(reply_to) = reply_to else {
        sqlx::query("delete from firm_contacts where firm_id = $1")
            .bind(firm_id)
            .execute(connection)
            .await?;
        return Ok(());
    };
    let sealed = wrapping.0.seal(&purpose(b"contact", firm_id), reply_to.as_bytes(), entropy)?;
    sqlx::query(
        "insert into firm_contacts (firm_id, contact) values ($1, $2)
             on conflict (firm_id) do update set contact = excluded.contact",
    )
    .bind(firm_id)
    .bind(sealed)
    .execute(connection)
    .await?;
    Ok(())
}

/// A firm's reply address, if it has one that can be read.
///
/// # Errors
/// If the database does not answer.
pub async fn contact(
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
    let bytes = wrapping.0.open(&purpose(b"contact", firm_id), sealed)?;
    Ok(String::from_utf8(bytes).map_err(|_| Broken)?)
}

fn purpose(what: &[u8], firm_id: Uuid) -> Vec<u8> {
    [what, firm_id.as_bytes().as_slice()].concat()
}
