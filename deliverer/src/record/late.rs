//! Late answers: the lease was taken over, or the delivery has ended.

use domain::delivery::{Delivery, LateEffect, OutboxPresence, Outcome};
use eventstore::load_aggregate;

use super::effects::{RecordEffects, erasures_that_matter};
use super::event::{kept_answer, recorded_attempt};
use super::lane::{LaneState, StreamEnds, lock_lanes};
use super::rows;
use crate::attempt::FinishedAttempt;
use crate::error::DeliveryError;
use crate::settings::DelivererContext;

/// Records a late answer. A success may still count, and any other answer is kept in history (case
/// E21). Left out: an answer that was recorded already (case E14), and an answer whose delivery is
/// neither queued nor in the log. The database has lost that delivery.
pub(super) async fn record_late(
    deliverer: &DelivererContext,
    finished: &FinishedAttempt,
) -> Result<(), DeliveryError> {
    let claimed = &finished.claimed;
    let mut appending = deliverer.store.begin().await?;
    let connection = appending.connection();
    let mut lanes =
        lock_lanes(deliverer, connection, &[claimed.lane_id], StreamEnds::Always).await?;
    let stream = claimed.delivery_id.to_string();
    let (delivery, last) =
        load_aggregate::<Delivery>(connection, &deliverer.store.upcasters(), &stream).await?;
    let outbox = rows::outbox_presence(connection, claimed.delivery_id).await?;
    if last == 0 && outbox == OutboxPresence::Absent {
        appending.rollback().await?;
        let delivery_id = claimed.delivery_id;
        tracing::error!(%delivery_id, "an answer was dropped: its delivery is not in the database");
        return Ok(());
    }
    let erased = erasures_that_matter(connection, &[finished]).await?;
    let mut effects = RecordEffects::for_batch(erased);
    if let Some(lane) = lanes.get_mut(&claimed.lane_id) {
        let late = LateDelivery { delivery: &delivery, last, outbox };
        late.add_late_attempt(deliverer, finished, &mut effects, lane);
    }
    let tally = std::mem::take(&mut effects.tally);
    effects.write_all(deliverer, &mut appending).await?;
    appending.commit().await?;
    tally.count_noted();
    Ok(())
}

/// The state of a delivery whose answer is late.
struct LateDelivery<'a> {
    delivery: &'a Delivery,
    /// The last event of its stream.
    last: i64,
    /// Whether the outbox has a row for its own attempts, not for a replay.
    outbox: OutboxPresence,
}

impl LateDelivery<'_> {
    fn add_late_attempt<'b>(
        &self,
        deliverer: &DelivererContext,
        finished: &'b FinishedAttempt,
        effects: &mut RecordEffects<'b>,
        lane: &mut LaneState,
    ) {
        let delivery_id = finished.claimed.delivery_id;
        let is_erased = effects.erased_responses.contains(&finished.claimed.subject);
        let answer = kept_answer(finished).filter(|_| !is_erased);
        let mut attempt = recorded_attempt(deliverer, finished, answer.as_deref());
        attempt.of = finished.claimed.delivery_of().filter(|_| self.last == 0);
        let outcome = attempt.outcome;
        let Some((late, event)) = self.delivery.record_late(attempt, self.outbox) else {
            return;
        };
        effects.tally.note_attempt(finished, outcome);
        match late {
            LateEffect::Arrived => {
                effects.ended.push(delivery_id);
                effects.count_or_reset_gone(finished, Outcome::Delivered, lane);
            }
            LateEffect::Noted => effects.noted.push((delivery_id, self.last + 1)),
        }
        effects.add_event(finished, self.last + 1, event, answer);
    }
}
