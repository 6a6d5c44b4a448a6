//! Deliveries that have begun, and wait for an attempt without a row. An append writes event and
//! row in one transaction, so only a partial restore or a hand can lose the row alone. The stream
//! holds all of it, whatever began the delivery.

use std::collections::HashMap;

use cqrs_es::Aggregate;
use domain::delivery::{Delivery, DeliveryEvent, RetriedStep};
use domain::event::Event;
use domain::values::Timestamp;
use eventstore::{AppendError, RecordedEvent, StreamName, Upcasters, load_first, load_many};
use sqlx::PgConnection;
use uuid::Uuid;

use super::row::{NewOutboxRow, OutboxRow, insert_rows};
use super::{reissue, steps};

/// Queues a pending workflow step whose row is lost, and returns whether it was. Two callers at
/// once queue one row.
pub(crate) async fn queue_lost_step(
    connection: &mut PgConnection,
    delivery_id: Uuid,
    now: Timestamp,
) -> Result<bool, AppendError> {
    sqlx::query("select pg_advisory_xact_lock(hashtextextended($1::text, 0))")
        .bind(delivery_id)
        .execute(&mut *connection)
        .await?;
    let rows = lost_rows(connection, &[delivery_id], now).await?;
    let steps: Vec<_> = rows.into_iter().filter(|new| new.row.step.is_some()).collect();
    queue_rows(connection, &steps, now).await?;
    Ok(!steps.is_empty())
}

/// Inserts rebuilt rows.
pub(crate) async fn queue_rows(
    connection: &mut PgConnection,
    rows: &[NewOutboxRow],
    now: Timestamp,
) -> Result<(), sqlx::Error> {
    for NewOutboxRow { row, .. } in rows {
        steps::open_lane(connection, row, now.get()).await?;
    }
    insert_rows(connection, rows).await
}

/// The rows of these deliveries, as far as they wait for an attempt and have none. The outbox is
/// read before the streams: a row that an attempt deletes in between has its end in the stream.
pub(crate) async fn lost_rows(
    connection: &mut PgConnection,
    delivery_ids: &[Uuid],
    now: Timestamp,
) -> Result<Vec<NewOutboxRow>, AppendError> {
    let queued = queued_of(connection, delivery_ids).await?;
    let lost = delivery_ids.iter().filter(|id| !queued.contains(id));
    let names: Vec<StreamName> = lost
        .map(|id| StreamName { aggregate_type: Delivery::TYPE, aggregate_id: id.to_string() })
        .collect();
    let upcasters = Upcasters::current();
    let events = load_many(connection, &upcasters, &names).await?;
    let begun: Vec<BegunDelivery<'_>> = events
        .chunk_by(|one, next| one.aggregate_id == next.aggregate_id)
        .filter_map(BegunDelivery::new)
        .collect();
    let ids: Vec<String> = begun
        .iter()
        .filter_map(|one| Some(one.delivery.delivery_of()?.occurrence_id.to_string()))
        .collect();
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    let occurrences = load_first(connection, &upcasters, "Occurrence", &ids).await?;
    let occurrences: HashMap<Uuid, &RecordedEvent> = occurrences
        .iter()
        .filter_map(|recorded| Some((recorded.aggregate_id.parse().ok()?, recorded)))
        .collect();
    Ok(begun.iter().filter_map(|one| one.waiting_row(&occurrences, now)).collect())
}

/// The deliveries among these that are in the outbox.
pub(crate) async fn queued_of(
    connection: &mut PgConnection,
    delivery_ids: &[Uuid],
) -> Result<Vec<Uuid>, sqlx::Error> {
    sqlx::query_scalar("select delivery_id from outbox where delivery_id = any($1)")
        .bind(delivery_ids)
        .fetch_all(connection)
        .await
}

/// The stream of a delivery, which is not empty.
struct BegunDelivery<'a> {
    first: &'a RecordedEvent,
    /// The sequence of its last event.
    last: i64,
    delivery: Delivery,
}

impl<'a> BegunDelivery<'a> {
    fn new(events: &'a [RecordedEvent]) -> Option<Self> {
        let mut delivery = Delivery::default();
        for recorded in events {
            let Event::Delivery(event) = &recorded.event else { return None };
            delivery.apply(event.clone());
        }
        Some(Self { first: events.first()?, last: events.last()?.sequence, delivery })
    }

    /// The row of the attempt that it waits for. `None` if it waits for none, or its occurrence is
    /// not in the log.
    fn waiting_row(
        &self,
        occurrences: &HashMap<Uuid, &RecordedEvent>,
        now: Timestamp,
    ) -> Option<NewOutboxRow> {
        let next = self.delivery.next_attempt()?;
        let body = self.delivery.body();
        let row = OutboxRow {
            sequence: self.last,
            tries: self.delivery.tries().cast_signed(),
            tries_max: next.tries_max.cast_signed(),
            replay_id: next.replay_id,
            body_id: body.map(|body| body.id),
            body_sha256: body.and_then(|body| hex::decode(&body.sha256).ok()),
            ..self.first_row(occurrences)?
        };
        let due_at = next.due_at.unwrap_or(now).get();
        Some(NewOutboxRow { row, due_at, lease: None })
    }

    /// The row with which the delivery began.
    fn first_row(&self, occurrences: &HashMap<Uuid, &RecordedEvent>) -> Option<OutboxRow> {
        match &self.first.event {
            Event::Delivery(DeliveryEvent::StepQueued(order)) => {
                let step = RetriedStep { order: order.clone(), tries: 0, body: None };
                Some(steps::step_row(self.first, &step))
            }
            Event::Delivery(DeliveryEvent::DeliveryReissued(reissued)) => {
                reissue::reissued_row(self.first, reissued)
            }
            _ => {
                let of = self.delivery.delivery_of()?;
                let recorded = *occurrences.get(&of.occurrence_id)?;
                let delivery_id = self.first.aggregate_id.parse().ok()?;
                let happening = recorded.event.happening()?;
                Some(OutboxRow::listed(
                    delivery_id,
                    of.hook_id,
                    of.occurrence_id,
                    recorded,
                    happening,
                ))
            }
        }
    }
}
