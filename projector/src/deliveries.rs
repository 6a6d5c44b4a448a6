//! Where each delivery stands. Its tries are in its stream ([`crate::as_of::delivery`]).

mod destinations;
mod list;
mod of_hook;
mod writer;

use std::collections::HashSet;

use chrono::{DateTime, Utc};
use domain::event::Event;
use domain::occurrence::OccurrenceEvent;
use eventstore::RecordedEvent;
use futures::future::BoxFuture;
use sqlx::{FromRow, PgConnection, PgPool};
use uuid::Uuid;

use crate::follow::Projection;

pub use destinations::{Destination, destinations};
pub use list::{DeliveryFilter, list, list_steps};
pub use of_hook::{count_cancelled, count_delivered};

/// The writer.
pub struct DeliveryProjection;

impl Projection for DeliveryProjection {
    const NAME: &'static str = "deliveries";
    const PASSES: &'static [&'static str] = &[];

    /// One row for each delivery that an event begins or changes.
    fn rows(&self, event: &RecordedEvent) -> usize {
        match &event.event {
            Event::Occurrence(OccurrenceEvent::OccurrenceRecorded(of)) => of.hooks.len(),
            Event::Delivery(_) => 1,
            _ => 0,
        }
    }

    /// What was listed or queued and is not tried.
    fn unfinished(&self, events: &[RecordedEvent]) -> Vec<usize> {
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

    fn apply<'a>(
        &'a self,
        connection: &'a mut PgConnection,
        events: &'a [RecordedEvent],
    ) -> BoxFuture<'a, Result<(), sqlx::Error>> {
        Box::pin(async move { writer::write(connection, events).await })
    }
}

/// Whether nobody else marks what is purged, until the transaction ends: two who swept at once would
/// each leave a body to the other, and a rebuild takes the marks over.
///
/// # Errors
/// If the database does not answer.
pub async fn is_only_purger(connection: &mut PgConnection) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar("select pg_try_advisory_xact_lock(hashtext('firmforms purge'))")
        .fetch_one(connection)
        .await
}

/// Deliveries whose body was kept long enough.
#[derive(Debug, Default)]
pub struct PurgedDeliveries {
    /// They.
    pub delivery_ids: Vec<Uuid>,
    /// The bodies that no other delivery still needs.
    pub body_ids: Vec<Uuid>,
}

/// Marks deliveries whose body was kept long enough: at most `limit` at a time.
///
/// # Errors
/// If the database does not answer.
pub async fn purge(
    connection: &mut PgConnection,
    (delivered_before, failed_before): (DateTime<Utc>, DateTime<Utc>),
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

/// A delivery as it is read.
#[derive(Debug, Clone, PartialEq, Eq, FromRow)]
pub struct DeliveryRow {
    /// Its id.
    pub delivery_id: Uuid,
    /// The subscription, unless it is a workflow step's.
    pub hook_id: Option<Uuid>,
    /// The run of the workflow whose step sends it.
    pub run_id: Option<Uuid>,
    /// The step that sends it.
    pub step_id: Option<Uuid>,
    /// The trigger's key.
    pub trigger: String,
    /// The form.
    pub form_id: Uuid,
    /// The response.
    pub response_id: Uuid,
    /// `pending`, `delivered`, `failed` or `cancelled`.
    pub state: String,
    /// Why it was cancelled, if it was.
    pub cause: Option<String>,
    /// When it was queued.
    pub created_at: DateTime<Utc>,
    /// When the next try is due.
    pub next_try_at: Option<DateTime<Utc>>,
    /// SHA-256 of what was sent, lower-case hex.
    pub body_sha256: Option<String>,
    /// The delivery it was made anew from, if it was.
    pub reissue_of: Option<Uuid>,
}

/// When a delivery of a firm was queued: with its id, its place in lists.
///
/// # Errors
/// If the database does not answer.
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

/// Whether what it sent was kept long enough, and is gone.
///
/// # Errors
/// If the database does not answer.
pub async fn is_purged(pool: &PgPool, delivery_id: Uuid) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar(
        "select coalesce(bool_or(purged), false) from deliveries where delivery_id = $1",
    )
    .bind(delivery_id)
    .fetch_one(pool)
    .await
}

/// How many deliveries there are, and how many of them are pending.
///
/// # Errors
/// If the database does not answer.
pub async fn count(pool: &PgPool) -> Result<(i64, i64), sqlx::Error> {
    sqlx::query_as("select count(*), count(*) filter (where state = 'pending') from deliveries")
        .fetch_one(pool)
        .await
}
