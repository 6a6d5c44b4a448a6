//! The read model of keys: the keys of each firm, which authenticate callers by SHA-256.

mod stored;

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use domain::access::KeyEvent;
use domain::event::Event;
use eventstore::{AppendError, RecordedEvent, WithAppend};
use futures::future::BoxFuture;
use sqlx::{FromRow, PgConnection, PgPool};
use uuid::Uuid;

pub use stored::StoredKey;

/// The writer of the table `key_auth`.
pub(crate) struct KeyWriter;

impl WithAppend for KeyWriter {
    fn apply_appended<'a>(
        &'a self,
        connection: &'a mut PgConnection,
        events: &'a [RecordedEvent],
    ) -> BoxFuture<'a, Result<(), AppendError>> {
        Box::pin(async move {
            let mut revoked = BTreeMap::new();
            for recorded in events {
                if let (Event::Key(event), Ok(key_id)) =
                    (&recorded.event, recorded.aggregate_id.parse())
                {
                    match event {
                        KeyEvent::KeyCreated { .. } => {
                            insert_key(connection, key_id, event, recorded).await?;
                        }
                        KeyEvent::KeyRevoked { .. } => {
                            revoked.insert(key_id, recorded.context.recorded_at.get());
                        }
                    }
                }
            }
            Ok(revoke_keys(connection, &revoked).await?)
        })
    }
}

/// Inserts one row. Only a command creates keys, and no batch does.
async fn insert_key(
    connection: &mut PgConnection,
    key_id: Uuid,
    event: &KeyEvent,
    recorded: &RecordedEvent,
) -> Result<(), AppendError> {
    let KeyEvent::KeyCreated { member_id, name, prefix, sha256 } = event else {
        return Ok(());
    };
    let sha256 = hex::decode(sha256).map_err(|error| AppendError::Unreadable(error.to_string()))?;
    sqlx::query(
        "insert into key_auth (key_id, firm_id, member_id, name, prefix, sha256, created_at)
         values ($1, $2, $3, $4, $5, $6, $7)",
    )
    .bind(key_id)
    .bind(recorded.context.firm_id)
    .bind(member_id)
    .bind(name)
    .bind(prefix)
    .bind(sha256)
    .bind(recorded.context.recorded_at.get())
    .execute(connection)
    .await?;
    Ok(())
}

async fn revoke_keys(
    connection: &mut PgConnection,
    revoked: &BTreeMap<Uuid, DateTime<Utc>>,
) -> Result<(), sqlx::Error> {
    if revoked.is_empty() {
        return Ok(());
    }
    let (key_ids, at): (Vec<Uuid>, Vec<DateTime<Utc>>) = revoked.iter().unzip();
    sqlx::query(
        "update key_auth k set revoked_at = t.revoked_at
           from unnest($1::uuid[], $2::timestamptz[]) as t(key_id, revoked_at)
          where k.key_id = t.key_id",
    )
    .bind(key_ids)
    .bind(at)
    .execute(connection)
    .await?;
    Ok(())
}

/// A key as a list shows it.
#[derive(Debug, Clone, PartialEq, Eq, FromRow)]
pub struct KeyRow {
    /// The id of the key.
    pub key_id: Uuid,
    /// The label of the key.
    pub name: String,
    /// The first characters of the key.
    pub prefix: String,
    /// The member that the key acts for.
    pub member_id: Uuid,
    /// The time at which the key was made.
    pub created_at: DateTime<Utc>,
    /// The time at which the key was revoked, if it was.
    pub revoked_at: Option<DateTime<Utc>>,
    /// The time of the last admitted call since the last crash of the database.
    pub last_used_at: Option<DateTime<Utc>>,
}

/// Lists the keys of a firm, newest first.
pub async fn list(pool: &PgPool, firm_id: Uuid) -> Result<Vec<KeyRow>, sqlx::Error> {
    sqlx::query_as(
        "select key_id, name, prefix, member_id, created_at, revoked_at,
                (select max(call) from key_calls c, unnest(c.calls) as call
                  where c.key_id = k.key_id) as last_used_at
           from key_auth k where firm_id = $1 order by created_at desc, key_id desc",
    )
    .bind(firm_id)
    .fetch_all(pool)
    .await
}

/// A key's label, with the first characters of the key.
#[derive(Debug, Clone, PartialEq, Eq, FromRow)]
pub struct NamedKey {
    /// The id of the key.
    pub key_id: Uuid,
    /// The firm.
    pub firm_id: Uuid,
    /// The member that the key acts for.
    pub member_id: Uuid,
    /// The label.
    pub name: String,
    /// The first characters.
    pub prefix: String,
}

/// Finds these keys, revoked ones too.
pub async fn named(
    connection: &mut PgConnection,
    key_ids: &[Uuid],
) -> Result<Vec<NamedKey>, sqlx::Error> {
    if key_ids.is_empty() {
        return Ok(Vec::new());
    }
    sqlx::query_as(
        "select key_id, firm_id, member_id, name, prefix from key_auth where key_id = any($1)",
    )
    .bind(key_ids)
    .fetch_all(connection)
    .await
}

/// Locks one active key of a firm before its revocation. Returns whether there is such a key.
pub async fn lock_active(
    connection: &mut PgConnection,
    firm_id: Uuid,
    key_id: Uuid,
) -> Result<bool, sqlx::Error> {
    let found = sqlx::query(
        "select 1 from key_auth
          where key_id = $1 and firm_id = $2 and revoked_at is null for update",
    )
    .bind(key_id)
    .bind(firm_id)
    .execute(connection)
    .await?;
    Ok(found.rows_affected() == 1)
}

/// An active key that is about to be revoked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromRow)]
pub struct ActiveKey {
    /// The id of the key.
    pub key_id: Uuid,
    /// The firm.
    pub firm_id: Uuid,
    /// The member that the key acts for.
    pub member_id: Uuid,
}

/// Locks the active keys of these members before their revocation, in the order of their ids.
pub async fn lock_active_of(
    connection: &mut PgConnection,
    members: &[(Uuid, Uuid)],
) -> Result<Vec<ActiveKey>, sqlx::Error> {
    let (firm_ids, member_ids): (Vec<Uuid>, Vec<Uuid>) = members.iter().copied().unzip();
    sqlx::query_as(
        "select key_id, firm_id, member_id from key_auth
          where (firm_id, member_id) in (select * from unnest($1::uuid[], $2::uuid[]))
            and revoked_at is null
          order by key_id for update",
    )
    .bind(firm_ids)
    .bind(member_ids)
    .fetch_all(connection)
    .await
}
