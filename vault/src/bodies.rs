//! Bodies of deliveries, frozen at the first attempt (ruling 21, frozen body).

use std::collections::{HashMap, HashSet};

use chrono::{DateTime, Utc};
use eventstore::JoinedWrites;
use sha2::{Digest, Sha256};
use sqlx::{FromRow, PgConnection};
use uuid::Uuid;

use crate::entropy::Entropy;
use crate::error::{VaultError, unless_broken};
use crate::keyring::{DataKeys, KeySubject};
use crate::seal::{BrokenSeal, DataKey, text_size_max};

/// Purpose of bodies of older builds. It does not name the body.
const FIRST_PURPOSE: &[u8] = b"body";

/// Purpose of a body. It names the body, so that no other body of the response can take its place.
fn body_purpose(body_id: Uuid) -> Vec<u8> {
    [b"body 2 ".as_slice(), body_id.as_bytes()].concat()
}

/// A frozen body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredBody {
    /// The body's id.
    pub body_id: Uuid,
    /// The response whose data key encrypts the body.
    pub subject: KeySubject,
    /// SHA-256 of the bytes.
    pub sha256: [u8; 32],
    /// The exact bytes that are signed and sent.
    pub bytes: Vec<u8>,
}

/// Adds a write that stores bodies, each encrypted under the data key of its response.
pub fn write(
    writes: &mut JoinedWrites,
    keys: &DataKeys,
    bodies: &[StoredBody],
    at: DateTime<Utc>,
    entropy: &dyn Entropy,
) -> Result<(), VaultError> {
    let mut sealed = Vec::with_capacity(bodies.len());
    for body in bodies {
        let key = keys.get(&body.subject).ok_or(BrokenSeal)?;
        sealed.push(key.seal_text(&body_purpose(body.body_id), &body.bytes, entropy)?);
    }
    writes
        .add_rows(
            bodies.len(),
            "frozen as (
                 insert into bodies (body_id, firm_id, response_id, sha256, ciphertext, created_at)
                 select t.*, $6::timestamptz
                   from rows($1::uuid, $2::uuid, $3::uuid, $4::bytea, $5::bytea) as t)",
        )
        .bind_column(bodies.iter().map(|body| body.body_id).collect())
        .bind_column(bodies.iter().map(|body| body.subject.firm_id).collect())
        .bind_column(bodies.iter().map(|body| body.subject.subject_id).collect())
        .bind_column(bodies.iter().map(|body| body.sha256.to_vec()).collect())
        .bind_column(sealed)
        .bind(at);
    Ok(())
}

/// A body's place in the order of freezing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromRow)]
pub struct FrozenBody {
    /// The time at which the body was frozen.
    pub created_at: DateTime<Utc>,
    /// The id of the body.
    pub body_id: Uuid,
}

impl FrozenBody {
    /// A place before all bodies.
    pub const NONE: Self = Self { created_at: DateTime::UNIX_EPOCH, body_id: Uuid::nil() };
}

/// The bodies after this place that were frozen before this time, the oldest first, at most
/// `limit`.
pub async fn frozen_before(
    connection: &mut PgConnection,
    after: FrozenBody,
    before: DateTime<Utc>,
    limit: i64,
) -> Result<Vec<FrozenBody>, sqlx::Error> {
    sqlx::query_as(
        "select created_at, body_id from bodies
          where created_at < $3 and (created_at, body_id) > ($1, $2)
          order by created_at, body_id limit $4",
    )
    .bind(after.created_at)
    .bind(after.body_id)
    .bind(before)
    .bind(limit)
    .fetch_all(connection)
    .await
}

/// SQL: the bodies among `$1` that the vault has.
macro_rules! kept_sql {
    ($lock:literal) => {
        concat!("select body_id from bodies where body_id = any($1) order by body_id", $lock)
    };
}

