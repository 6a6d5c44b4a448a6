//! The writer sorts a batch of events by the statements that write them.

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, NaiveDate, NaiveTime, Utc};
use domain::activity::{Happening, OccurrenceEvent};
use domain::delivery::workflow::{StepName, StepOrder};
use domain::delivery::{
    Attempt, CancelCause, Consignment, DeliveryEvent, DeliveryOf, DeliveryState, ReissuedDelivery,
};
use domain::event::Event;
use domain::subscription::Trigger;
use domain::values::Timestamp;
use eventstore::RecordedEvent;
use sqlx::PgConnection;
use uuid::Uuid;

/// The number of rows in one insert. One occurrence has up to 100.
const ROWS_PER_INSERT: usize = 5_000;

/// Writes a batch. A delivery that begins and ends in one batch, as most do, is written once.
pub(super) async fn write_batch(
    connection: &mut PgConnection,
    events: &[RecordedEvent],
) -> Result<(), sqlx::Error> {
    let mut batch = DeliveryBatch::new(events);
    let mut begun: Vec<NewDelivery<'_>> = std::mem::take(&mut batch.queued)
        .into_iter()
        .map(|(id, recorded, queued)| NewDelivery {
            id,
            recorded,
            queued,
            state: batch.states.remove(&id).unwrap_or_else(|| DeliveryUpdate::queued(recorded)),
        })
        .collect();
    if !begun.is_empty() {
        // A rebuild reads events of deliveries that have left. They do not come back.
        let kept_since = make_ranges(connection, &begun).await?;
        begun.retain(|one| {
            kept_since.is_none_or(|since| one.recorded.context.recorded_at.get() >= since)
        });
    }
    for some in begun.chunks(ROWS_PER_INSERT) {
        insert_queued(connection, some).await?;
    }
    update_states(connection, &batch.states).await
}

/// The events of a batch, sorted by statement.
#[derive(Default)]
struct DeliveryBatch<'a> {
    queued: Vec<(Uuid, &'a RecordedEvent, DeliverySource<'a>)>,
    states: BTreeMap<Uuid, DeliveryUpdate>,
}

