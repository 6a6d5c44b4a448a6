//! Claim: takes what is due under a lease, numbers the try, and freezes the bodies of first tries,
//! in one durable commit before anything is sent (rulings 21 and 23).

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use chrono::{DateTime, Utc};
use domain::context::{Actor, Context};
use domain::delivery::{Attempt, CancelCause, DeliveryEvent};
use domain::pressure::{Candidate, Room};
use domain::retry::Schedule;
use domain::signature::WebhookSecret;
use domain::target::host_of;
use domain::time::Timestamp;
use domain::trace::Traceparent;
use domain::trigger::Trigger;
use domain::workflow::StepOrder;
use eventstore::{Appending, NewEvent, crash};
use projector::replays;
use sqlx::types::Json;
use sqlx::{FromRow, PgConnection};
use telemetry::figures::CLAIM_SECONDS;
use tokio::time::Instant;
use uuid::Uuid;
use vault::step_headers::Headers;
use vault::{DataKey, Subject};

use crate::compose::{Composed, compose};
use crate::due;
use crate::give_back::give_back;
use crate::lanes;
use crate::out::Unrecorded;
use crate::settings::{Courier, DeliveryError};
use crate::tally;
use crate::withdrawn;

/// A try that was claimed and must be sent now. Not `Debug`: it holds what people answered.
#[derive(Clone)]
pub struct Claimed {
    /// The delivery.
    pub delivery_id: Uuid,
    /// Its lane; a subscription's has the subscription's id.
    pub lane_id: Uuid,
    /// The firm.
    pub firm_id: Uuid,
    /// The trigger.
    pub trigger: Trigger,
    /// Whose data it carries.
    pub subject: Subject,
    /// That subject's key, while there is one.
    pub key: Option<DataKey>,
    /// 1 for the first try.
    pub number: u32,
    /// 1 for the first try since it was queued, or retried.
    pub nth: u32,
    /// Who sends it.
    pub sender: Sender,
    /// The replay it is part of, if it is sent once more.
    pub replay_id: Option<Uuid>,
    /// Its place in a trace, if it has one.
    pub place: Option<Traceparent>,
    /// The fencing token.
    pub lease: i64,
    /// When it began: it was claimed, and had its place at its host.
    pub started_at: Timestamp,
    /// When it was claimed, on this machine's steady clock.
    pub claimed: Instant,
    /// Where it goes.
    pub target: Arc<str>,
    /// That host, as it is counted.
    pub host: String,
    /// What signs it.
    pub secret: Option<WebhookSecret>,
    /// What is sent; none if it could not be built.
    pub body: Option<FrozenBody>,
    /// That it is out, until that is recorded.
    pub(crate) unrecorded: Option<Arc<Unrecorded>>,
}

/// Who sends a delivery, and how that shows.
#[derive(Clone)]
pub enum Sender {
    /// A subscription.
    Hook,
    /// A workflow's step.
    Step(Box<StepOrder>, Headers),
}

impl Claimed {
    /// Its lease is about to end in the database.
    pub(crate) fn lease_ends(&self) {
        if let Some(unrecorded) = &self.unrecorded {
            unrecorded.ends();
        }
    }

    /// How it is tried again (contract, section Retries; ruling 31).
    #[must_use]
    pub const fn schedule(&self) -> Schedule {
        match (&self.sender, self.replay_id) {
            (_, Some(_)) => Schedule::Replay,
            (Sender::Hook, None) => Schedule::RestHook,
            (Sender::Step(..), None) => Schedule::WorkflowStep,
        }
    }
}

/// A claim that took longer is not sent: it would be dropped unsent for want of time (ruling 29).
pub(crate) const SEND_WITHIN: Duration = Duration::from_secs(4);

/// The bytes of a delivery, the same on every try.
#[derive(Clone)]
pub struct FrozenBody {
    /// Its id in the vault.
    pub body_id: Uuid,
    /// SHA-256 of the bytes.
    pub sha256: [u8; 32],
    /// The bytes.
    pub bytes: Bytes,
}

