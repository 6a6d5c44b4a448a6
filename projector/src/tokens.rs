//! Bearer tokens of the internal door, by their SHA-256. Not a read model: tokens belong to no firm
//! and have no events.

use chrono::{DateTime, Utc};
use sqlx::{FromRow, PgConnection, PgPool};
use uuid::Uuid;

/// A token that is about to be kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewToken<'a> {
    /// Its id.
    pub token_id: Uuid,
    /// The label given to it.
    pub name: &'a str,
    /// `product`, `operator` or `auditor`.
    pub role: &'a str,
    /// SHA-256 of its text.
    pub sha256: [u8; 32],
    /// When it was made.
    pub created_at: DateTime<Utc>,
}

/// A token as it is listed.
#[derive(Debug, Clone, PartialEq, Eq, FromRow)]
pub struct TokenRow {
    /// Its id.
    pub token_id: Uuid,
    /// The label given to it.
    pub name: String,
    /// `product`, `operator` or `auditor`.
    pub role: String,
    /// When it was made.
    pub created_at: DateTime<Utc>,
    /// When it was revoked, if it was.
    pub revoked_at: Option<DateTime<Utc>>,
}

/// Keeps a token.
///
/// # Errors
/// If the database does not answer.
pub async fn insert(pool: &PgPool, token: &NewToken<'_>) -> Result<(), sqlx::Error> {
    sqlx::query(
        "insert into tokens (token_id, name, role, sha256, created_at)
         values ($1, $2, $3, $4, $5)",
    )
    .bind(token.token_id)
    .bind(token.name)
    .bind(token.role)
    .bind(token.sha256.as_slice())
    .bind(token.created_at)
    .execute(pool)
    .await?;
    Ok(())
}

/// All tokens, newest first.
///
/// # Errors
/// If the database does not answer.
pub async fn list(pool: &PgPool) -> Result<Vec<TokenRow>, sqlx::Error> {
    sqlx::query_as(
        "select token_id, name, role, created_at, revoked_at from tokens
          order by created_at desc, token_id desc",
    )
    .fetch_all(pool)
    .await
}

/// Revokes an active token; whether there was one.
///
/// # Errors
/// If the database does not answer.
pub async fn revoke(pool: &PgPool, token_id: Uuid, at: DateTime<Utc>) -> Result<bool, sqlx::Error> {
    let revoked =
        sqlx::query("update tokens set revoked_at = $2 where token_id = $1 and revoked_at is null")
            .bind(token_id)
            .bind(at)
            .execute(pool)
            .await?;
    Ok(revoked.rows_affected() == 1)
}

/// An active token, for whoever presents its text.
#[derive(Debug, Clone, PartialEq, Eq, FromRow)]
pub struct ActiveToken {
    /// Its id.
    pub token_id: Uuid,
    /// `product`, `operator` or `auditor`.
    pub role: String,
    /// SHA-256 of its text.
    pub sha256: Vec<u8>,
}

/// The active tokens with these SHA-256.
///
/// # Errors
/// If the database does not answer.
pub async fn authenticate(
    connection: &mut PgConnection,
    sha256: &[[u8; 32]],
) -> Result<Vec<ActiveToken>, sqlx::Error> {
    sqlx::query_as(
        "select token_id, role, sha256 from tokens
          where sha256 = any($1) and revoked_at is null",
    )
    .bind(sha256)
    .fetch_all(connection)
    .await
}
