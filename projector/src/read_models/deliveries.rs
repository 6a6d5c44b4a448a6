//! The read model of deliveries: one row with the state of each delivery. The attempts are in the
//! delivery's stream, and [`crate::as_of::find_delivery`] reads them.

mod destinations;
mod list;
mod of_hook;
mod writer;

use std::collections::HashSet;
use std::time::Duration;

use chrono::{DateTime, Utc};
use domain::activity::OccurrenceEvent;
use domain::event::Event;
use eventstore::worker::WakeOn;
use eventstore::{JoinedWrites, RecordedEvent};
use futures::future::BoxFuture;
use sqlx::{FromRow, PgConnection, PgPool};
use uuid::Uuid;

use crate::follow::Projection;
use crate::{episodes, receivers};

pub use destinations::{Destination, destinations_of};
pub use list::{
    DeliveryFilter, ENDED_LATER_MIN, ListedKind, RunPage, about_responses, list, list_among,
    list_ended_later, list_steps, of_run,
};
pub use of_hook::{HookHealth, count_cancelled, count_delivered, hook_health};

/// The writer of the table `deliveries`.
pub struct DeliveryProjection;

impl Projection for DeliveryProjection {
    const NAME: &'static str = "deliveries";
    const WAKES: WakeOn = WakeOn::AnyEvent;
    const PASSES: &'static [&'static str] = &[];

    /// Each step has a dozen round trips. With one step a second they cost little, however few
    /// events there are.
    const STEP_INTERVAL_MIN: Duration = Duration::from_millis(900);
    const STEP_INTERVAL_MAX: Duration = Duration::from_secs(1);

    /// Counts one row for each delivery that the event begins or changes.
    fn rows_max(&self, event: &RecordedEvent) -> usize {
        match &event.event {
            Event::Occurrence(OccurrenceEvent::OccurrenceRecorded(of)) => of.hooks.len(),
            Event::Delivery(_) => 1,
            _ => 0,
        }
    }

    /// Returns the events that list or queue a delivery without an attempt in these events.
    fn unfinished_events(&self, events: &[RecordedEvent]) -> Vec<usize> {
        let mut followed: HashSet<Uuid> = HashSet::new();
        let mut unfinished = Vec::new();
        for (at, event) in events.iter().enumerate().rev() {
            let Ok(id) = event.aggregate_id.parse() else { continue };
            let begins = match &event.event {
                Event::Occurrence(OccurrenceEvent::OccurrenceRecorded(of)) => {
                    of.deliveries(id).any(|(delivery_id, _)| !followed.contains(&delivery_id))
                }
                Event::Delivery(of) => followed.insert(id) && of.queues(),
                _ => false,
            };
            unfinished.extend(begins.then_some(at));
        }
        unfinished.reverse();
        unfinished
    }

    fn apply_batch<'a>(
        &'a self,
        connection: &'a mut PgConnection,
        events: &'a [RecordedEvent],
    ) -> BoxFuture<'a, Result<(), sqlx::Error>> {
        Box::pin(async move { writer::write_batch(connection, events).await })
    }

    fn count_batch<'a>(
        &'a self,
        connection: &'a mut PgConnection,
        writes: &'a mut JoinedWrites,
        events: &'a [RecordedEvent],
    ) -> BoxFuture<'a, Result<(), sqlx::Error>> {
        Box::pin(async move {
            receivers::count_attempts(connection, writes, events).await?;
            episodes::take_events(connection, events).await
        })
    }
}

/// Returns whether this transaction may mark purged deliveries. Two purgers at once would each
/// leave a shared body to the other. A rebuild copies the marks, so it holds the same lock.
pub async fn is_only_purger(connection: &mut PgConnection) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar("select pg_try_advisory_xact_lock(hashtext('firmforms purge'))")
        .fetch_one(connection)
        .await
}

/// Deliveries marked as purged, and the bodies to drop.
#[derive(Debug, Default)]
pub struct PurgedDeliveries {
    /// The marked deliveries.
    pub delivery_ids: Vec<Uuid>,
    /// The bodies that no other delivery needs any more.
    pub body_ids: Vec<Uuid>,
}

