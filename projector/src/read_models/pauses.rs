//! The read model of operators' pauses (see [`domain::delivery`]). The claim reads the table in its
//! own statement. A pause ends when an operator resumes it, or when its subscription is removed.

use chrono::{DateTime, Utc};
use domain::delivery::{PauseEvent, PauseScope};
use domain::event::Event;
use domain::subscription::SubscriptionEvent;
use eventstore::{AppendError, RecordedEvent, WithAppend};
use futures::future::BoxFuture;
use sqlx::{FromRow, PgConnection, PgPool};
use uuid::Uuid;

/// The writer of the table `pauses`.
pub(crate) struct PauseWriter;

impl WithAppend for PauseWriter {
    fn apply_appended<'a>(
        &'a self,
        connection: &'a mut PgConnection,
        events: &'a [RecordedEvent],
    ) -> BoxFuture<'a, Result<(), AppendError>> {
        Box::pin(async move {
            let mut over = Vec::new();
            for recorded in events {
                match &recorded.event {
                    Event::Pause(PauseEvent::DeliveriesPaused { scope, reason }) => {
                        insert_pause(connection, scope, reason, recorded).await?;
                    }
                    Event::Pause(PauseEvent::DeliveriesResumed { scope, .. }) => {
                        over.push(scope.pause_id());
                    }
                    // A removed subscription has no deliveries that the pause could hold.
                    Event::Subscription(SubscriptionEvent::SubscriptionRemoved { .. }) => {
                        over.extend(pause_of(recorded));
                    }
                    _ => {}
                }
            }
            delete_pauses(connection, &over).await
        })
    }
}

async fn insert_pause(
    connection: &mut PgConnection,
    scope: &PauseScope,
    reason: &str,
    recorded: &RecordedEvent,
) -> Result<(), sqlx::Error> {
    let (firm_id, hook_id, host) = match scope {
        PauseScope::All => (None, None, None),
        PauseScope::Firm { firm_id } => (Some(firm_id), None, None),
        PauseScope::Hook { firm_id, hook_id } => (Some(firm_id), Some(hook_id), None),
        PauseScope::Host { host } => (None, None, Some(host)),
    };
    sqlx::query(
        "insert into pauses (pause_id, kind, firm_id, hook_id, host, reason, actor, paused_at)
         values ($1, $2, $3, $4, $5, $6, $7, $8)",
    )
    .bind(scope.pause_id())
    .bind(scope.kind())
    .bind(firm_id)
    .bind(hook_id)
    .bind(host)
    .bind(reason)
    .bind(recorded.context.actor.to_string())
    .bind(recorded.context.recorded_at.get())
    .execute(connection)
    .await?;
    Ok(())
}

/// Returns the id of the pause for the event's subscription, whether there is such a pause or not.
fn pause_of(recorded: &RecordedEvent) -> Option<Uuid> {
    let hook_id = recorded.aggregate_id.parse().ok()?;
    Some(PauseScope::Hook { firm_id: recorded.context.firm_id, hook_id }.pause_id())
}

async fn delete_pauses(connection: &mut PgConnection, over: &[Uuid]) -> Result<(), AppendError> {
    if over.is_empty() {
        return Ok(());
    }
    sqlx::query("delete from pauses where pause_id = any($1)")
        .bind(over)
        .execute(connection)
        .await?;
    Ok(())
}

/// A pause as a list shows it.
#[derive(Debug, Clone, PartialEq, Eq, FromRow)]
pub struct PauseRow {
    /// The id of the pause, which is the id of its scope.
    pub pause_id: Uuid,
    /// The kind: `all`, `firm`, `hook` or `host`.
    pub kind: String,
    /// The firm of the pause, or the firm of its subscription.
    pub firm_id: Option<Uuid>,
    /// The subscription.
    pub hook_id: Option<Uuid>,
    /// The host.
    pub host: Option<String>,
    /// The reason.
    pub reason: String,
    /// The actor, as the log writes it.
    pub actor: String,
    /// The time at which the pause began.
    pub paused_at: DateTime<Utc>,
}

impl PauseRow {
    /// Returns the scope of the pause.
    #[must_use]
    pub fn scope(&self) -> PauseScope {
        match (self.firm_id, self.hook_id, &self.host) {
            (_, _, Some(host)) => PauseScope::Host { host: host.clone() },
            (Some(firm_id), Some(hook_id), None) => PauseScope::Hook { firm_id, hook_id },
            (Some(firm_id), None, None) => PauseScope::Firm { firm_id },
            (None, _, None) => PauseScope::All,
        }
    }
}

/// Lists all pauses, oldest first.
pub async fn list(pool: &PgPool) -> Result<Vec<PauseRow>, sqlx::Error> {
    sqlx::query_as(
        "select pause_id, kind, firm_id, hook_id, host, reason, actor, paused_at from pauses
          order by paused_at, pause_id",
    )
    .fetch_all(pool)
    .await
}

/// Counts all pauses.
pub async fn count(connection: &mut PgConnection) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar("select count(*) from pauses").fetch_one(connection).await
}

/// Finds a pause that is in force.
pub async fn find(pool: &PgPool, pause_id: Uuid) -> Result<Option<PauseRow>, sqlx::Error> {
    sqlx::query_as(
        "select pause_id, kind, firm_id, hook_id, host, reason, actor, paused_at from pauses
          where pause_id = $1",
    )
    .bind(pause_id)
    .fetch_optional(pool)
    .await
}
