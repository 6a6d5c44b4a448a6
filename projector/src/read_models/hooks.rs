//! The read model of subscriptions. Removed subscriptions keep their rows, each with the positions
//! of its creation and its removal. The append of an occurrence matches the occurrence with the
//! live subscriptions (`matching`).

mod listed;
mod lives;
mod matching;
mod stored;

use std::collections::{BTreeMap, HashMap};

use chrono::{DateTime, Utc};
use domain::event::Event;
use domain::subscription::{RemovalReason, SubscriptionEvent};
use eventstore::{AppendError, NewEvent, RecordedEvent, WithAppend};
use futures::future::BoxFuture;
use sqlx::{FromRow, PgConnection, PgPool};
use uuid::Uuid;

pub use listed::{HookRow, KeyHookList, list_for_keys};
pub use lives::{
    HookLife, find_live, firm_of_live, is_live, life_positions, list_live, list_removed,
    list_warned, of_host,
};
pub use matching::{SubmissionMatch, list_matched, match_submissions, require_matches};
pub use stored::StoredHook;

/// The writer of the table `hooks`, which also lists the subscriptions in each occurrence.
pub(crate) struct HookWriter;

impl WithAppend for HookWriter {
    fn prepare_append<'a>(
        &'a self,
        connection: &'a mut PgConnection,
        events: &'a mut [NewEvent],
    ) -> BoxFuture<'a, Result<(), AppendError>> {
        Box::pin(async move { Ok(matching::list_subscriptions(connection, events).await?) })
    }

    fn apply_appended<'a>(
        &'a self,
        connection: &'a mut PgConnection,
        events: &'a [RecordedEvent],
    ) -> BoxFuture<'a, Result<(), AppendError>> {
        Box::pin(async move {
            let mut changes: BTreeMap<Uuid, HookUpdate> = BTreeMap::new();
            for recorded in events {
                if let (Event::Subscription(event), Ok(hook_id)) =
                    (&recorded.event, recorded.aggregate_id.parse())
                {
                    match event {
                        SubscriptionEvent::SubscriptionCreated { .. } => {
                            insert_hook(connection, hook_id, event, recorded).await?;
                        }
                        _ => changes.entry(hook_id).or_default().take_event(event, recorded),
                    }
                }
            }
            Ok(write_changes(connection, &changes).await?)
        })
    }
}

/// The changes to the row of a known subscription: the sequence of its last event, and its removal.
#[derive(Debug, Default, Clone, Copy)]
struct HookUpdate {
    sequence: i64,
    removed_at: Option<DateTime<Utc>>,
    removed_position: Option<i64>,
    reason: Option<RemovalReason>,
}

impl HookUpdate {
    fn take_event(&mut self, event: &SubscriptionEvent, recorded: &RecordedEvent) {
        self.sequence = recorded.sequence;
        if let SubscriptionEvent::SubscriptionRemoved { reason, .. } = event {
            self.removed_at = Some(recorded.context.recorded_at.get());
            self.removed_position = Some(recorded.position);
            self.reason = Some(*reason);
        }
    }
}

/// Inserts one row. Only a command creates subscriptions, and no batch does.
async fn insert_hook(
    connection: &mut PgConnection,
    hook_id: Uuid,
    event: &SubscriptionEvent,
    recorded: &RecordedEvent,
) -> Result<(), sqlx::Error> {
    let SubscriptionEvent::SubscriptionCreated { key_id, trigger, target_url, form_id, .. } = event
    else {
        return Ok(());
    };
    sqlx::query(
        "insert into hooks (hook_id, firm_id, key_id, trigger, target_url, form_id, created_at,
                            created_position, sequence)
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
    )
    .bind(hook_id)
    .bind(recorded.context.firm_id)
    .bind(key_id)
    .bind(trigger.key())
    .bind(target_url)
    .bind(form_id)
    .bind(recorded.context.recorded_at.get())
    .bind(recorded.position)
    .bind(recorded.sequence)
    .execute(connection)
    .await?;
    Ok(())
}

