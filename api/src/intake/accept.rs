//! Who takes in what a call reports: the call by itself, or one for several that come at the same time.

use std::sync::Arc;
use std::time::Duration;

use domain::activity::BATCH_MAX_EVENTS;
use domain::context::Actor;
use eventstore::{AppendError, AsConflict, retry_conflicts};
use uuid::Uuid;

use super::calls::{IntakeBatch, IntakeCall, IntakeCounts};
use super::cloudevents::CloudEvent;
use super::error::IntakeError;
use super::take_in::{TrustedSource, take_in};
use crate::batching::batcher::{BatchFn, BatchPolicy, Batcher, NoAnswer};
use crate::batching::token_cache::Bearer;
use crate::service::Service;

/// Two transactions at a time, of few calls: one is decided while another waits for its commit. While four or more are
/// taken in there is one, and who comes goes with all who come until its end, and with those it answers, if they
/// call again at once. Calls that are taken in together have no more events and bytes, by the limits on each of them,
/// than one call may have: 1,000 and 8 MiB. One whose rows somebody else has locked waits for them without a turn.
const INTAKE_POLICY: BatchPolicy = BatchPolicy {
    parallel: 2,
    busy_at: 4,
    linger: Some(Duration::from_millis(2)),
    max: 100,
    turn_max: Duration::from_millis(250),
};

/// The most events of a call that is taken in with others.
const SMALL_CALL_EVENTS_MAX: usize = 10;

/// The most bytes of a call that is taken in with others.
pub(crate) const SMALL_CALL_BYTES_MAX: usize = 64 << 10;

/// How often calls go on together without one that was refused. Then each is tried by itself: many bad
/// calls do not hold up the good ones for long.
const REFUSED_CALLS_MAX: usize = 4;

/// Takes in what a call reports, in a transaction of its own: all of it or nothing.
///
/// # Errors
/// [`IntakeError`] says why nothing was taken in.
pub async fn accept(
    service: &Service,
    events: Vec<CloudEvent>,
    actor: Actor,
) -> Result<IntakeCounts, IntakeError> {
    let call = call(service, events, actor)?;
    alone(service, Arc::new(call)).await
}

/// Takes in what a call of so many bytes reports: a small one together with others that come at the
/// same time. All of the call or nothing, whatever becomes of them.
///
/// # Errors
/// [`IntakeError`] says why nothing was taken in.
pub(crate) async fn accept_with_others(
    service: &Arc<Service>,
    (events, bytes): (Vec<CloudEvent>, usize),
    caller: Bearer,
) -> Result<IntakeCounts, IntakeError> {
    let call = call(service, events, caller.holder.actor())?;
    let call = Arc::new(IntakeCall { unconfirmed: caller.unconfirmed, ..call });
    let is_small =
        (1..=SMALL_CALL_EVENTS_MAX).contains(&call.events.len()) && bytes <= SMALL_CALL_BYTES_MAX;
    if !is_small {
        return alone(service, call).await;
    }
    let service_of_all = Arc::clone(service);
    let serve: BatchFn<_, _> = Arc::new(move |calls| {
        let service = Arc::clone(&service_of_all);
        Box::pin(async move { together(&service, calls).await })
    });
    match service.batchers.intake.ask(Arc::clone(&call), serve).await {
        Ok(CallOutcome::Taken(accepted)) => Ok(accepted),
        Ok(CallOutcome::Failed(error)) => Err(error),
        // Whether it was taken in is not known then; taken in again, it is known.
        Ok(CallOutcome::ByItself) | Err(NoAnswer) => retry_alone(service, call).await,
    }
}

/// Where small calls are taken in together.
pub(crate) type IntakeBatcher = Batcher<Arc<IntakeCall>, CallOutcome>;

/// A new one; if turns are to last that long.
pub(crate) fn intake_batcher(last: Option<Duration>) -> Arc<IntakeBatcher> {
    Batcher::new(BatchPolicy { turn_max: last.unwrap_or(INTAKE_POLICY.turn_max), ..INTAKE_POLICY })
}