/// The bodies among these that the vault has.
pub async fn kept_among(
    connection: &mut PgConnection,
    body_ids: &[Uuid],
) -> Result<HashSet<Uuid>, sqlx::Error> {
    fetch_kept(connection, kept_sql!(""), body_ids).await
}

/// The bodies among these that the vault has. None is deleted before the end of this transaction.
pub async fn hold_kept(
    connection: &mut PgConnection,
    body_ids: &[Uuid],
) -> Result<HashSet<Uuid>, sqlx::Error> {
    fetch_kept(connection, kept_sql!(" for key share"), body_ids).await
}

/// Locks the bodies among these that the vault has, so that they can be deleted.
pub async fn lock_kept(
    connection: &mut PgConnection,
    body_ids: &[Uuid],
) -> Result<HashSet<Uuid>, sqlx::Error> {
    fetch_kept(connection, kept_sql!(" for update"), body_ids).await
}

async fn fetch_kept(
    connection: &mut PgConnection,
    statement: &'static str,
    body_ids: &[Uuid],
) -> Result<HashSet<Uuid>, sqlx::Error> {
    let kept: Vec<Uuid> =
        sqlx::query_scalar(statement).bind(body_ids).fetch_all(connection).await?;
    Ok(kept.into_iter().collect())
}

/// Deletes locked bodies whose retention has ended.
pub async fn drop_all(connection: &mut PgConnection, body_ids: &[Uuid]) -> Result<(), sqlx::Error> {
    sqlx::query("delete from bodies where body_id = any($1)")
        .bind(body_ids)
        .execute(connection)
        .await?;
    Ok(())
}

/// The most bytes that each body can have, by its encrypted size.
pub async fn sizes(
    connection: &mut PgConnection,
    body_ids: &[Uuid],
) -> Result<HashMap<Uuid, usize>, sqlx::Error> {
    if body_ids.is_empty() {
        return Ok(HashMap::new());
    }
    let rows: Vec<(Uuid, i32)> = sqlx::query_as(
        "select body_id, octet_length(ciphertext) from bodies where body_id = any($1)",
    )
    .bind(body_ids)
    .fetch_all(connection)
    .await?;
    Ok(rows.into_iter().map(|(id, size)| (id, text_size_max(size))).collect())
}

#[derive(FromRow)]
struct BodyRow {
    body_id: Uuid,
    firm_id: Uuid,
    response_id: Uuid,
    sha256: Vec<u8>,
    ciphertext: Vec<u8>,
}

/// The bodies with these ids that a key of `keys` decrypts and whose bytes have the stored digest.
/// Leaves out a damaged body, so that other deliveries go on.
pub async fn read(
    connection: &mut PgConnection,
    keys: &DataKeys,
    body_ids: &[Uuid],
) -> Result<Vec<StoredBody>, sqlx::Error> {
    let rows: Vec<BodyRow> = sqlx::query_as(
        "select body_id, firm_id, response_id, sha256, ciphertext from bodies
          where body_id = any($1)",
    )
    .bind(body_ids)
    .fetch_all(connection)
    .await?;
    Ok(rows
        .iter()
        .filter_map(|row| {
            let key = keys.get(&row.subject())?;
            unless_broken(open_body(row, key), row.body_id)
        })
        .collect())
}

impl BodyRow {
    const fn subject(&self) -> KeySubject {
        KeySubject { firm_id: self.firm_id, subject_id: self.response_id }
    }
}

fn open_body(row: &BodyRow, key: &DataKey) -> Result<StoredBody, VaultError> {
    let sealed = &row.ciphertext;
    let bytes = key
        .open_text(&body_purpose(row.body_id), sealed)
        .or_else(|_| key.open(FIRST_PURPOSE, sealed))?;
    let sha256: [u8; 32] = Sha256::digest(&bytes).into();
    if row.sha256 != sha256 {
        return Err(BrokenSeal.into());
    }
    Ok(StoredBody { body_id: row.body_id, subject: row.subject(), sha256, bytes })
}
