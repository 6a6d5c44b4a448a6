//! Receivers by host: which attempts count, and when a receiver is failing (ruling 49).

use std::collections::BTreeMap;

use chrono::{DateTime, TimeDelta, Timelike, Utc};

use super::answer::AttemptAnswer;
use super::history::{Attempt, LateEffect, Outcome};
use crate::values::Timestamp;

/// Time without a success after which a receiver is failing (ruling 49).
pub const FAILING_AFTER: TimeDelta = TimeDelta::hours(24);

/// Fewest failures since the last success of a failing receiver (ruling 49).
pub const FAILURES_MIN: i64 = 10;

/// Attempts to one host in one hour.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct HourCount {
    /// Attempts that count.
    pub attempts: i64,
    /// Attempts that were answered 2xx.
    pub delivered: i64,
}

/// The last attempt to a host that counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastAttempt {
    /// Its end.
    pub at: Timestamp,
    /// The status of the answer, if any.
    pub status: Option<u16>,
    /// The fault, if the answer was no status.
    pub error: Option<String>,
}

/// A batch of attempts to one host, in the order of the log.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct ReceiverTally {
    /// Counts by the start of the hour.
    pub hours: BTreeMap<DateTime<Utc>, HourCount>,
    /// The last attempt.
    pub last: Option<LastAttempt>,
    /// The end of the last success.
    pub succeeded_at: Option<Timestamp>,
    /// The end of the first failure after the last success of the batch.
    pub failing_since: Option<Timestamp>,
    /// The failures after the last success of the batch.
    pub failures: i64,
}

impl ReceiverTally {
    /// Takes the next attempt, unless it says nothing about the receiver.
    pub fn take_attempt(&mut self, attempt: &Attempt) {
        if !tells_of_receiver(attempt) {
            return;
        }
        let at = attempt.finished_at;
        let hour = self.hours.entry(hour_of(at.get())).or_default();
        hour.attempts += 1;
        if attempt.outcome == Outcome::Delivered {
            hour.delivered += 1;
            (self.succeeded_at, self.failing_since, self.failures) = (Some(at), None, 0);
        } else {
            self.failing_since.get_or_insert(at);
            self.failures += 1;
        }
        let error = attempt.error.clone();
        self.last = Some(LastAttempt { at, status: attempt.status, error });
    }
}

/// Whether an attempt says something about its receiver. An attempt does not if it was interrupted,
/// was not sent, or was answered too late to count.
#[must_use]
pub fn tells_of_receiver(attempt: &Attempt) -> bool {
    let unsent = attempt.error.as_deref() == Some(AttemptAnswer::NeverSent.code());
    let late = attempt.late == Some(LateEffect::Noted);
    attempt.outcome != Outcome::Interrupted && !unsent && !late
}

/// The start of the hour of an instant.
#[must_use]
pub fn hour_of(at: DateTime<Utc>) -> DateTime<Utc> {
    let into = i64::from(at.minute()) * 60 + i64::from(at.second());
    let nanos = i64::from(at.timestamp_subsec_nanos());
    at - TimeDelta::seconds(into) - TimeDelta::nanoseconds(nanos)
}

/// Whether a receiver is failing: no success for a day, and at least ten failures.
#[must_use]
pub fn is_failing(failing_since: Option<DateTime<Utc>>, failures: i64, now: DateTime<Utc>) -> bool {
    failures >= FAILURES_MIN && failing_since.is_some_and(|since| now - since >= FAILING_AFTER)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(time: &str) -> Timestamp {
        format!("2026-11-01T{time}Z").parse().unwrap()
    }

    fn attempt(time: &str, status: u16) -> Attempt {
        let outcome = if status == 200 { Outcome::Delivered } else { Outcome::Failed };
        let interrupted = Attempt::interrupted(1, at(time), at(time));
        Attempt { outcome, status: Some(status), error: None, ..interrupted }
    }

    fn tally(attempts: &[Attempt]) -> ReceiverTally {
        let mut tally = ReceiverTally::default();
        attempts.iter().for_each(|one| tally.take_attempt(one));
        tally
    }

    /// Attempts count by the hour.
    #[test]
    fn a_success_ends_a_run_of_failures() {
        let failed = [attempt("10:59:59.999", 503), attempt("11:00:00.000", 500)];
        let run = tally(&failed);
        assert_eq!(run.failing_since, Some(at("10:59:59.999")));
        assert_eq!((run.failures, run.succeeded_at), (2, None));
        let hours: Vec<_> = run.hours.keys().map(|hour| hour.to_rfc3339()).collect();
        assert_eq!(hours, ["2026-11-01T10:00:00+00:00", "2026-11-01T11:00:00+00:00"]);
        let ended = tally(&[failed.as_slice(), &[attempt("11:00:01.000", 200)]].concat());
        assert_eq!((ended.failing_since, ended.failures), (None, 0));
        assert_eq!(ended.succeeded_at, Some(at("11:00:01.000")));
        let hour = ended.hours[&hour_of(at("11:30:00").get())];
        assert_eq!(hour, HourCount { attempts: 2, delivered: 1 });
        let again = tally(&[attempt("11:00:01.000", 200), attempt("11:00:02.000", 404)]);
        assert_eq!((again.failing_since, again.failures), (Some(at("11:00:02.000")), 1));
        assert_eq!(again.last.unwrap().status, Some(404));
    }

    /// An attempt that was interrupted, not sent or too late says nothing about the receiver.
    #[test]
    fn attempts_that_say_nothing_do_not_count() {
        let interrupted = Attempt::interrupted(1, at("10:00:00"), at("10:00:00"));
        let unsent =
            Attempt { error: Some("never_sent".into()), status: None, ..attempt("10:00:00", 500) };
        let late = Attempt { late: Some(LateEffect::Noted), ..attempt("10:00:00", 200) };
        assert_eq!(tally(&[interrupted, unsent, late]), ReceiverTally::default());
        let arrived = Attempt { late: Some(LateEffect::Arrived), ..attempt("10:00:00", 200) };
        assert!(tally(&[arrived]).succeeded_at.is_some());
    }

    #[test]
    fn ten_failures_over_a_day_mean_failing() {
        let now = at("12:00:00").get();
        let day_ago = Some(now - TimeDelta::hours(24));
        assert!(is_failing(day_ago, 10, now));
        assert!(!is_failing(day_ago, 9, now));
        assert!(!is_failing(Some(now - TimeDelta::hours(23)), 1_000, now));
        assert!(!is_failing(None, 0, now));
    }
}