/// A row of the outbox, as it is once it is leased.
#[derive(Debug, Clone, FromRow)]
pub(crate) struct Leased {
    pub(crate) delivery_id: Uuid,
    pub(crate) lane_id: Uuid,
    pub(crate) firm_id: Uuid,
    pub(crate) occurrence_id: Uuid,
    pub(crate) trigger: String,
    pub(crate) form_id: Uuid,
    pub(crate) response_id: Uuid,
    pub(crate) report_id: Option<Uuid>,
    pub(crate) booking_id: Option<Uuid>,
    pub(crate) sequence: i64,
    pub(crate) tries: i32,
    pub(crate) tries_max: i32,
    pub(crate) step: Option<Json<StepOrder>>,
    pub(crate) replay_id: Option<Uuid>,
    pub(crate) traceparent: Option<String>,
    pub(crate) lease: i64,
    pub(crate) body_id: Option<Uuid>,
    pub(crate) body_sha256: Option<Vec<u8>>,
    /// When the try before was claimed, if nobody recorded it.
    pub(crate) interrupted_at: Option<DateTime<Utc>>,
}

impl Leased {
    /// Its place in a trace, if it has one.
    pub(crate) fn place(&self) -> Option<Traceparent> {
        self.traceparent.as_ref()?.parse().ok()
    }

    pub(crate) const fn subject(&self) -> Subject {
        Subject { firm_id: self.firm_id, subject_id: self.response_id }
    }

    /// The same for the limits, where it goes to this host.
    pub(crate) const fn candidate(&self, host: String) -> Candidate {
        let Self { delivery_id, lane_id, firm_id, .. } = *self;
        Candidate { delivery_id, lane_id, firm_id, host }
    }
}

/// Claims what is due, as far as there is room; an empty answer means that nothing is.
///
/// # Errors
/// [`DeliveryError`]; nothing is sent then. What was claimed, if it was, is again when its lease ends.
pub async fn claim(courier: &Courier, room: &Room) -> Result<Vec<Claimed>, DeliveryError> {
    claim_from(courier, room, &mut Lanes::at_most(room.free)).await
}

/// Where a claim takes from.
pub(crate) struct Lanes {
    /// So many lanes, at most.
    most: usize,
    /// Those it has locked, also when it fails.
    pub(crate) locked: Vec<Uuid>,
}

impl Lanes {
    pub(crate) const fn at_most(most: usize) -> Self {
        Self { most, locked: Vec::new() }
    }
}

/// The same, from no more lanes than that.
pub(crate) async fn claim_from(
    courier: &Courier,
    room: &Room,
    lanes: &mut Lanes,
) -> Result<Vec<Claimed>, DeliveryError> {
    let (now, caps, began) = (courier.clock.now(), courier.settings.caps, Instant::now());
    let mut appending = courier.store.begin().await?;
    let connection = appending.connection();
    let lane_ids = due::lock_lanes(connection, now.get(), (room, lanes.most), caps).await?;
    if lane_ids.is_empty() {
        appending.leave().await?;
        return Ok(Vec::new());
    }
    lanes.locked.clone_from(&lane_ids);
    let over = take_out_of_tries(connection, &lane_ids, now.get()).await?;
    let chosen = due::chosen(connection, &lane_ids, now.get(), room, caps).await?;
    let leased = due::within_memory(connection, chosen, courier.settings.claim_bytes).await?;
    let (leased, erased) = withdrawn::erased(connection, leased).await?;
    let (leased, stopped) = withdrawn::stopped(connection, leased).await?;
    let (leased, finished) = withdrawn::finished_later(connection, leased).await?;
    let composed = compose(courier, connection, &leased, now).await?;
    lease((connection, courier), &leased, &composed, now.get()).await?;
    lanes::reschedule(connection, &lane_ids, now.get()).await?;
    let tried_before = over.iter().chain(&leased).chain(&erased).chain(&stopped);
    let cut_off = append_interrupted(&mut appending, tried_before, now).await?;
    let of_replays = |rows: &[Leased], outcome: &'static str| -> Vec<_> {
        rows.iter().filter_map(|row| Some((row.replay_id?, row.delivery_id, outcome))).collect()
    };
    let mut concluded = of_replays(&over, "interrupted");
    concluded.extend(of_replays(&erased, "dropped"));
    concluded.extend(of_replays(&stopped, "dropped"));
    replays::conclude(appending.connection(), &concluded).await?;
    let mut withdrawn = withdrawn::cancelled(&finished, CancelCause::FinishedLater, now);
    withdrawn.extend(withdrawn::cancelled(&erased, CancelCause::SourceErased, now));
    appending.append(withdrawn).await?;
    let taken = Taken { leased, composed, at: (now, Instant::now()) };
    appending.commit().await?;
    CLAIM_SECONDS.took(&[], began.elapsed());
    tally::interrupted(cut_off);
    taken.hand_over(courier).await
}

