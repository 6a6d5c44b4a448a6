//! Explains the life of a key: its making, its revocation, and all that went with it.

use domain::access::KeyEvent;
use domain::event::Event;
use domain::subscription::SubscriptionEvent;
use domain::values::Timestamp;
use projector::{deliveries, keys};
use serde::Serialize;
use uuid::Uuid;

use super::add_counts;
use crate::error::Error;
use crate::queries::causes::{self, CancelledCount, CauseStep};
use crate::service::Service;

/// A key's life and end.
#[derive(Debug, Serialize)]
pub struct KeyHistory {
    id: Uuid,
    /// The firm. A reader of the history knows it already.
    #[serde(skip)]
    pub firm_id: Uuid,
    name: String,
    prefix: String,
    member_id: Uuid,
    /// `active` or `revoked`.
    state: &'static str,
    /// The events that led here and their effects, oldest first.
    steps: Vec<CauseStep>,
    /// The subscriptions that were removed with the key.
    hooks_removed: Vec<Uuid>,
    /// The deliveries of these subscriptions that were cancelled so far.
    cancelled: Vec<CancelledCount>,
    /// Deliveries before this time have left, and the key is older. They are not counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    archived_before: Option<Timestamp>,
}

/// The history of any key, revoked or not.
///
/// # Errors
/// `not_found`.
pub async fn of_key(service: &Service, key_id: Uuid) -> Result<KeyHistory, Error> {
    let mut connection = service.store.pool().acquire().await?;
    let key = keys::named(&mut connection, &[key_id]).await?.pop().ok_or(Error::NotFound)?;
    let chain = causes::of_key(&mut connection, key_id).await?;
    drop(connection);
    let mut state = "active";
    let mut hooks_removed = Vec::new();
    for recorded in chain.events() {
        match &recorded.event {
            Event::Key(KeyEvent::KeyRevoked { .. })
                if recorded.aggregate_id == key_id.to_string() =>
            {
                state = "revoked";
            }
            Event::Subscription(SubscriptionEvent::SubscriptionRemoved { .. }) => {
                hooks_removed.extend(recorded.aggregate_id.parse::<Uuid>());
            }
            _ => {}
        }
    }
    let mut cancelled = Vec::new();
    for hook_id in &hooks_removed {
        let counts = deliveries::count_cancelled(service.store.pool(), *hook_id).await?;
        add_counts(&mut cancelled, counts);
    }
    let made_at = chain.events().next().map(|first| first.context.recorded_at.get());
    let border = deliveries::history_border(service.store.pool()).await?;
    let border = border.filter(|border| border.bounds_queued(made_at));
    Ok(KeyHistory {
        id: key_id,
        firm_id: key.firm_id,
        name: key.name,
        prefix: key.prefix,
        member_id: key.member_id,
        state,
        steps: chain.tell_steps(service).await?,
        hooks_removed,
        cancelled,
        archived_before: border.map(|border| border.kept_since.into()),
    })
}
