//! The next step of the service after an answer, by the rules that the service follows.

use std::time::Duration;

use domain::delivery::{
    AttemptAnswer, AttemptConclusion, NetworkError, Outcome, RetrySchedule, conclude_attempt,
};

use super::script::ScriptedAnswer;

/// The kind of a delivery, by its headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ArrivalKind {
    /// Of a subscription.
    Hook,
    /// Of a workflow step.
    Step,
    /// A notice to the operator.
    Notice,
    /// A sample or a test run. Nothing follows it.
    Test,
}

/// Tells the next step after this arrival of a delivery. `gone` counts the 410s since the last
/// success, this one included.
pub(super) fn next_step(
    kind: ArrivalKind,
    arrival: u32,
    answer: ScriptedAnswer,
    gone: u32,
) -> String {
    let schedule = match kind {
        ArrivalKind::Hook | ArrivalKind::Notice => RetrySchedule::RestHook,
        ArrivalKind::Step => RetrySchedule::WorkflowStep,
        ArrivalKind::Test => return "a test: nothing follows".to_owned(),
    };
    let given = match answer.is_too_slow() {
        true => AttemptAnswer::NetworkError(NetworkError::Timeout),
        false => AttemptAnswer::Status(answer.status),
    };
    let asked = answer.retry_after.map(Duration::from_secs);
    let AttemptConclusion { outcome, wait } =
        conclude_attempt(schedule, arrival, &given, asked, 0.0);
    match (outcome, wait) {
        (Outcome::Delivered, _) => "delivered".to_owned(),
        (_, Some(wait)) => {
            format!("attempt {} of {} in {}", arrival + 1, schedule.tries(), wait_text(wait))
        }
        (_, None) if kind == ArrivalKind::Hook && given == AttemptAnswer::Status(410) => {
            if gone > 1 {
                "failed; the second 410 in a row removes the subscription".to_owned()
            } else {
                "failed; another 410 in a row removes the subscription".to_owned()
            }
        }
        (_, None) => "failed, and not sent again".to_owned(),
    }
}

fn wait_text(wait: Duration) -> String {
    match wait.as_secs() {
        60 => "1 minute".to_owned(),
        seconds if seconds % 60 == 0 => format!("{} minutes", seconds / 60),
        seconds => format!("{seconds} seconds"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next(arrival: u32, answer: &str, gone: u32) -> String {
        next_step(ArrivalKind::Hook, arrival, answer.parse().unwrap(), gone)
    }

    #[test]
    fn each_answer_has_the_contracts_next_step() {
        assert_eq!(next(1, "200", 0), "delivered");
        assert_eq!(next(1, "slow:9", 0), "delivered");
        assert_eq!(next(1, "503", 0), "attempt 2 of 8 in 1 minute");
        assert_eq!(next(3, "slow:11", 0), "attempt 4 of 8 in 4 minutes");
        assert_eq!(next(1, "429:90", 0), "attempt 2 of 8 in 90 seconds");
        assert_eq!(next(8, "503", 0), "failed, and not sent again");
        assert_eq!(next(1, "404", 0), "failed, and not sent again");
        assert_eq!(next(1, "410", 1), "failed; another 410 in a row removes the subscription");
        assert_eq!(next(1, "410", 2), "failed; the second 410 in a row removes the subscription");
        let of = |kind| next_step(kind, 1, "410".parse().unwrap(), 1);
        assert_eq!(of(ArrivalKind::Step), "failed, and not sent again");
        assert_eq!(of(ArrivalKind::Notice), "failed, and not sent again");
        let of = |kind| next_step(kind, 1, "503".parse().unwrap(), 0);
        assert_eq!(of(ArrivalKind::Step), "attempt 2 of 5 in 30 seconds");
        assert_eq!(of(ArrivalKind::Notice), "attempt 2 of 8 in 1 minute");
        assert_eq!(of(ArrivalKind::Test), "a test: nothing follows");
    }
}
