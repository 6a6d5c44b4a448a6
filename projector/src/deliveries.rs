//! Deliveries and their history, try by try.

mod destinations;
mod list;
mod of_hook;

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use domain::delivery::{
    Attempt, CancelCause, Consignment, DeliveryEvent, DeliveryState, Hop, Reissued,
};
use domain::event::Event;
use domain::target::host_of;
use domain::time::Timestamp;
use domain::trigger::Trigger;
use domain::workflow::{StepName, StepOrder};
use eventstore::RecordedEvent;
use futures::future::BoxFuture;
use sqlx::types::Json;
use sqlx::{FromRow, PgConnection, PgPool};
use uuid::Uuid;

use crate::follow::Projection;

pub use destinations::{Destination, destinations};
pub use list::{Wanted, list, list_steps};
pub use of_hook::{cancelled, delivered_between};

/// The writer.
pub struct Deliveries;

impl Projection for Deliveries {
    const NAME: &'static str = "deliveries";

    fn apply<'a>(
        &'a self,
        connection: &'a mut PgConnection,
        events: &'a [RecordedEvent],
    ) -> BoxFuture<'a, Result<(), sqlx::Error>> {
        Box::pin(async move {
            let batch = Batch::of(events);
            insert_queued(connection, &batch.queued).await?;
            insert_attempts(connection, &batch.attempts).await?;
            update_states(connection, &batch.states).await
        })
    }
}

/// A batch of events sorted by the statement that takes them in.
#[derive(Default)]
struct Batch<'a> {
    queued: Vec<(Uuid, &'a RecordedEvent, Queued<'a>)>,
    attempts: Vec<(Uuid, Uuid, &'a Attempt)>,
    states: BTreeMap<Uuid, State>,
}

