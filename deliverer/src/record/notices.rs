//! Records attempts to reach the operator's URL (ruling 49). The log has an event for a notice that
//! was taken. A retry has none, and a late answer changes nothing.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use domain::delivery::{Attempt, Outcome};
use domain::notice::{NoticeChannel, NoticeSendingEvent, SentNotice};
use domain::values::Timestamp;
use eventstore::NewEvent;
use sqlx::PgConnection;
use telemetry::metrics::NOTICES;
use uuid::Uuid;

use super::event::{event_context, recorded_attempt};
use super::rows::{self, row_is_kept};
use crate::attempt::FinishedAttempt;
use crate::error::DeliveryError;
use crate::outbox::lanes;
use crate::outbox::notices::note_given_up;
use crate::outbox::row::drop_rows;
use crate::settings::DelivererContext;

/// Records these attempts in one transaction.
pub(super) async fn record_notices(
    deliverer: &DelivererContext,
    batch: &[&FinishedAttempt],
) -> Result<(), DeliveryError> {
    if batch.is_empty() {
        return Ok(());
    }
    let mut appending = deliverer.store.begin().await?;
    let connection = appending.connection();
    lock_lanes(connection, batch).await?;
    let held = rows::take_held_rows(connection, batch).await?;
    let mut effects = NoticeEffects::default();
    for finished in batch {
        let claimed = &finished.claimed;
        if let Some(sequence) = held.get(&(claimed.delivery_id, claimed.lease)) {
            effects.add_attempt(finished, &recorded_attempt(deliverer, finished, None), *sequence);
        }
    }
    drop_rows(connection, &effects.ended).await?;
    lanes::due_by(connection, &effects.due, deliverer.clock.now().get()).await?;
    rows::write_due_again(appending.writes(), &effects.due_again);
    appending.append_new(effects.events).await?;
    appending.deliveries_wait();
    appending.commit().await?;
    for outcome in effects.outcomes {
        NOTICES.count(&[("channel", NoticeChannel::Operator.name()), ("outcome", outcome)]);
    }
    effects.given_up.iter().for_each(|(sent, last)| note_given_up(sent, Some(last)));
    Ok(())
}

/// The changes of a batch.
#[derive(Default)]
struct NoticeEffects {
    events: Vec<NewEvent>,
    /// Notices without a further attempt whose rows are still in the outbox.
    ended: Vec<Uuid>,
    due_again: Vec<(Uuid, DateTime<Utc>, i64)>,
    due: BTreeMap<Uuid, DateTime<Utc>>,
    outcomes: Vec<&'static str>,
    given_up: Vec<(SentNotice, Attempt)>,
}

impl NoticeEffects {
    fn add_attempt(&mut self, finished: &FinishedAttempt, attempt: &Attempt, sequence: i64) {
        let claimed = &finished.claimed;
        match (attempt.outcome, attempt.next_try_at.map(Timestamp::get)) {
            (Outcome::Delivered, _) => {
                let sent = claimed.notice().cloned().map(NoticeSendingEvent::NoticeSent);
                self.events.extend(sent.map(|event| NewEvent {
                    aggregate_id: claimed.delivery_id.to_string(),
                    sequence: 1,
                    event: event.into(),
                    context: event_context(finished),
                }));
                self.outcomes.push("sent");
            }
            (_, Some(at)) => {
                self.due_again.push((claimed.delivery_id, at, sequence));
                let due = self.due.entry(claimed.lane_id).or_insert(at);
                *due = at.min(*due);
                self.outcomes.push("retry");
            }
            (_, None) => {
                self.given_up.extend(claimed.notice().map(|sent| (sent.clone(), attempt.clone())));
                if row_is_kept(finished) {
                    self.ended.push(claimed.delivery_id);
                }
            }
        }
    }
}

/// Locks the lanes of these attempts in the order of their ids, because a retry makes its lane due.
async fn lock_lanes(
    connection: &mut PgConnection,
    batch: &[&FinishedAttempt],
) -> Result<(), sqlx::Error> {
    sqlx::query("select 1 from lanes where lane_id = any($1) order by lane_id for no key update")
        .bind(batch.iter().map(|one| one.claimed.lane_id).collect::<Vec<_>>())
        .execute(connection)
        .await?;
    Ok(())
}
