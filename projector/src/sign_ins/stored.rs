//! Sessions and users of the provider as their rows say and as the log says. A verifier compares
//! the two. Hashes of cookies are in no event, so another cookie can be put into a row.

use chrono::{DateTime, Utc};
use domain::access::sign_in::SignInEvent;
use domain::event::Event;
use eventstore::RecordedEvent;
use sqlx::{FromRow, PgConnection};
use uuid::Uuid;

use crate::stored_row::{ComparedColumn, StoredRow, compare_columns};

/// A row of the table `sign_ins`.
#[derive(Debug, Clone, PartialEq, Eq, FromRow)]
pub struct StoredSignIn {
    sign_in_id: Uuid,
    user_id: Uuid,
    role: String,
    firm_ids: Option<Vec<Uuid>>,
    ends_at: DateTime<Utc>,
}

impl StoredRow for StoredSignIn {
    const TABLE: &'static str = "sign_ins";
    const AGGREGATE: &'static str = "SignIn";
    const COLUMN: &'static str = "ends_at";

    fn row_id(&self) -> Uuid {
        self.sign_in_id
    }

    fn from_stream(stream: &[&RecordedEvent]) -> Option<Self> {
        let mut row: Option<Self> = None;
        for recorded in stream {
            match &recorded.event {
                Event::SignIn(SignInEvent::UserSignedIn(scope)) => {
                    row = Some(Self {
                        sign_in_id: recorded.aggregate_id.parse().ok()?,
                        user_id: scope.user_id,
                        role: scope.role.name().to_owned(),
                        firm_ids: scope.firm_ids.clone(),
                        ends_at: scope.ends_at.get(),
                    });
                }
                Event::SignIn(SignInEvent::UserSignedOut { .. }) => {
                    let row = row.as_mut()?;
                    row.ends_at = row.ends_at.min(recorded.context.recorded_at.get());
                }
                _ => return None,
            }
        }
        row
    }

    /// A session may end before the time that its event allows, and never later.
    fn compared_columns(&self, log: &Self) -> Vec<ComparedColumn> {
        let mut columns = compare_columns!(self, log, [user_id, role, firm_ids]);
        columns.push(ComparedColumn { name: "ends_at", is_equal: self.ends_at <= log.ends_at });
        columns
    }

    async fn rows_after(
        connection: &mut PgConnection,
        after: Option<Uuid>,
        limit: i64,
    ) -> Result<Vec<Self>, sqlx::Error> {
        sqlx::query_as(
            "select sign_in_id, user_id, role, firm_ids, ends_at from sign_ins
              where $1::uuid is null or sign_in_id > $1 order by sign_in_id limit $2",
        )
        .bind(after)
        .bind(limit)
        .fetch_all(connection)
        .await
    }
}

/// A row of the table `users`.
#[derive(Debug, Clone, PartialEq, Eq, FromRow)]
pub struct StoredUser {
    user_id: Uuid,
    name: String,
    sign_in_id: Uuid,
}

impl StoredRow for StoredUser {
    const TABLE: &'static str = "users";
    const AGGREGATE: &'static str = "SignIn";
    const COLUMN: &'static str = "name";

    fn row_id(&self) -> Uuid {
        self.user_id
    }

    fn stream_id(&self) -> Uuid {
        self.sign_in_id
    }

    fn from_stream(stream: &[&RecordedEvent]) -> Option<Self> {
        stream.iter().find_map(|recorded| match &recorded.event {
            Event::SignIn(SignInEvent::UserSignedIn(scope)) => Some(Self {
                user_id: scope.user_id,
                name: scope.name.clone(),
                sign_in_id: recorded.aggregate_id.parse().ok()?,
            }),
            _ => None,
        })
    }

    fn compared_columns(&self, log: &Self) -> Vec<ComparedColumn> {
        compare_columns!(self, log, [user_id, name, sign_in_id])
    }

    async fn rows_after(
        connection: &mut PgConnection,
        after: Option<Uuid>,
        limit: i64,
    ) -> Result<Vec<Self>, sqlx::Error> {
        sqlx::query_as(
            "select user_id, name, sign_in_id from users
              where $1::uuid is null or user_id > $1 order by user_id limit $2",
        )
        .bind(after)
        .bind(limit)
        .fetch_all(connection)
        .await
    }
}
