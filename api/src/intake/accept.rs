//! Takes in the activities of a call: in the call's own transaction, or in one that small
//! concurrent calls share.

use std::sync::Arc;
use std::time::Duration;

use domain::activity::BATCH_MAX_EVENTS;
use domain::event::Actor;
use eventstore::{AppendError, AsConflict, retry_conflicts};
use uuid::Uuid;

use super::calls::{IntakeBatch, IntakeCall, IntakeCounts};
use super::cloudevents::CloudEvent;
use super::error::IntakeError;
use super::take_in::{TrustedSource, take_in};
use crate::batching::batcher::{BatchFn, BatchPolicy, Batcher, NoAnswer};
use crate::batching::token_cache::Bearer;
use crate::service::Service;

/// Two transactions run at a time: one decides while the other waits for its commit. With four
/// calls under way only one transaction runs, and arriving calls join the next batch.
///
/// The next batch lingers 2 ms for callers who were just answered and call again at once. A batch
/// of 100 small calls stays within the limits of one call: 1,000 events and 8 MiB. A batch that
/// waits longer than 250 ms for locked rows gives its turn away.
const INTAKE_POLICY: BatchPolicy = BatchPolicy {
    parallel: 2,
    busy_at: 4,
    linger: Some(Duration::from_millis(2)),
    max: 100,
    turn_max: Duration::from_millis(250),
};

/// Most events of a call that shares a batch.
const SMALL_CALL_EVENTS_MAX: usize = 10;

/// Most bytes of a call that shares a batch.
pub(crate) const SMALL_CALL_BYTES_MAX: usize = 64 << 10;

/// Number of refused calls after which a batch is given up. Each remaining call then runs alone, so
/// that many bad calls delay the good ones only briefly.
const REFUSED_CALLS_MAX: usize = 4;

/// Takes in a call in a transaction of its own: all of its activities or none.
///
/// # Errors
/// [`IntakeError`] says why no activity was taken in.
pub async fn accept(
    service: &Service,
    events: Vec<CloudEvent>,
    actor: Actor,
) -> Result<IntakeCounts, IntakeError> {
    let call = checked_call(service, events, actor)?;
    run_alone(service, Arc::new(call)).await
}

/// Takes in a call whose body has `bytes` bytes. A small call shares a batch with other small
/// calls. All of a call's activities are taken in or none, even if other calls of the batch fail.
///
/// # Errors
/// [`IntakeError`] says why no activity was taken in.
pub(crate) async fn accept_with_others(
    service: &Arc<Service>,
    events: Vec<CloudEvent>,
    bytes: usize,
    caller: Bearer,
) -> Result<IntakeCounts, IntakeError> {
    let call = checked_call(service, events, caller.holder.actor())?;
    let call = Arc::new(IntakeCall { unconfirmed: caller.unconfirmed, ..call });
    let is_small =
        (1..=SMALL_CALL_EVENTS_MAX).contains(&call.events.len()) && bytes <= SMALL_CALL_BYTES_MAX;
    if !is_small {
        return run_alone(service, call).await;
    }
    let service_of_all = Arc::clone(service);
    let serve: BatchFn<_, _> = Arc::new(move |calls| {
        let service = Arc::clone(&service_of_all);
        Box::pin(async move { run_together(&service, calls).await })
    });
    match service.admission.batchers.intake.ask(Arc::clone(&call), serve).await {
        Ok(CallOutcome::Taken(accepted)) => Ok(accepted),
        Ok(CallOutcome::Failed(error)) => Err(error),
        // The outcome is unknown here. A second run finds a recorded activity and counts it as a
        // duplicate.
        Ok(CallOutcome::ByItself) | Err(NoAnswer) => retry_alone(service, call).await,
    }
}

/// Batches small calls.
pub(crate) type IntakeBatcher = Batcher<Arc<IntakeCall>, CallOutcome>;

/// A new batcher. `last` replaces the longest duration of a turn.
pub(crate) fn intake_batcher(last: Option<Duration>) -> Arc<IntakeBatcher> {
    Batcher::new(BatchPolicy { turn_max: last.unwrap_or(INTAKE_POLICY.turn_max), ..INTAKE_POLICY })
}

/// Outcome of one call in a shared batch.
#[derive(Debug)]
pub(crate) enum CallOutcome {
    /// The call was taken in.
    Taken(IntakeCounts),
    /// The call was refused.
    Failed(IntakeError),
    /// The batch was given up, and no single call is known to be at fault. The call must run alone.
    ByItself,
}

fn checked_call(
    service: &Service,
    events: Vec<CloudEvent>,
    actor: Actor,
) -> Result<IntakeCall, IntakeError> {
    if events.len() > BATCH_MAX_EVENTS {
        return Err(IntakeError::TooMany);
    }
    Ok(IntakeCall { events, context: service.context(Uuid::nil(), actor), unconfirmed: None })
}

/// Runs one call, and decides again after a conflict with another append.
async fn run_alone(service: &Service, call: Arc<IntakeCall>) -> Result<IntakeCounts, IntakeError> {
    if call.events.is_empty() {
        // No transaction begins: the handler has confirmed the token (`internal/activity.rs`).
        return Ok(IntakeCounts::default());
    }
    let seed = call.context.correlation_id;
    let batch = IntakeBatch::new(vec![call]);
    retry_conflicts(seed, || take_in_once(service, &batch)).await
}

/// Runs one call after a shared batch failed. The shared run counts as a conflict, so the retry
/// waits and meets the other calls of that batch less often.
async fn retry_alone(
    service: &Service,
    call: Arc<IntakeCall>,
) -> Result<IntakeCounts, IntakeError> {
    let seed = call.context.correlation_id;
    let batch = IntakeBatch::new(vec![call]);
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

/// Takes calls in together. A refused call leaves the batch, and the rest is decided again.
async fn run_together(service: &Service, calls: Vec<Arc<IntakeCall>>) -> Vec<CallOutcome> {
    let mut answers: Vec<CallOutcome> = calls.iter().map(|_| CallOutcome::ByItself).collect();
    let mut going: Vec<usize> = (0..calls.len()).collect();
    for _ in 0..=REFUSED_CALLS_MAX {
        let batch = IntakeBatch::new(going.iter().map(|call| Arc::clone(&calls[*call])).collect());
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

/// Turns a batch's error into answers. A lone call gets the error, unless a new decision may help.
/// Each of several calls runs alone, except after a lost database: each would wait for a connection
/// again.
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
