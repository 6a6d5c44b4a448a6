//! The read model of deliveries: one row with the state of each delivery. The attempts are in the
//! delivery's stream, and [`crate::as_of::find_delivery`] reads them.

mod border;
mod destinations;
mod list;
mod of_hook;
mod retention;
mod writer;

use std::collections::HashMap;
use std::time::Duration;

use chrono::{DateTime, Utc};
use domain::activity::OccurrenceEvent;
use domain::event::Event;
use eventstore::worker::WakeOn;
use eventstore::{JoinedWrites, RecordedEvent};
use futures::future::BoxFuture;
use sqlx::{FromRow, PgConnection, PgPool};
use uuid::Uuid;

use crate::follow::{OpenEvent, Projection};
use crate::{episodes, receivers};

pub(crate) use border::kept_since;
pub use border::{DroppedMonth, HistoryBorder, HistoryDrop, drop_oldest_range, history_border};
pub use destinations::{Destination, destinations_of};
pub use list::{
    DeliveryFilter, ENDED_LATER_MIN, ListedKind, RunPage, about_responses, list, list_among,
    list_ended_later, list_steps, of_run,
};
pub use of_hook::{HookHealth, count_cancelled, count_delivered, hook_health};
pub use retention::{EndedBefore, bodies_needed, has_followed, steps_over};

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

    /// Returns the events that list or queue deliveries. Such an event is closed once each of its
    /// deliveries has a further event.
    fn open_events(&self, events: &[RecordedEvent]) -> Vec<OpenEvent> {
        let mut followed: HashMap<Uuid, usize> = HashMap::new();
        let mut open = Vec::new();
        for (at, event) in events.iter().enumerate().rev() {
            let Ok(id) = event.aggregate_id.parse() else { continue };
            match &event.event {
                Event::Occurrence(OccurrenceEvent::OccurrenceRecorded(of)) => {
                    let deliveries = of.deliveries(id);
                    let firsts: Option<Vec<usize>> =
                        deliveries.map(|(id, _)| followed.get(&id).copied()).collect();
                    let closed_at = firsts.and_then(|firsts| firsts.into_iter().max());
                    open.extend((!of.hooks.is_empty()).then_some(OpenEvent { at, closed_at }));
                }
                Event::Delivery(of) => {
                    let closed_at = followed.insert(id, at);
                    open.extend(of.queues().then_some(OpenEvent { at, closed_at }));
                }
                _ => {}
            }
        }
        open.reverse();
        open
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

/// Counts all deliveries, and the pending ones.
pub async fn count(pool: &PgPool) -> Result<(i64, i64), sqlx::Error> {
    sqlx::query_as("select count(*), count(*) filter (where state = 'pending') from deliveries")
        .fetch_one(pool)
        .await
}
