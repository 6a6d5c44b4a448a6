//! The retry schedule (contract, section Retries; rulings 18 and 24).
//!
//! A wait runs from the end of the failed attempt. [`super::AnswerVerdict`] says whether a
//! retry follows at all. A caller may scale the waits.

use std::time::Duration;

use chrono::{DateTime, NaiveDateTime, Utc};

/// Longest `Retry-After` that is honoured (contract, section Retries).
pub const RETRY_AFTER_MAX: Duration = Duration::from_secs(6 * 60 * 60);

/// Longest `Retry-After` that is read, in bytes. The longest form of a date has 33 characters.
const HEADER_MAX_BYTES: usize = 64;

/// Share of a workflow step's wait by which the wait may vary (contract, section Retries).
const JITTER_SHARE: f64 = 0.2;

/// The three forms of an HTTP date (RFC 9110, section 5.6.7).
const HTTP_DATES: [&str; 3] =
    ["%a, %d %b %Y %H:%M:%S GMT", "%A, %d-%b-%y %H:%M:%S GMT", "%a %b %e %H:%M:%S %Y"];

/// Seconds between the attempts of a REST hook: 1, 2, 4, 8, 16, 32 and 60 minutes.
const REST_HOOK_WAITS: [u64; 7] = [60, 120, 240, 480, 960, 1_920, 3_600];

/// Seconds between the attempts of a workflow step: 30 seconds, then 2, 8 and 32 minutes.
const WORKFLOW_STEP_WAITS: [u64; 4] = [30, 120, 480, 1_920];

/// The contract's column of retries that a delivery follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetrySchedule {
    /// A delivery to a subscription.
    RestHook,
    /// A webhook of a workflow step.
    WorkflowStep,
    /// A replayed delivery, with one attempt and no retry (ruling 31).
    Replay,
}

impl RetrySchedule {
    /// Number of attempts in all.
    #[must_use]
    pub fn tries(self) -> u32 {
        match self {
            Self::RestHook => 8,
            Self::WorkflowStep => 5,
            Self::Replay => 1,
        }
    }

    /// The wait after that many attempts, the last of which failed. `None` after the final attempt.
    /// A `Retry-After` can only lengthen the wait. `jitter`, from -1 to 1, varies the wait of a
    /// workflow step by up to 20 %.
    #[must_use]
    pub fn wait_after(
        self,
        tries_used: u32,
        retry_after: Option<Duration>,
        jitter: f64,
    ) -> Option<Duration> {
        let index = usize::try_from(tries_used.checked_sub(1)?).ok()?;
        let seconds = *self.wait_seconds().get(index)?;
        let asked = retry_after.unwrap_or_default().min(RETRY_AFTER_MAX);
        Some(self.vary_wait(Duration::from_secs(seconds), jitter).max(asked))
    }

    fn wait_seconds(self) -> &'static [u64] {
        match self {
            Self::RestHook => &REST_HOOK_WAITS,
            Self::WorkflowStep => &WORKFLOW_STEP_WAITS,
            Self::Replay => &[],
        }
    }

    fn vary_wait(self, wait: Duration, jitter: f64) -> Duration {
        match self {
            Self::RestHook | Self::Replay => wait,
            Self::WorkflowStep => {
                let factor = 1.0 + JITTER_SHARE * jitter.clamp(-1.0, 1.0);
                Duration::try_from_secs_f64(wait.as_secs_f64() * factor).unwrap_or(wait)
            }
        }
    }
}

/// Reads the wait in an answer's only `Retry-After` header, 6 hours at most. Nonsense, negative and
/// past values are `None` (ruling 24). Callers treat several headers as `None` too.
#[must_use]
pub fn retry_after(value: &str, now: DateTime<Utc>) -> Option<Duration> {
    let value = value.trim_matches([' ', '\t']);
    if value.is_empty() || value.len() > HEADER_MAX_BYTES {
        return None;
    }
    let wait = if value.bytes().all(|byte| byte.is_ascii_digit()) {
        // A number fails to parse here only if it is too large for the type.
        Duration::from_secs(value.parse().unwrap_or(u64::MAX))
    } else {
        (http_date(value)? - now).to_std().ok()?
    };
    (!wait.is_zero()).then_some(wait.min(RETRY_AFTER_MAX))
}