/// What was queued.
#[derive(Clone, Copy)]
enum Queued<'a> {
    Hook(&'a Consignment),
    Step(&'a StepOrder),
    Anew(&'a Reissued),
}

impl<'a> Queued<'a> {
    const fn hook(self) -> Option<&'a Consignment> {
        match self {
            Self::Hook(consignment) => Some(consignment),
            Self::Anew(reissued) => Some(&reissued.consignment),
            Self::Step(_) => None,
        }
    }

    const fn step(self) -> Option<StepName> {
        match self {
            Self::Hook(_) | Self::Anew(_) => None,
            Self::Step(order) => Some(order.step),
        }
    }

    /// Where a step's goes.
    fn host(self) -> Option<String> {
        match self {
            Self::Hook(_) | Self::Anew(_) => None,
            Self::Step(order) => Some(host_of(&order.url)),
        }
    }

    /// Trigger, form and response.
    fn about(self) -> (Trigger, Uuid, Uuid) {
        let of = |sent: &Consignment| (sent.trigger, sent.form_id, sent.response_id);
        match self {
            Self::Hook(sent) => of(sent),
            Self::Anew(reissued) => of(&reissued.consignment),
            Self::Step(sent) => (sent.trigger, sent.form_id, sent.response_id),
        }
    }

    /// What it was made anew from.
    const fn reissue_of(self) -> Option<Uuid> {
        match self {
            Self::Hook(_) | Self::Step(_) => None,
            Self::Anew(reissued) => Some(reissued.reissue_of),
        }
    }
}

/// Where a delivery stands after the batch; what is none stays.
#[derive(Default)]
struct State {
    state: &'static str,
    cause: Option<&'static str>,
    next_try_at: Option<DateTime<Utc>>,
    ended_at: Option<DateTime<Utc>>,
    body: Option<(Uuid, String)>,
}

impl State {
    fn follow(&mut self, attempt: &Attempt, after: DeliveryState) {
        self.state = after.name();
        self.cause = attempt.cancelled.map(CancelCause::name);
        self.next_try_at = attempt.next_try_at.map(Timestamp::get);
        self.ended_at = (after != DeliveryState::Pending).then(|| attempt.finished_at.get());
        if let (Some(id), Some(sha256)) = (attempt.body_id, &attempt.body_sha256) {
            self.body = Some((id, sha256.clone()));
        }
    }
}

impl<'a> Batch<'a> {
    fn of(events: &'a [RecordedEvent]) -> Self {
        let mut batch = Self::default();
        for recorded in events {
            if let (Event::Delivery(event), Ok(id)) =
                (&recorded.event, recorded.aggregate_id.parse())
            {
                batch.push(id, event, recorded);
            }
        }
        batch
    }

    fn push(&mut self, id: Uuid, event: &'a DeliveryEvent, recorded: &'a RecordedEvent) {
        match event {
            DeliveryEvent::DeliveryQueued(consignment) => {
                self.queued.push((id, recorded, Queued::Hook(consignment)));
            }
            DeliveryEvent::StepQueued(order) => {
                self.queued.push((id, recorded, Queued::Step(order)));
            }
            DeliveryEvent::DeliveryReissued(reissued) => {
                self.queued.push((id, recorded, Queued::Anew(reissued)));
            }
            DeliveryEvent::StepRetried(_) => {
                let state = self.states.entry(id).or_default();
                state.state = DeliveryState::Pending.name();
                state.next_try_at = Some(recorded.context.recorded_at.get());
                state.ended_at = None;
            }
            DeliveryEvent::DeliveryReplayed(_) => {}
            DeliveryEvent::DeliveryAttempted(attempt) => {
                self.attempts.push((id, recorded.context.firm_id, attempt));
                if let Some(after) = attempt.state_after() {
                    self.states.entry(id).or_default().follow(attempt, after);
                }
            }
            DeliveryEvent::DeliveryCancelled { cause } => {
                let state = self.states.entry(id).or_default();
                state.ended_at = Some(recorded.context.recorded_at.get());
                state.state = "cancelled";
                state.cause = Some(cause.name());
                state.next_try_at = None;
            }
        }
    }
}

async fn insert_queued(
    connection: &mut PgConnection,
    queued: &[(Uuid, &RecordedEvent, Queued<'_>)],
) -> Result<(), sqlx::Error> {
    if queued.is_empty() {
        return Ok(());
    }
    sqlx::query(
        "insert into deliveries (delivery_id, firm_id, hook_id, occurrence_id, run_id, step_id,
                                 trigger, form_id, response_id, created_at, host,
                                 reissue_of, next_try_at, state)
         select t.*, t.created_at, 'pending'
           from unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::uuid[], $5::uuid[], $6::uuid[],
                       $7::text[], $8::uuid[], $9::uuid[], $10::timestamptz[], $11::text[], $12::uuid[])
                as t(delivery_id, firm_id, hook_id, occurrence_id, run_id, step_id, trigger,
                     form_id, response_id, created_at, host, reissue_of)",
    )
    .bind(queued.iter().map(|(id, ..)| *id).collect::<Vec<_>>())
    .bind(queued.iter().map(|(_, recorded, _)| recorded.context.firm_id).collect::<Vec<_>>())
    .bind(queued.iter().map(|(.., q)| q.hook().map(|c| c.hook_id)).collect::<Vec<_>>())
    .bind(queued.iter().map(|(.., q)| q.hook().map(|c| c.occurrence_id)).collect::<Vec<_>>())
    .bind(queued.iter().map(|(.., q)| q.step().map(|step| step.run_id)).collect::<Vec<_>>())
    .bind(queued.iter().map(|(.., q)| q.step().map(|step| step.step_id)).collect::<Vec<_>>())
    .bind(queued.iter().map(|(.., q)| q.about().0.key()).collect::<Vec<_>>())
    .bind(queued.iter().map(|(.., q)| q.about().1).collect::<Vec<_>>())
    .bind(queued.iter().map(|(.., q)| q.about().2).collect::<Vec<_>>())
    .bind(queued.iter().map(|(_, r, _)| r.context.recorded_at.get()).collect::<Vec<_>>())
    .bind(queued.iter().map(|(.., q)| q.host()).collect::<Vec<_>>())
    .bind(queued.iter().map(|(.., q)| q.reissue_of()).collect::<Vec<_>>())
    .execute(connection)
    .await?;
    Ok(())
}

async fn insert_attempts(
    connection: &mut PgConnection,
    attempts: &[(Uuid, Uuid, &Attempt)],
) -> Result<(), sqlx::Error> {
    if attempts.is_empty() {
        return Ok(());
    }
    let each = || attempts.iter().map(|(.., attempt)| *attempt);
    sqlx::query(
        "insert into attempts (delivery_id, firm_id, number, started_at, finished_at, outcome,
                               status, error, retry_after_seconds, hops, late)
         select * from unnest($1::uuid[], $2::uuid[], $3::int[], $4::timestamptz[],
                              $5::timestamptz[], $6::text[], $7::int[], $8::text[], $9::bigint[],
                              $10::jsonb[], $11::boolean[])",
    )
    .bind(attempts.iter().map(|(id, ..)| *id).collect::<Vec<_>>())
    .bind(attempts.iter().map(|(_, firm_id, _)| *firm_id).collect::<Vec<_>>())
    .bind(each().map(|a| i32::try_from(a.number).unwrap_or(i32::MAX)).collect::<Vec<_>>())
    .bind(each().map(|a| a.started_at.get()).collect::<Vec<_>>())
    .bind(each().map(|a| a.finished_at.get()).collect::<Vec<_>>())
    .bind(each().map(|a| a.outcome.name()).collect::<Vec<_>>())
    .bind(each().map(|a| a.status.map(i32::from)).collect::<Vec<_>>())
    .bind(each().map(|a| a.error.as_deref()).collect::<Vec<_>>())
    .bind(each().map(|a| a.retry_after_seconds.map(u64::cast_signed)).collect::<Vec<_>>())
    .bind(each().map(|a| Json(&a.hops)).collect::<Vec<_>>())
    .bind(each().map(|a| a.late.is_some()).collect::<Vec<_>>())
    .execute(connection)
    .await?;
    Ok(())
}

