//! Deliveries without a subject: their response was erased (ruling 27, cancelled).

use std::collections::HashSet;

use domain::delivery::{CancelCause, DeliveryEvent};
use domain::values::Timestamp;
use eventstore::NewEvent;
use projector::subjects;
use sqlx::PgConnection;
use uuid::Uuid;
use vault::{KeySubject, erasure};

use super::row::OutboxRow;
use crate::error::DeliveryError;
use crate::settings::DelivererContext;

/// The erased responses among these. The look takes no lock, so a claim and a record look again
/// after their commit.
pub(crate) async fn erased_of(
    connection: &mut PgConnection,
    responses: impl Iterator<Item = KeySubject>,
) -> Result<HashSet<KeySubject>, sqlx::Error> {
    let responses: HashSet<(Uuid, Uuid)> = responses.map(|subject| subject.ids()).collect();
    let responses: Vec<(Uuid, Uuid)> = responses.into_iter().collect();
    let erased = subjects::erased_among(connection, &responses).await?;
    Ok(erased.into_iter().map(KeySubject::from).collect())
}

/// The erased responses among these, looked up after the commit of a transaction about them. The
/// eraser may not have seen the data that this transaction wrote, so the data is deleted here. Of
/// an expired response it cannot be read, and a report may have brought the response back.
pub(crate) async fn erased_meanwhile(
    deliverer: &DelivererContext,
    responses: impl Iterator<Item = KeySubject>,
) -> Result<HashSet<KeySubject>, DeliveryError> {
    let connections = deliverer.store.connections();
    let mut connection = connections.take().await?;
    let erased = erased_of(&mut connection, responses).await?;
    if !erased.is_empty() {
        let ids: Vec<_> = erased.iter().map(KeySubject::ids).collect();
        let for_good = subjects::erased_for_good(&mut connection, &ids).await?;
        let for_good: Vec<KeySubject> = for_good.into_iter().map(KeySubject::from).collect();
        erasure::erase_responses(&mut connection, &for_good).await?;
    }
    connections.give_back(connection);
    Ok(erased)
}

/// The cancellations of these rows.
pub(crate) fn cancelled_events(
    rows: &[OutboxRow],
    cause: CancelCause,
    now: Timestamp,
) -> Vec<NewEvent> {
    rows.iter()
        // A replayed delivery had ended before, so its stream gets no cancellation.
        .filter(|row| row.replay_id.is_none())
        .map(|row| {
            let of = row.delivery_of();
            row.next(DeliveryEvent::DeliveryCancelled { cause, of }, now)
        })
        .collect()
}