/// The source of a queued delivery.
#[derive(Clone, Copy)]
enum DeliverySource<'a> {
    /// An occurrence lists the subscription.
    Listed(DeliveryOf, &'a Happening),
    /// A repair queued the delivery.
    Repaired(&'a Consignment),
    Step(&'a StepOrder),
    Anew(&'a ReissuedDelivery),
}

impl<'a> DeliverySource<'a> {
    const fn delivery_of(self) -> Option<DeliveryOf> {
        match self {
            Self::Listed(of, _) => Some(of),
            Self::Repaired(consignment) => Some(consignment.delivery_of()),
            Self::Anew(reissued) => Some(reissued.consignment.delivery_of()),
            Self::Step(_) => None,
        }
    }

    const fn step_name(self) -> Option<StepName> {
        match self {
            Self::Listed(..) | Self::Repaired(_) | Self::Anew(_) => None,
            Self::Step(order) => Some(order.step),
        }
    }

    /// Returns the host of a workflow step.
    fn step_host(self) -> Option<String> {
        match self {
            Self::Listed(..) | Self::Repaired(_) | Self::Anew(_) => None,
            Self::Step(order) => Some(order.target.host()),
        }
    }

    /// Returns the trigger, the form and the response.
    fn trigger_and_source(self) -> (Trigger, Uuid, Uuid) {
        let of = |sent: &Consignment| (sent.trigger, sent.form_id, sent.response_id);
        match self {
            Self::Listed(_, happening) => {
                (happening.trigger, happening.form_id, happening.response_id)
            }
            Self::Repaired(sent) => of(sent),
            Self::Anew(reissued) => of(&reissued.consignment),
            Self::Step(sent) => (sent.trigger, sent.form_id, sent.response_id),
        }
    }

    /// Returns the ended delivery that this one was reissued from.
    const fn reissue_of(self) -> Option<Uuid> {
        match self {
            Self::Listed(..) | Self::Repaired(_) | Self::Step(_) => None,
            Self::Anew(reissued) => Some(reissued.reissue_of),
        }
    }
}

/// The state of a delivery after the batch. `None` leaves the column as it is.
#[derive(Default)]
struct DeliveryUpdate {
    state: &'static str,
    cause: Option<&'static str>,
    next_try_at: Option<DateTime<Utc>>,
    ended_at: Option<DateTime<Utc>>,
    body: Option<(Uuid, String)>,
}

/// A delivery that begins in the batch, with its state after the batch.
struct NewDelivery<'a> {
    id: Uuid,
    recorded: &'a RecordedEvent,
    queued: DeliverySource<'a>,
    state: DeliveryUpdate,
}

impl DeliveryUpdate {
    fn queued(recorded: &RecordedEvent) -> Self {
        let next_try_at = Some(recorded.context.recorded_at.get());
        Self { state: DeliveryState::Pending.name(), next_try_at, ..Self::default() }
    }

    fn follow_attempt(&mut self, attempt: &Attempt, after: DeliveryState) {
        self.state = after.name();
        self.cause = attempt.cancelled.map(CancelCause::name);
        self.next_try_at = attempt.next_try_at.map(Timestamp::get);
        self.ended_at = (after != DeliveryState::Pending).then(|| attempt.finished_at.get());
        if let (Some(id), Some(sha256)) = (attempt.body_id, &attempt.body_sha256) {
            self.body = Some((id, sha256.clone()));
        }
    }
}

impl<'a> DeliveryBatch<'a> {
    fn new(events: &'a [RecordedEvent]) -> Self {
        let mut batch = Self::default();
        for recorded in events {
            let Ok(id) = recorded.aggregate_id.parse() else { continue };
            match &recorded.event {
                Event::Delivery(event) => batch.push_event(id, event, recorded),
                Event::Occurrence(OccurrenceEvent::OccurrenceRecorded(happening)) => {
                    batch.push_listed(id, happening, recorded);
                }
                _ => {}
            }
        }
        batch
    }

    fn push_listed(
        &mut self,
        occurrence_id: Uuid,
        happening: &'a Happening,
        recorded: &'a RecordedEvent,
    ) {
        for (delivery_id, hook_id) in happening.deliveries(occurrence_id) {
            let of = DeliveryOf { hook_id, occurrence_id };
            self.queued.push((delivery_id, recorded, DeliverySource::Listed(of, happening)));
        }
    }

    fn push_event(&mut self, id: Uuid, event: &'a DeliveryEvent, recorded: &'a RecordedEvent) {
        match event {
            DeliveryEvent::DeliveryQueued(consignment) => {
                self.queued.push((id, recorded, DeliverySource::Repaired(consignment)));
            }
            DeliveryEvent::StepQueued(order) => {
                self.queued.push((id, recorded, DeliverySource::Step(order)));
            }
            DeliveryEvent::DeliveryReissued(reissued) => {
                self.queued.push((id, recorded, DeliverySource::Anew(reissued)));
            }
            DeliveryEvent::StepRetried(_) => {
                let state = self.states.entry(id).or_default();
                state.state = DeliveryState::Pending.name();
                state.next_try_at = Some(recorded.context.recorded_at.get());
                state.ended_at = None;
            }
            DeliveryEvent::DeliveryReplayed(_) => {}
            DeliveryEvent::DeliveryAttempted(attempt) => {
                if let Some(after) = attempt.state_after() {
                    self.states.entry(id).or_default().follow_attempt(attempt, after);
                }
            }
            DeliveryEvent::DeliveryCancelled { cause, .. } => {
                let state = self.states.entry(id).or_default();
                state.ended_at = Some(recorded.context.recorded_at.get());
                state.state = "cancelled";
                state.cause = Some(cause.name());
                state.next_try_at = None;
            }
        }
    }
}

/// Makes the ranges of the table that these deliveries lie in, unless they are there or have left.
/// Returns the time from which deliveries are kept, if a range has left.
async fn make_ranges(
    connection: &mut PgConnection,
    begun: &[NewDelivery<'_>],
) -> Result<Option<DateTime<Utc>>, sqlx::Error> {
    let days: BTreeSet<NaiveDate> =
        begun.iter().map(|one| one.recorded.context.recorded_at.get().date_naive()).collect();
    let (kept_since, _): (_, i64) = sqlx::query_as(
        "select kept_since,
                (select count(public.make_history_range(to_regclass('deliveries'), day))
                   from unnest($1::timestamptz[]) as day
                  where kept_since is null or day >= kept_since)
           from (select max(kept_since) as kept_since from public.history_drops) as border",
    )
    .bind(days.into_iter().map(|day| day.and_time(NaiveTime::MIN).and_utc()).collect::<Vec<_>>())
    .fetch_one(connection)
    .await?;
    Ok(kept_since)
}

async fn insert_queued(
    connection: &mut PgConnection,
    begun: &[NewDelivery<'_>],
) -> Result<(), sqlx::Error> {
    let queued = || begun.iter().map(|one| one.queued);
    let state = || begun.iter().map(|one| &one.state);
    sqlx::query(
        "insert into deliveries (delivery_id, firm_id, hook_id, occurrence_id, run_id, step_id,
                                 trigger, form_id, response_id, created_at, host, reissue_of,
                                 state, cause, next_try_at, ended_at, body_id, body_sha256)
         select * from unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::uuid[], $5::uuid[], $6::uuid[],
                              $7::text[], $8::uuid[], $9::uuid[], $10::timestamptz[], $11::text[],
                              $12::uuid[], $13::text[], $14::text[], $15::timestamptz[],
                              $16::timestamptz[], $17::uuid[], $18::text[])",
    )
    .bind(begun.iter().map(|one| one.id).collect::<Vec<_>>())
    .bind(begun.iter().map(|one| one.recorded.context.firm_id).collect::<Vec<_>>())
    .bind(queued().map(|q| q.delivery_of().map(|of| of.hook_id)).collect::<Vec<_>>())
    .bind(queued().map(|q| q.delivery_of().map(|of| of.occurrence_id)).collect::<Vec<_>>())
    .bind(queued().map(|q| q.step_name().map(|step| step.run_id)).collect::<Vec<_>>())
    .bind(queued().map(|q| q.step_name().map(|step| step.step_id)).collect::<Vec<_>>())
    .bind(queued().map(|q| q.trigger_and_source().0.key()).collect::<Vec<_>>())
    .bind(queued().map(|q| q.trigger_and_source().1).collect::<Vec<_>>())
    .bind(queued().map(|q| q.trigger_and_source().2).collect::<Vec<_>>())
    .bind(begun.iter().map(|one| one.recorded.context.recorded_at.get()).collect::<Vec<_>>())
    .bind(queued().map(DeliverySource::step_host).collect::<Vec<_>>())
    .bind(queued().map(DeliverySource::reissue_of).collect::<Vec<_>>())
    .bind(state().map(|s| s.state).collect::<Vec<_>>())
    .bind(state().map(|s| s.cause).collect::<Vec<_>>())
    .bind(state().map(|s| s.next_try_at).collect::<Vec<_>>())
    .bind(state().map(|s| s.ended_at).collect::<Vec<_>>())
    .bind(state().map(|s| s.body.as_ref().map(|(id, _)| *id)).collect::<Vec<_>>())
    .bind(state().map(|s| s.body.as_ref().map(|(_, sha)| sha)).collect::<Vec<_>>())
    .execute(connection)
    .await?;
    Ok(())
}

/// The number of states in one update.
const STATES_PER_UPDATE: usize = 250;

async fn update_states(
    connection: &mut PgConnection,
    states: &BTreeMap<Uuid, DeliveryUpdate>,
) -> Result<(), sqlx::Error> {
    let states: Vec<(&Uuid, &DeliveryUpdate)> = states.iter().collect();
    for states in states.chunks(STATES_PER_UPDATE) {
        update_some(connection, states).await?;
    }
    Ok(())
}

/// Each row finds the index of its values by binary search. A join would compare each row with each
/// value.
async fn update_some(
    connection: &mut PgConnection,
    states: &[(&Uuid, &DeliveryUpdate)],
) -> Result<(), sqlx::Error> {
    sqlx::query(
        "update deliveries
            set state = ($2::text[])[width_bucket(delivery_id, $1::uuid[])],
                cause = ($3::text[])[width_bucket(delivery_id, $1::uuid[])],
                next_try_at = ($4::timestamptz[])[width_bucket(delivery_id, $1::uuid[])],
                body_id = coalesce(($5::uuid[])[width_bucket(delivery_id, $1::uuid[])], body_id),
                body_sha256 = coalesce(($6::text[])[width_bucket(delivery_id, $1::uuid[])],
                                       body_sha256),
                ended_at = ($7::timestamptz[])[width_bucket(delivery_id, $1::uuid[])]
          where delivery_id = any($1)",
    )
    .bind(states.iter().map(|(id, _)| **id).collect::<Vec<_>>())
    .bind(states.iter().map(|(_, s)| s.state).collect::<Vec<_>>())
    .bind(states.iter().map(|(_, s)| s.cause).collect::<Vec<_>>())
    .bind(states.iter().map(|(_, s)| s.next_try_at).collect::<Vec<_>>())
    .bind(states.iter().map(|(_, s)| s.body.as_ref().map(|(id, _)| *id)).collect::<Vec<_>>())
    .bind(states.iter().map(|(_, s)| s.body.as_ref().map(|(_, sha)| sha)).collect::<Vec<_>>())
    .bind(states.iter().map(|(_, s)| s.ended_at).collect::<Vec<_>>())
    .execute(connection)
    .await?;
    Ok(())
}