async fn update_states(
    connection: &mut PgConnection,
    states: &BTreeMap<Uuid, State>,
) -> Result<(), sqlx::Error> {
    if states.is_empty() {
        return Ok(());
    }
    sqlx::query(
        "update deliveries d
            set state = s.state, cause = s.cause, next_try_at = s.next_try_at,
                ended_at = s.ended_at,
                body_id = coalesce(s.body_id, d.body_id),
                body_sha256 = coalesce(s.body_sha256, d.body_sha256)
           from unnest($1::uuid[], $2::text[], $3::text[], $4::timestamptz[], $5::uuid[],
                       $6::text[], $7::timestamptz[])
                as s(delivery_id, state, cause, next_try_at, body_id, body_sha256, ended_at)
          where d.delivery_id = s.delivery_id",
    )
    .bind(states.keys().copied().collect::<Vec<_>>())
    .bind(states.values().map(|s| s.state).collect::<Vec<_>>())
    .bind(states.values().map(|s| s.cause).collect::<Vec<_>>())
    .bind(states.values().map(|s| s.next_try_at).collect::<Vec<_>>())
    .bind(states.values().map(|s| s.body.as_ref().map(|(id, _)| *id)).collect::<Vec<_>>())
    .bind(states.values().map(|s| s.body.as_ref().map(|(_, sha)| sha)).collect::<Vec<_>>())
    .bind(states.values().map(|s| s.ended_at).collect::<Vec<_>>())
    .execute(connection)
    .await?;
    Ok(())
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
pub struct Purged {
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
) -> Result<Purged, sqlx::Error> {
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
    Ok(Purged { delivery_ids, body_ids })
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

/// A try as it is read.
#[derive(Debug, Clone, PartialEq, Eq, FromRow)]
pub struct AttemptRow {
    /// 1 for the first.
    pub number: i32,
    /// When it was claimed.
    pub started_at: DateTime<Utc>,
    /// When its answer was in.
    pub finished_at: DateTime<Utc>,
    /// `delivered`, `retry`, `failed` or `interrupted`.
    pub outcome: String,
    /// The status, when there was one.
    pub status: Option<i32>,
    /// What went wrong, when it was not a status.
    pub error: Option<String>,
    /// What the receiver asked for.
    pub retry_after_seconds: Option<i64>,
    /// Every request of the try in order.
    pub hops: Json<Vec<Hop>>,
    /// Whether the answer came too late to count.
    pub late: bool,
}

/// One delivery.
///
/// # Errors
/// If the database does not answer.
pub async fn find(
    pool: &PgPool,
    firm_id: Uuid,
    delivery_id: Uuid,
) -> Result<Option<DeliveryRow>, sqlx::Error> {
    sqlx::query_as(
        "select delivery_id, hook_id, run_id, step_id, trigger, form_id, response_id, state, cause,
                created_at, next_try_at, body_sha256, reissue_of
           from deliveries where delivery_id = $1 and firm_id = $2",
    )
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

/// The tries of a delivery, first to last.
///
/// # Errors
/// If the database does not answer.
pub async fn attempts(pool: &PgPool, delivery_id: Uuid) -> Result<Vec<AttemptRow>, sqlx::Error> {
    sqlx::query_as(
        "select number, started_at, finished_at, outcome, status, error, retry_after_seconds, hops,
                late
           from attempts where delivery_id = $1 order by number, late",
    )
    .bind(delivery_id)
    .fetch_all(pool)
    .await
}