/// What a call is told that was to be taken in together with others.
#[derive(Debug)]
pub(crate) enum CallOutcome {
    /// It was.
    Taken(IntakeCounts),
    /// It cannot be.
    Failed(IntakeError),
    /// It was not, and it is not known whose fault that is: it must be tried by itself.
    ByItself,
}

fn call(
    service: &Service,
    events: Vec<CloudEvent>,
    actor: Actor,
) -> Result<IntakeCall, IntakeError> {
    if events.len() > BATCH_MAX_EVENTS {
        return Err(IntakeError::TooMany);
    }
    Ok(IntakeCall { events, context: service.context(Uuid::nil(), actor), unconfirmed: None })
}

/// Begun again when another came first.
async fn alone(service: &Service, call: Arc<IntakeCall>) -> Result<IntakeCounts, IntakeError> {
    if call.events.is_empty() {
        // Without a transaction: the door has asked about whoever reports nothing (`internal/activity.rs`).
        return Ok(IntakeCounts { accepted: 0, duplicates: 0 });
    }
    let seed = call.context.correlation_id;
    let batch = IntakeBatch::of(vec![call]);
    retry_conflicts(seed, || take_in_once(service, &batch)).await
}

/// The same, after a first try with others. Whoever they are come again at other times.
async fn retry_alone(
    service: &Service,
    call: Arc<IntakeCall>,
) -> Result<IntakeCounts, IntakeError> {
    let seed = call.context.correlation_id;
    let batch = IntakeBatch::of(vec![call]);
    let mut first = Some(AppendError::Conflict);
    let attempt = || {
        let first = first.take();
        async {
            match first {
                Some(conflict) => Err(conflict.into()),
                None => take_in_once(service, &batch).await,
            }
        }
    };
    retry_conflicts(seed, attempt).await
}

async fn take_in_once(service: &Service, batch: &IntakeBatch) -> Result<IntakeCounts, IntakeError> {
    let taken = take_in(service, batch, TrustedSource::Nothing).await?;
    taken.into_iter().next().ok_or(AppendError::Conflict.into())
}

/// Takes calls in together; without those that are refused, a few times.
async fn together(service: &Service, calls: Vec<Arc<IntakeCall>>) -> Vec<CallOutcome> {
    let mut answers: Vec<CallOutcome> = calls.iter().map(|_| CallOutcome::ByItself).collect();
    let mut going: Vec<usize> = (0..calls.len()).collect();
    for _ in 0..=REFUSED_CALLS_MAX {
        let batch = IntakeBatch::of(going.iter().map(|call| Arc::clone(&calls[*call])).collect());
        match take_in(service, &batch, TrustedSource::Tables).await {
            Ok(taken) => {
                for (call, accepted) in going.into_iter().zip(taken) {
                    answers[call] = CallOutcome::Taken(accepted);
                }
                return answers;
            }
            Err(IntakeError::BadEvent(bad)) if going.len() > 1 => {
                going.remove(batch.call_of(bad.index));
            }
            Err(IntakeError::Revoked(tokens)) => {
                for call in going.extract_if(.., |call| calls[*call].has_one_of(&tokens)) {
                    answers[call] = CallOutcome::Failed(IntakeError::Revoked(tokens.clone()));
                }
                if going.is_empty() {
                    return answers;
                }
            }
            Err(error) => {
                answer_all(&mut answers, &going, error);
                return answers;
            }
        }
    }
    answers
}

/// One call has its own error, unless deciding again may help. Of several, each is tried by itself; but
/// not when no database was met: then each would wait for one again.
fn answer_all(answers: &mut [CallOutcome], going: &[usize], error: IntakeError) {
    if let [call] = going {
        if !error.is_conflict() {
            answers[*call] = CallOutcome::Failed(error);
        }
    } else if error.is_everybodys() {
        let why = error.to_string();
        for call in going {
            answers[*call] = CallOutcome::Failed(IntakeError::Away(why.clone()));
        }
    }
}
