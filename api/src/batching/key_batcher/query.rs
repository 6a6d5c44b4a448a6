//! The queries about API keys.

use chrono::{DateTime, Utc};
use projector::calls::{self, Admission, CallerRow, KeyHash};
use projector::hooks::{self, KeyHookList};
use sqlx::PgConnection;

/// A query that PostgreSQL answers for several keys.
pub(crate) trait KeyQuery: 'static {
    /// Answer for a known key.
    type Answer: Send + 'static;

    /// The decision whether the call is admitted.
    fn admission(answer: &Self::Answer) -> Admission;

    /// Runs one statement for distinct keys. The answers have the order of the keys.
    fn query_keys(
        connection: &mut PgConnection,
        keys: &[KeyHash],
        now: DateTime<Utc>,
    ) -> impl Future<Output = Result<Vec<Option<Self::Answer>>, sqlx::Error>> + Send;
}

/// Reads the caller of each key.
pub(crate) enum CallerByKey {}

impl KeyQuery for CallerByKey {
    type Answer = CallerRow;

    fn admission(answer: &CallerRow) -> Admission {
        answer.admission
    }

    async fn query_keys(
        connection: &mut PgConnection,
        keys: &[KeyHash],
        now: DateTime<Utc>,
    ) -> Result<Vec<Option<CallerRow>>, sqlx::Error> {
        calls::authenticate(connection, keys, now).await
    }
}

/// Reads the caller's admission and subscriptions of each key.
pub(crate) enum HooksByKey {}

impl KeyQuery for HooksByKey {
    type Answer = KeyHookList;

    fn admission(answer: &KeyHookList) -> Admission {
        answer.admission
    }

    async fn query_keys(
        connection: &mut PgConnection,
        keys: &[KeyHash],
        now: DateTime<Utc>,
    ) -> Result<Vec<Option<KeyHookList>>, sqlx::Error> {
        hooks::list_for_keys(connection, keys, now).await
    }
}