fn http_date(value: &str) -> Option<DateTime<Utc>> {
    HTTP_DATES
        .iter()
        .find_map(|format| NaiveDateTime::parse_from_str(value, format).ok())
        .map(|at| at.and_utc())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rstest::rstest;

    const SIX_HOURS: u64 = 21_600;

    fn secs(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// 1994-11-06 08:00:00 UTC: the day of RFC 9110's examples.
    fn now() -> DateTime<Utc> {
        DateTime::from_timestamp(784_108_800, 0).unwrap()
    }

    fn schedule(schedule: RetrySchedule, jitter: f64) -> Vec<Duration> {
        (1..=schedule.tries()).map_while(|tries| schedule.wait_after(tries, None, jitter)).collect()
    }

    /// The waits are 1, 2, 4, 8, 16, 32 and 60 minutes, without jitter.
    #[test]
    fn d7_a_rest_hook_waits_fixed_minutes() {
        let minutes = [1, 2, 4, 8, 16, 32, 60].map(|minutes| secs(minutes * 60));
        assert_eq!(RetrySchedule::RestHook.tries(), 8);
        for jitter in [-1.0, 0.0, 1.0] {
            assert_eq!(schedule(RetrySchedule::RestHook, jitter), minutes);
        }
    }

    /// The waits are 30 seconds, 2, 8 and 32 minutes, each up to a fifth shorter or longer.
    #[rstest]
    #[case(0.0, [30, 120, 480, 1_920])]
    #[case(-1.0, [24, 96, 384, 1_536])]
    #[case(1.0, [36, 144, 576, 2_304])]
    #[case(7.0, [36, 144, 576, 2_304])]
    #[case(f64::NAN, [30, 120, 480, 1_920])]
    fn d7_a_workflow_steps_waits_have_jitter(#[case] jitter: f64, #[case] expected: [u64; 4]) {
        assert_eq!(RetrySchedule::WorkflowStep.tries(), 5);
        assert_eq!(schedule(RetrySchedule::WorkflowStep, jitter), expected.map(secs));
    }

    #[test]
    fn d7_the_last_try_has_no_wait() {
        assert_eq!(RetrySchedule::RestHook.wait_after(8, Some(secs(5)), 0.0), None);
        assert_eq!(RetrySchedule::WorkflowStep.wait_after(5, Some(secs(5)), 0.0), None);
        assert_eq!(RetrySchedule::RestHook.wait_after(u32::MAX, None, 0.0), None);
    }

    #[rstest]
    #[case("5", Some(5), 60)]
    #[case("7200", Some(7_200), 7_200)]
    #[case(" 7200\t", Some(7_200), 7_200)]
    #[case("21600", Some(SIX_HOURS), SIX_HOURS)]
    #[case("21601", Some(SIX_HOURS), SIX_HOURS)]
    #[case("1000000000", Some(SIX_HOURS), SIX_HOURS)]
    #[case("999999999999999999999999999999", Some(SIX_HOURS), SIX_HOURS)]
    #[case("0", None, 60)]
    #[case("-1", None, 60)]
    #[case("+90", None, 60)]
    #[case("1.5", None, 60)]
    #[case("1e9", None, 60)]
    #[case("", None, 60)]
    #[case("soon", None, 60)]
    #[case("90, 120", None, 60)]
    #[case("٩٠", None, 60)]
    #[case("Sun, 06 Nov 1994 08:49:37 GMT", Some(2_977), 2_977)]
    #[case("Sunday, 06-Nov-94 08:49:37 GMT", Some(2_977), 2_977)]
    #[case("Sun Nov  6 08:49:37 1994", Some(2_977), 2_977)]
    #[case("Sun, 06 Nov 1994 08:00:01 GMT", Some(1), 60)]
    #[case("Mon, 07 Nov 1994 08:00:00 GMT", Some(SIX_HOURS), SIX_HOURS)]
    #[case("Sun, 06 Nov 1994 08:00:00 GMT", None, 60)]
    #[case("Sat, 05 Nov 1994 08:00:00 GMT", None, 60)]
    #[case("Mon, 06 Nov 1994 08:49:37 GMT", None, 60)]
    #[case("Sun, 31 Feb 1994 08:49:37 GMT", None, 60)]
    #[case("Sun, 06 Nov 1994 08:49:37 CET", None, 60)]
    #[case("Sun, 06 Nov 1994 08:49:37 +0000", None, 60)]
    #[case("1994-11-06T08:49:37Z", None, 60)]
    fn d8_retry_after_lengthens_the_wait(
        #[case] value: &str,
        #[case] read: Option<u64>,
        #[case] wait: u64,
    ) {
        let read_now = retry_after(value, now());
        assert_eq!(read_now, read.map(secs));
        assert_eq!(RetrySchedule::RestHook.wait_after(1, read_now, 0.0), Some(secs(wait)));
    }

    #[test]
    fn d8_a_long_value_is_not_read() {
        assert_eq!(retry_after(&"9".repeat(64), now()), Some(RETRY_AFTER_MAX));
        assert_eq!(retry_after(&"9".repeat(65), now()), None);
        assert_eq!(retry_after(&"(".repeat(100_000), now()), None);
    }

    #[test]
    fn d8_no_wait_is_over_six_hours() {
        let wait = RetrySchedule::WorkflowStep.wait_after(4, Some(Duration::MAX), 1.0);
        assert_eq!(wait, Some(RETRY_AFTER_MAX));
    }

    proptest! {
        /// Any text is ignored, or read as a wait above zero.
        #[test]
        fn no_retry_after_exceeds_six_hours(value in "\\PC{0,70}") {
            let read = retry_after(&value, now());
            prop_assert!(read.is_none_or(|wait| !wait.is_zero() && wait <= RETRY_AFTER_MAX));
        }

        #[test]
        fn d7_jitter_spreads_within_20_percent(jitter in -1.0..=1.0_f64) {
            let wait = RetrySchedule::WorkflowStep.wait_after(1, None, jitter).unwrap();
            prop_assert!((wait.as_secs_f64() - (30.0 + 6.0 * jitter)).abs() < 1e-6);
        }
    }
}
