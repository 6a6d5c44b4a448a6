//! Keys as their rows say and as the log says. A verifier compares the two. The name and the first
//! characters of a key decide nothing, and a verifier's login need not see them.

use chrono::{DateTime, Utc};
use domain::access::KeyEvent;
use domain::event::Event;
use eventstore::RecordedEvent;
use sqlx::{FromRow, PgConnection};
use uuid::Uuid;

use crate::stored_row::{ComparedColumn, StoredRow, compare_columns};

/// A row of the table `key_auth`.
#[derive(Debug, Clone, PartialEq, Eq, FromRow)]
pub struct StoredKey {
    key_id: Uuid,
    firm_id: Uuid,
    member_id: Uuid,
    sha256: Vec<u8>,
    created_at: DateTime<Utc>,
    revoked_at: Option<DateTime<Utc>>,
}

impl StoredRow for StoredKey {
    const TABLE: &'static str = "key_auth";
    const AGGREGATE: &'static str = "Key";
    const COLUMN: &'static str = "sha256";

    fn row_id(&self) -> Uuid {
        self.key_id
    }

    fn from_stream(stream: &[&RecordedEvent]) -> Option<Self> {
        let mut row = None;
        for recorded in stream {
            let at = recorded.context.recorded_at.get();
            match &recorded.event {
                Event::Key(KeyEvent::KeyCreated { member_id, sha256, .. }) => {
                    row = Some(Self {
                        key_id: recorded.aggregate_id.parse().ok()?,
                        firm_id: recorded.context.firm_id,
                        member_id: *member_id,
                        sha256: hex::decode(sha256).ok()?,
                        created_at: at,
                        revoked_at: None,
                    });
                }
                Event::Key(KeyEvent::KeyRevoked { .. }) => row.as_mut()?.revoked_at = Some(at),
                _ => return None,
            }
        }
        row
    }

    fn compared_columns(&self, other: &Self) -> Vec<ComparedColumn> {
        compare_columns!(self, other, [firm_id, member_id, sha256, created_at, revoked_at])
    }

    async fn rows_after(
        connection: &mut PgConnection,
        after: Option<Uuid>,
        limit: i64,
    ) -> Result<Vec<Self>, sqlx::Error> {
        sqlx::query_as(
            "select key_id, firm_id, member_id, sha256, created_at, revoked_at from key_auth
              where $1::uuid is null or key_id > $1 order by key_id limit $2",
        )
        .bind(after)
        .bind(limit)
        .fetch_all(connection)
        .await
    }
}
