//! Subscriptions at a moment.

use domain::event::Event;
use domain::subscription::SubscriptionEvent;
use domain::values::{AsOf, Timestamp};
use eventstore::RecordedEvent;
use eventstore::tail::TailError;
use sqlx::PgConnection;
use uuid::Uuid;

use super::{STREAMS_PER_READ, had_happened};
use crate::hooks::{HookLife, reason_name};

/// A subscription at a moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HookThen {
    /// The life of the subscription up to that moment.
    pub life: HookLife,
    /// Tells whether its last finished delivery had ended with 410.
    pub warned: bool,
}

/// Lists all subscriptions that a firm had made by that moment, newest first.
pub async fn list_hooks(
    connection: &mut PgConnection,
    firm_id: Uuid,
    as_of: AsOf,
) -> Result<Vec<HookThen>, TailError> {
    let ids = ever_made(connection, firm_id).await?;
    let mut hooks = Vec::new();
    for ids in ids.chunks(STREAMS_PER_READ) {
        let streams = had_happened(connection, "Subscription", ids, as_of).await?;
        hooks.extend(streams.iter().filter_map(|stream| fold_stream(stream)));
    }
    hooks.sort_by_key(|hook| std::cmp::Reverse(hook.life.created_position));
    Ok(hooks)
}

async fn ever_made(connection: &mut PgConnection, firm_id: Uuid) -> Result<Vec<Uuid>, sqlx::Error> {
    sqlx::query_scalar("select hook_id from hooks where firm_id = $1")
        .bind(firm_id)
        .fetch_all(connection)
        .await
}

fn fold_stream(stream: &[RecordedEvent]) -> Option<HookThen> {
    let mut hook = created_hook(stream.first()?)?;
    for recorded in stream {
        let Event::Subscription(event) = &recorded.event else { continue };
        match event {
            SubscriptionEvent::SubscriptionCreated { .. } => {}
            SubscriptionEvent::TargetGone(_) => hook.warned = true,
            SubscriptionEvent::TargetAnswered { .. } => hook.warned = false,
            SubscriptionEvent::SubscriptionRemoved { reason, .. } => {
                hook.warned = false;
                hook.life.removed_at = Some(recorded.context.recorded_at.get());
                hook.life.removal_reason = Some(reason_name(*reason).to_owned());
            }
        }
    }
    Some(hook)
}

fn created_hook(recorded: &RecordedEvent) -> Option<HookThen> {
    let Event::Subscription(SubscriptionEvent::SubscriptionCreated {
        key_id,
        trigger,
        target_url,
        form_id,
        ..
    }) = &recorded.event
    else {
        return None;
    };
    let life = HookLife {
        hook_id: recorded.aggregate_id.parse().ok()?,
        key_id: *key_id,
        trigger: trigger.key().to_owned(),
        target_url: target_url.clone(),
        form_id: *form_id,
        created_at: Timestamp::get(recorded.context.recorded_at),
        removed_at: None,
        removal_reason: None,
        created_position: recorded.position,
    };
    Some(HookThen { life, warned: false })
}
