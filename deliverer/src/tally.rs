//! Metrics of attempts, counted after their commit. A batch that is recorded again counts once.

use std::time::Duration;

use domain::delivery::Outcome;
use telemetry::metrics::{ATTEMPT_SECONDS, ATTEMPTS};

use crate::attempt::FinishedAttempt;

/// The attempts of a batch.
#[derive(Default)]
pub(crate) struct AttemptTally(Vec<TalliedAttempt>);

struct TalliedAttempt {
    outcome: Outcome,
    class: &'static str,
    took: Duration,
}

impl AttemptTally {
    /// Notes an attempt.
    pub(crate) fn note_attempt(&mut self, finished: &FinishedAttempt, outcome: Outcome) {
        let took = finished.finished_at.get() - finished.claimed.started_at.get();
        let class = finished.exchange.answer.class();
        self.0.push(TalliedAttempt { outcome, class, took: took.to_std().unwrap_or_default() });
    }

    /// Counts the noted attempts.
    pub(crate) fn count_noted(self) {
        for TalliedAttempt { outcome, class, took } in self.0 {
            ATTEMPTS.count(&[("outcome", outcome.name()), ("class", class)]);
            ATTEMPT_SECONDS.observe(&[], took);
        }
    }
}

/// Counts attempts whose answers were never recorded.
pub(crate) fn count_interrupted(tries: usize) {
    let labels = [("outcome", Outcome::Interrupted.name()), ("class", "none")];
    ATTEMPTS.add(&labels, u64::try_from(tries).unwrap_or(u64::MAX));
}
