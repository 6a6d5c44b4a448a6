//! Subscriptions as their rows say and as the log says. A verifier compares the two.

use chrono::{DateTime, Utc};
use domain::event::Event;
use domain::subscription::SubscriptionEvent;
use eventstore::RecordedEvent;
use sqlx::{FromRow, PgConnection};
use uuid::Uuid;

use super::reason_name;
use crate::stored_row::{ComparedColumn, StoredRow, compare_columns};

/// A row of the table `hooks`.
#[derive(Debug, Clone, PartialEq, Eq, FromRow)]
pub struct StoredHook {
    hook_id: Uuid,
    firm_id: Uuid,
    key_id: Uuid,
    trigger: String,
    target_url: String,
    form_id: Option<Uuid>,
    created_at: DateTime<Utc>,
    created_position: i64,
    removed_at: Option<DateTime<Utc>>,
    removed_position: Option<i64>,
    removal_reason: Option<String>,
    sequence: i64,
}

impl StoredRow for StoredHook {
    const TABLE: &'static str = "hooks";
    const AGGREGATE: &'static str = "Subscription";
    const COLUMN: &'static str = "target_url";

    fn row_id(&self) -> Uuid {
        self.hook_id
    }

    fn from_stream(stream: &[&RecordedEvent]) -> Option<Self> {
        let mut row: Option<Self> = None;
        for recorded in stream {
            let Event::Subscription(event) = &recorded.event else {
                return None;
            };
            match event {
                SubscriptionEvent::SubscriptionCreated { .. } => {
                    row = Self::from_creation(event, recorded);
                }
                SubscriptionEvent::SubscriptionRemoved { reason, .. } => {
                    let row = row.as_mut()?;
                    row.removed_at = Some(recorded.context.recorded_at.get());
                    row.removed_position = Some(recorded.position);
                    row.removal_reason = Some(reason_name(*reason).to_owned());
                }
                SubscriptionEvent::TargetGone(_) | SubscriptionEvent::TargetAnswered { .. } => {}
            }
            row.as_mut()?.sequence = recorded.sequence;
        }
        row
    }

    fn compared_columns(&self, other: &Self) -> Vec<ComparedColumn> {
        compare_columns!(
            self,
            other,
            [
                firm_id,
                key_id,
                trigger,
                target_url,
                form_id,
                created_at,
                created_position,
                removed_at,
                removed_position,
                removal_reason,
                sequence,
            ]
        )
    }

    async fn rows_after(
        connection: &mut PgConnection,
        after: Option<Uuid>,
        limit: i64,
    ) -> Result<Vec<Self>, sqlx::Error> {
        sqlx::query_as(
            "select hook_id, firm_id, key_id, trigger, target_url, form_id, created_at,
                    created_position, removed_at, removed_position, removal_reason, sequence
               from hooks where $1::uuid is null or hook_id > $1 order by hook_id limit $2",
        )
        .bind(after)
        .bind(limit)
        .fetch_all(connection)
        .await
    }
}

impl StoredHook {
    fn from_creation(event: &SubscriptionEvent, recorded: &RecordedEvent) -> Option<Self> {
        let SubscriptionEvent::SubscriptionCreated { key_id, trigger, target_url, form_id, .. } =
            event
        else {
            return None;
        };
        Some(Self {
            hook_id: recorded.aggregate_id.parse().ok()?,
            firm_id: recorded.context.firm_id,
            key_id: *key_id,
            trigger: trigger.key().to_owned(),
            target_url: target_url.clone(),
            form_id: *form_id,
            created_at: recorded.context.recorded_at.get(),
            created_position: recorded.position,
            removed_at: None,
            removed_position: None,
            removal_reason: None,
            sequence: recorded.sequence,
        })
    }
}