/// What a claim that has committed took.
pub(crate) struct Taken {
    pub(crate) leased: Vec<Leased>,
    pub(crate) composed: Composed,
    /// When it was claimed, also on this machine's steady clock.
    pub(crate) at: (Timestamp, Instant),
}

impl Taken {
    /// Hands it over to be sent.
    ///
    /// # Errors
    /// [`DeliveryError`]; it was given back then, or its leases end by themselves.
    pub(crate) async fn hand_over(
        mut self,
        courier: &Courier,
    ) -> Result<Vec<Claimed>, DeliveryError> {
        crash::point("claimed");
        let looked = take_out_erased(courier, &self.leased, &mut self.composed).await;
        let Self { leased, mut composed, at } = self;
        let all: Vec<Claimed> =
            leased.iter().filter_map(|row| to_claimed(row, &mut composed, at)).collect();
        if looked.is_err() || at.1.elapsed() > SEND_WITHIN {
            // What cannot go out in time uses up no try (case E13).
            give_back(courier, &all).await?;
            return looked.map(|()| Vec::new());
        }
        Ok(all)
    }
}

/// An erasure that committed before the claim did may have come after its look: such a try is never
/// sent, and ends as it is recorded (ruling 29).
async fn take_out_erased(
    courier: &Courier,
    leased: &[Leased],
    composed: &mut Composed,
) -> Result<(), DeliveryError> {
    if leased.is_empty() {
        return Ok(());
    }
    let connections = courier.store.connections();
    let mut connection = connections.take().await?;
    let subjects = leased.iter().map(Leased::subject);
    let erased = withdrawn::erased_of(&mut connection, subjects).await?;
    connections.give_back(connection);
    for row in leased.iter().filter(|row| erased.contains(&row.subject())) {
        composed.bodies.remove(&row.delivery_id);
    }
    Ok(())
}

/// Removes deliveries whose last try was cut off: they failed then (ruling 23).
async fn take_out_of_tries(
    connection: &mut PgConnection,
    lane_ids: &[Uuid],
    now: DateTime<Utc>,
) -> Result<Vec<Leased>, sqlx::Error> {
    sqlx::query_as(
        "delete from outbox
          where lane_id = any($1) and due_at <= $2 and leased_at is not null
            and tries >= tries_max
         returning delivery_id, lane_id, firm_id, occurrence_id, trigger, form_id, response_id,
                   report_id, booking_id, sequence + 1 as sequence, tries + 1 as tries, tries_max,
                   step, replay_id, traceparent, lease, body_id, body_sha256,
                   leased_at as interrupted_at",
    )
    .bind(lane_ids)
    .bind(now)
    .fetch_all(connection)
    .await
}

/// Leases these, each with its body.
async fn lease(
    (connection, courier): (&mut PgConnection, &Courier),
    leased: &[Leased],
    composed: &Composed,
    now: DateTime<Utc>,
) -> Result<(), sqlx::Error> {
    let bodies = || leased.iter().map(|row| composed.bodies.get(&row.delivery_id));
    sqlx::query(
        "update outbox o
            set lease = o.lease + 1, tries = o.tries + 1, leased_at = $4, due_at = $5,
                sequence = o.sequence + (o.leased_at is not null)::int,
                body_id = coalesce(t.body_id, o.body_id),
                body_sha256 = coalesce(t.sha256, o.body_sha256)
           from unnest($1::uuid[], $2::uuid[], $3::bytea[]) as t(delivery_id, body_id, sha256)
          where o.delivery_id = t.delivery_id and o.delivery_id = any($1)",
    )
    .bind(leased.iter().map(|row| row.delivery_id).collect::<Vec<_>>())
    .bind(bodies().map(|body| body.map(|body| body.body_id)).collect::<Vec<_>>())
    .bind(bodies().map(|body| body.map(|body| body.sha256.to_vec())).collect::<Vec<_>>())
    .bind(now)
    .bind(now + courier.settings.scale.lease())
    .execute(connection)
    .await?;
    Ok(())
}

