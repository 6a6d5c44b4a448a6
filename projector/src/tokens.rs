//! Bearer tokens of the internal door, stored by their SHA-256. Creations and revocations are
//! events that do not hold the SHA-256, so this table is no read model.

use chrono::{DateTime, Utc};
use eventstore::JoinedWrites;
use sqlx::{FromRow, PgConnection, PgPool};
use uuid::Uuid;

/// A token to insert.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewToken<'a> {
    /// The id of the token.
    pub token_id: Uuid,
    /// The label of the token.
    pub name: &'a str,
    /// The role: `product`, `operator` or `auditor`.
    pub role: &'a str,
    /// The SHA-256 of the token's text.
    pub sha256: [u8; 32],
    /// The time at which the token was made.
    pub created_at: DateTime<Utc>,
    /// The time from which the token is refused, if it expires.
    pub expires_at: Option<DateTime<Utc>>,
    /// The firms that the token may reach; `None` for all.
    pub firm_ids: Option<&'a [Uuid]>,
}

/// A token as a list shows it.
#[derive(Debug, Clone, PartialEq, Eq, FromRow)]
pub struct TokenRow {
    /// The id of the token.
    pub token_id: Uuid,
    /// The label of the token.
    pub name: String,
    /// The role: `product`, `operator` or `auditor`.
    pub role: String,
    /// The time at which the token was made.
    pub created_at: DateTime<Utc>,
    /// The time from which the token is refused, if it expires.
    pub expires_at: Option<DateTime<Utc>>,
    /// The firms that the token may reach; `None` for all.
    pub firm_ids: Option<Vec<Uuid>>,
    /// The time of the last use, to about a minute.
    pub last_used_at: Option<DateTime<Utc>>,
    /// The time at which the token was revoked, if it was.
    pub revoked_at: Option<DateTime<Utc>>,
}

/// Inserts a token.
pub async fn insert(
    connection: &mut PgConnection,
    token: &NewToken<'_>,
) -> Result<(), sqlx::Error> {
    sqlx::query(
        "insert into tokens (token_id, name, role, sha256, created_at, expires_at, firm_ids)
         values ($1, $2, $3, $4, $5, $6, $7)",
    )
    .bind(token.token_id)
    .bind(token.name)
    .bind(token.role)
    .bind(token.sha256.as_slice())
    .bind(token.created_at)
    .bind(token.expires_at)
    .bind(token.firm_ids)
    .execute(connection)
    .await?;
    Ok(())
}

/// Lists all tokens, newest first.
pub async fn list(pool: &PgPool) -> Result<Vec<TokenRow>, sqlx::Error> {
    sqlx::query_as(
        "select token_id, name, role, created_at, expires_at, firm_ids, last_used_at, revoked_at
           from tokens order by created_at desc, token_id desc",
    )
    .fetch_all(pool)
    .await
}

/// Revokes an active token. Returns whether there was one.
pub async fn revoke(
    connection: &mut PgConnection,
    token_id: Uuid,
    at: DateTime<Utc>,
) -> Result<bool, sqlx::Error> {
    let revoked =
        sqlx::query("update tokens set revoked_at = $2 where token_id = $1 and revoked_at is null")
            .bind(token_id)
            .bind(at)
            .execute(connection)
            .await?;
    Ok(revoked.rows_affected() == 1)
}

/// An active token, found by the SHA-256 of its text.
#[derive(Debug, Clone, PartialEq, Eq, FromRow)]
pub struct ActiveToken {
    /// The id of the token.
    pub token_id: Uuid,
    /// The role: `product`, `operator` or `auditor`.
    pub role: String,
    /// The SHA-256 of the token's text.
    pub sha256: Vec<u8>,
    /// The firms that the token may reach; `None` for all.
    pub firm_ids: Option<Vec<Uuid>>,
}

/// Finds the active tokens with these SHA-256.
pub async fn authenticate(
    connection: &mut PgConnection,
    sha256: &[[u8; 32]],
    now: DateTime<Utc>,
) -> Result<Vec<ActiveToken>, sqlx::Error> {
    sqlx::query_as(
        "select token_id, role, sha256, firm_ids from tokens
          where sha256 = any($1) and revoked_at is null and coalesce(expires_at > $2, true)",
    )
    .bind(sha256)
    .bind(now)
    .fetch_all(connection)
    .await
}

/// Adds the condition that the tokens with these SHA-256 are active.
pub fn require_active(writes: &mut JoinedWrites, sha256: Vec<[u8; 32]>, now: DateTime<Utc>) {
    if sha256.is_empty() {
        return;
    }
    let count = i64::try_from(sha256.len()).unwrap_or(i64::MAX);
    writes
        .require(
            "(select count(*) from tokens
               where sha256 = any($1) and revoked_at is null
                 and coalesce(expires_at > $2, true)) = $3",
        )
        .bind(sha256)
        .bind(now)
        .bind(count);
}

/// Notes a use of a token. A process asks at most once a minute per token.
pub async fn note_use(pool: &PgPool, token_id: Uuid, at: DateTime<Utc>) -> Result<(), sqlx::Error> {
    sqlx::query(
        "update tokens set last_used_at = $2
          where token_id = $1 and revoked_at is null and coalesce(last_used_at < $2, true)",
    )
    .bind(token_id)
    .bind(at)
    .execute(pool)
    .await?;
    Ok(())
}