async fn write_changes(
    connection: &mut PgConnection,
    changes: &BTreeMap<Uuid, HookUpdate>,
) -> Result<(), sqlx::Error> {
    if changes.is_empty() {
        return Ok(());
    }
    let of = || changes.values();
    sqlx::query(
        "update hooks h
            set sequence = t.sequence, removed_at = coalesce(t.removed_at, h.removed_at),
                removed_position = coalesce(t.removed_position, h.removed_position),
                removal_reason = coalesce(t.removal_reason, h.removal_reason)
           from unnest($1::uuid[], $2::bigint[], $3::timestamptz[], $4::bigint[], $5::text[])
                as t(hook_id, sequence, removed_at, removed_position, removal_reason)
          where h.hook_id = t.hook_id",
    )
    .bind(changes.keys().copied().collect::<Vec<_>>())
    .bind(of().map(|change| change.sequence).collect::<Vec<_>>())
    .bind(of().map(|change| change.removed_at).collect::<Vec<_>>())
    .bind(of().map(|change| change.removed_position).collect::<Vec<_>>())
    .bind(of().map(|change| change.reason.map(reason_name)).collect::<Vec<_>>())
    .execute(connection)
    .await?;
    Ok(())
}

pub(crate) const fn reason_name(reason: RemovalReason) -> &'static str {
    match reason {
        RemovalReason::DeletedByKey => "deleted_by_key",
        RemovalReason::KeyRevoked => "key_revoked",
        RemovalReason::TargetGone => "target_gone",
        RemovalReason::FirmClosed => "firm_closed",
    }
}

/// Returns whether this live subscription was made with this key.
pub async fn is_of_key(pool: &PgPool, key_id: Uuid, hook_id: Uuid) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar(
        "select exists (select 1 from hooks
          where hook_id = $1 and key_id = $2 and removed_at is null)",
    )
    .bind(hook_id)
    .bind(key_id)
    .fetch_one(pool)
    .await
}

/// A live subscription that is about to be removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromRow)]
pub struct LiveHook {
    /// The id of the subscription.
    pub hook_id: Uuid,
    /// The firm.
    pub firm_id: Uuid,
    /// The key that made the subscription.
    pub key_id: Uuid,
    /// The sequence of the last event in its stream.
    pub sequence: i64,
}

/// Lists the live subscriptions of these keys. The caller has locked the keys.
pub async fn live_of_keys(
    connection: &mut PgConnection,
    key_ids: &[Uuid],
) -> Result<Vec<LiveHook>, sqlx::Error> {
    sqlx::query_as(
        "select hook_id, firm_id, key_id, sequence from hooks
          where key_id = any($1) and removed_at is null order by hook_id",
    )
    .bind(key_ids)
    .fetch_all(connection)
    .await
}

/// Lists the live subscriptions of these firms. The caller has locked the firms.
pub async fn live_of_firms(
    connection: &mut PgConnection,
    firm_ids: &[Uuid],
) -> Result<Vec<LiveHook>, sqlx::Error> {
    sqlx::query_as(
        "select hook_id, firm_id, key_id, sequence from hooks
          where firm_id = any($1) and removed_at is null order by hook_id",
    )
    .bind(firm_ids)
    .fetch_all(connection)
    .await
}

/// Returns the sequence of the last event of each of these subscriptions.
pub async fn last_sequences(
    connection: &mut PgConnection,
    hook_ids: &[Uuid],
) -> Result<HashMap<Uuid, i64>, sqlx::Error> {
    let rows: Vec<(Uuid, i64)> =
        sqlx::query_as("select hook_id, sequence from hooks where hook_id = any($1)")
            .bind(hook_ids)
            .fetch_all(connection)
            .await?;
    Ok(rows.into_iter().collect())
}

/// Finds the target of a subscription of a firm, removed or not.
pub async fn target_of(
    connection: &mut PgConnection,
    firm_id: Uuid,
    hook_id: Uuid,
) -> Result<Option<String>, sqlx::Error> {
    sqlx::query_scalar("select target_url from hooks where hook_id = $2 and firm_id = $1")
        .bind(firm_id)
        .bind(hook_id)
        .fetch_optional(connection)
        .await
}

/// Returns the target of each of these subscriptions.
pub async fn target_urls(
    connection: &mut PgConnection,
    hook_ids: &[Uuid],
) -> Result<Vec<(Uuid, String)>, sqlx::Error> {
    sqlx::query_as("select hook_id, target_url from hooks where hook_id = any($1)")
        .bind(hook_ids)
        .fetch_all(connection)
        .await
}