/// Writes down the tries before these that nobody recorded; says how many.
async fn append_interrupted(
    appending: &mut Appending<'_>,
    rows: impl Iterator<Item = &Leased>,
    now: Timestamp,
) -> Result<usize, DeliveryError> {
    let events: Vec<NewEvent> = rows
        .filter_map(|row| {
            let started_at = row.interrupted_at?;
            let number = u32::try_from(row.tries - 1).unwrap_or_default();
            let attempt = Attempt {
                next_try_at: (row.tries <= row.tries_max).then_some(now),
                body_id: row.body_id,
                body_sha256: row.body_sha256.as_ref().map(hex::encode),
                replay_id: row.replay_id,
                ..Attempt::interrupted(number, started_at.into(), now)
            };
            Some(NewEvent {
                aggregate_id: row.delivery_id.to_string(),
                sequence: row.sequence,
                event: DeliveryEvent::DeliveryAttempted(attempt).into(),
                context: Context {
                    traceparent: row.place(),
                    ..system(row.firm_id, row.delivery_id, now)
                },
            })
        })
        .collect();
    let tries = events.len();
    appending.append(events).await?;
    Ok(tries)
}

/// The context of what the deliverer itself does with a delivery.
pub(crate) const fn system(firm_id: Uuid, delivery_id: Uuid, now: Timestamp) -> Context {
    Context {
        firm_id,
        recorded_at: now,
        actor: Actor::System,
        correlation_id: delivery_id,
        causation_id: None,
        traceparent: None,
    }
}

fn to_claimed(
    row: &Leased,
    composed: &mut Composed,
    (claimed_at, claimed): (Timestamp, Instant),
) -> Option<Claimed> {
    let (sender, target) = sender(row, composed);
    let number = u32::try_from(row.tries).ok()?;
    let mut claimed = Claimed {
        delivery_id: row.delivery_id,
        lane_id: row.lane_id,
        firm_id: row.firm_id,
        trigger: row.trigger.parse().ok()?,
        subject: row.subject(),
        key: composed.keys.get(&row.subject()).cloned(),
        number,
        nth: number,
        sender,
        replay_id: row.replay_id,
        place: row.place(),
        lease: row.lease,
        started_at: claimed_at,
        claimed,
        host: host_of(&target),
        target,
        secret: composed.secrets.get(&row.firm_id).cloned(),
        body: composed.bodies.remove(&row.delivery_id),
        unrecorded: None,
    };
    let begun = u32::try_from(row.tries_max).ok()?.checked_sub(claimed.schedule().tries())?;
    claimed.nth = number.checked_sub(begun)?;
    Some(claimed)
}

/// Who sends it, and where to. A step whose headers cannot be read has no body: it is not sent
/// without them.
fn sender(row: &Leased, composed: &mut Composed) -> (Sender, Arc<str>) {
    let Some(Json(order)) = &row.step else {
        let target = composed.targets.get(&row.lane_id).cloned().unwrap_or_default();
        return (Sender::Hook, target);
    };
    let headers = composed.step_headers.remove(&row.delivery_id).unwrap_or_default();
    if headers.len() != order.extra_headers {
        composed.bodies.remove(&row.delivery_id);
    }
    (Sender::Step(Box::new(order.clone()), headers), order.url.as_str().into())
}

/// When the next work that there is room for is due, if any is.
///
/// # Errors
/// If the database does not answer.
pub async fn next_due(
    courier: &Courier,
    room: &Room,
) -> Result<Option<DateTime<Utc>>, sqlx::Error> {
    let now = courier.clock.now().get();
    let connections = courier.store.connections();
    let mut connection = connections.take().await?;
    let next = due::next(&mut connection, now, room, courier.settings.caps).await?;
    connections.give_back(connection);
    Ok(next)
}
