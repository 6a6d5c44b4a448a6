//! The event of an attempt, as the log and history keep it.

use domain::delivery::{Attempt, AttemptConclusion, clean_answer, conclude_attempt, retry_after};
use domain::event::EventContext;
use domain::values::Timestamp;
use sha2::{Digest, Sha256};
use vault::Entropy;

use crate::attempt::{DeliveryOrigin, FinishedAttempt, system_context};
use crate::settings::DelivererContext;

/// Shorter header values of a workflow step are not masked. They may be any word of an answer.
const SECRET_LENGTH_MIN: usize = 6;

/// The context of a delivery's events, as part of its trace.
pub(super) fn event_context(finished: &FinishedAttempt) -> EventContext {
    let claimed = &finished.claimed;
    let of = system_context(claimed.firm_id, claimed.delivery_id, finished.finished_at);
    EventContext { traceparent: claimed.traceparent, ..of }
}

/// The attempt as it is recorded.
pub(super) fn recorded_attempt(
    deliverer: &DelivererContext,
    finished: &FinishedAttempt,
    answer: Option<&str>,
) -> Attempt {
    let FinishedAttempt { claimed, exchange, finished_at } = finished;
    let asked =
        exchange.retry_after.as_deref().and_then(|value| retry_after(value, finished_at.get()));
    let jitter = random_jitter(&*deliverer.entropy);
    let AttemptConclusion { outcome, wait } =
        conclude_attempt(claimed.retry_schedule(), claimed.nth, &exchange.answer, asked, jitter);
    let error = Some(exchange.answer.code()).filter(|code| *code != "status").map(str::to_owned);
    Attempt {
        number: claimed.number,
        started_at: claimed.started_at,
        finished_at: *finished_at,
        outcome,
        status: exchange.answer.status(),
        error,
        retry_after_seconds: asked.map(|wait| wait.as_secs()),
        next_try_at: wait.map(|wait| {
            Timestamp::from(finished_at.get() + deliverer.settings.scale.scaled_wait(wait))
        }),
        hops: exchange.hops.clone(),
        body_id: claimed.body.as_ref().map(|body| body.body_id),
        body_sha256: claimed.body.as_ref().map(|body| hex::encode(body.sha256)),
        answer_sha256: answer.map(|text| hex::encode(Sha256::digest(text))),
        cancelled: None,
        late: None,
        of: None,
        replay_id: claimed.replay_id,
    }
}

/// A random number from -1 to 1, evenly distributed.
fn random_jitter(entropy: &dyn Entropy) -> f64 {
    let mut bytes = [0; 4];
    entropy.fill_bytes(&mut bytes);
    f64::from(u32::from_be_bytes(bytes)) / f64::from(u32::MAX) * 2.0 - 1.0
}

/// The first KiB of the answer, cleaned (ruling 25, delivered). `None` for an empty answer.
pub(super) fn kept_answer(finished: &FinishedAttempt) -> Option<String> {
    let snippet = &finished.exchange.snippet;
    if snippet.is_empty() {
        return None;
    }
    let mut secrets: Vec<&str> = finished.claimed.secret.iter().map(|one| one.as_str()).collect();
    if let DeliveryOrigin::Step(_, headers) = &finished.claimed.origin {
        let long = headers.iter().map(|(_, value)| value.as_str());
        secrets.extend(long.filter(|value| value.len() >= SECRET_LENGTH_MIN));
    }
    Some(clean_answer(snippet, &secrets))
}
