//! What is asked about those who come.

use chrono::{DateTime, Utc};
use projector::calls::{self, CallerRow, KeyHash};
use projector::hooks::{self, KeyHookList};
use sqlx::PgConnection;

/// What is asked of PostgreSQL for each key.
pub(crate) trait KeyQuery: 'static {
    /// What is said of a key that somebody has.
    type Answer: Send + 'static;

    /// Asks for several keys, each named once: an answer for each, in that order.
    fn ask(
        connection: &mut PgConnection,
        keys: &[KeyHash],
        now: DateTime<Utc>,
    ) -> impl Future<Output = Result<Vec<Option<Self::Answer>>, sqlx::Error>> + Send;
}

/// Who calls.
pub(crate) enum CallerByKey {}

impl KeyQuery for CallerByKey {
    type Answer = CallerRow;

    async fn ask(
        connection: &mut PgConnection,
        keys: &[KeyHash],
        now: DateTime<Utc>,
    ) -> Result<Vec<Option<CallerRow>>, sqlx::Error> {
        calls::authenticate(connection, keys, now).await
    }
}

/// Which subscriptions a caller has.
pub(crate) enum HooksByKey {}

impl KeyQuery for HooksByKey {
    type Answer = KeyHookList;

    async fn ask(
        connection: &mut PgConnection,
        keys: &[KeyHash],
        now: DateTime<Utc>,
    ) -> Result<Vec<Option<KeyHookList>>, sqlx::Error> {
        hooks::list_for_keys(connection, keys, now).await
    }
}