/// Marks up to `limit` deliveries whose body was kept long enough. Delivered ones must have ended
/// before the first time, all others before the second.
pub async fn purge_bodies(
    connection: &mut PgConnection,
    delivered_before: DateTime<Utc>,
    failed_before: DateTime<Utc>,
    limit: i64,
) -> Result<PurgedDeliveries, sqlx::Error> {
    let rows: Vec<(Uuid, Option<Uuid>)> = sqlx::query_as(
        "update deliveries set purged = true
          where delivery_id = any(array(
                select delivery_id from deliveries
                 where (body_id is not null or run_id is not null) and not purged
                   and ended_at <= greatest($1, $2)
                   and ended_at <= case when state = 'delivered' then $1 else $2 end
                 order by ended_at limit $3 for update skip locked))
         returning delivery_id, body_id",
    )
    .bind(delivered_before)
    .bind(failed_before)
    .bind(limit)
    .fetch_all(&mut *connection)
    .await?;
    let (delivery_ids, bodies): (Vec<Uuid>, Vec<Option<Uuid>>) = rows.into_iter().unzip();
    let bodies: Vec<Uuid> = bodies.into_iter().flatten().collect();
    let body_ids = sqlx::query_scalar(
        "select distinct body_id from unnest($1::uuid[]) as t(body_id)
          where not exists (select 1 from deliveries d
                             where d.body_id = t.body_id and not d.purged)",
    )
    .bind(bodies)
    .fetch_all(connection)
    .await?;
    Ok(PurgedDeliveries { delivery_ids, body_ids })
}

/// A delivery as a list shows it.
#[derive(Debug, Clone, PartialEq, Eq, FromRow)]
pub struct DeliveryRow {
    /// The id of the delivery.
    pub delivery_id: Uuid,
    /// The subscription, unless the delivery is a workflow step.
    pub hook_id: Option<Uuid>,
    /// The run of the workflow, for a workflow step.
    pub run_id: Option<Uuid>,
    /// The workflow step.
    pub step_id: Option<Uuid>,
    /// The key of the trigger.
    pub trigger: String,
    /// The form.
    pub form_id: Uuid,
    /// The response.
    pub response_id: Uuid,
    /// The state: `pending`, `delivered`, `failed` or `cancelled`.
    pub state: String,
    /// The cause of a cancellation.
    pub cause: Option<String>,
    /// The time at which the delivery was queued.
    pub created_at: DateTime<Utc>,
    /// The time at which the next attempt is due.
    pub next_try_at: Option<DateTime<Utc>>,
    /// The SHA-256 of the sent body, in lower-case hex.
    pub body_sha256: Option<String>,
    /// The ended delivery that this one was reissued from.
    pub reissue_of: Option<Uuid>,
}

/// Returns the time at which a delivery of the firm was queued. A list is ordered by this time and
/// the id.
pub async fn created_at(
    pool: &PgPool,
    firm_id: Uuid,
    delivery_id: Uuid,
) -> Result<Option<DateTime<Utc>>, sqlx::Error> {
    sqlx::query_scalar("select created_at from deliveries where delivery_id = $1 and firm_id = $2")
        .bind(delivery_id)
        .bind(firm_id)
        .fetch_optional(pool)
        .await
}

/// Returns the occurrence of a delivery that the read model knows, unless it is a workflow step.
pub async fn occurrence_of(
    connection: &mut PgConnection,
    delivery_id: Uuid,
) -> Result<Option<Uuid>, sqlx::Error> {
    let found = sqlx::query_scalar("select occurrence_id from deliveries where delivery_id = $1")
        .bind(delivery_id)
        .fetch_optional(connection)
        .await?;
    Ok(found.flatten())
}

/// Returns the firm of a delivery that the read model knows.
pub async fn firm_of(pool: &PgPool, delivery_id: Uuid) -> Result<Option<Uuid>, sqlx::Error> {
    sqlx::query_scalar("select firm_id from deliveries where delivery_id = $1")
        .bind(delivery_id)
        .fetch_optional(pool)
        .await
}

/// Returns whether the sent body was purged.
pub async fn is_purged(pool: &PgPool, delivery_id: Uuid) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar(
        "select coalesce(bool_or(purged), false) from deliveries where delivery_id = $1",
    )
    .bind(delivery_id)
    .fetch_one(pool)
    .await
}

/// Counts all deliveries, and the pending ones.
pub async fn count(pool: &PgPool) -> Result<(i64, i64), sqlx::Error> {
    sqlx::query_as("select count(*), count(*) filter (where state = 'pending') from deliveries")
        .fetch_one(pool)
        .await
}
