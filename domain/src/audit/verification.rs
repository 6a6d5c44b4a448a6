//! Verifications of the log that a worker runs by itself, and the result of the last one.

use super::rotation::IntactVerification;
use crate::values::Timestamp;

/// The verification that runs now, the last one that ended, and the last intact one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VerificationState {
    /// The verification under way.
    pub running: Option<RunningVerification>,
    /// The last one that ended.
    pub ended: Option<EndedVerification>,
    /// The last intact one.
    pub intact: Option<IntactVerification>,
    /// Whether the last one may have found its flaw in the archive. Without the archive no process
    /// can tell that such a flaw is gone.
    pub needs_archive: bool,
}

/// A verification under way. Another process resumes it at its position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunningVerification {
    /// Time of its begin.
    pub began_at: Timestamp,
    /// Last verified position.
    pub position: i64,
}

/// A verification that ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndedVerification {
    /// Time of its end.
    pub at: Timestamp,
    /// Last verified position.
    pub position: i64,
    /// The result.
    pub outcome: VerificationOutcome,
}

/// The begin of the verification after one that ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NextVerification {
    /// Now: the fault may be gone already, such as a folder that is in its place again.
    AtOnce,
    /// An hour after the end.
    AfterAnHour,
    /// After the ordinary interval.
    AfterInterval,
}

/// The result of a verification.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VerificationOutcome {
    /// The log agrees with its proof.
    Intact,
    /// The log contradicts its proof. The text is the first flaw.
    Broken(String),
    /// Nothing contradicts the proof, and something could not be checked, for this reason.
    Incomplete(String),
}

impl VerificationOutcome {
    /// Whether the log contradicts its proof.
    #[must_use]
    pub const fn is_broken(&self) -> bool {
        matches!(self, Self::Broken(_))
    }

    /// The begin of the next verification. `broken_in_row` is the number of verifications that this
    /// worker has just found broken, one after the other. A worker that has started, or that sees
    /// the verdict of another one, has found none.
    #[must_use]
    pub const fn next(&self, broken_in_row: u32) -> NextVerification {
        match (self, broken_in_row) {
            (Self::Broken(_), 0 | 1) => NextVerification::AtOnce,
            (Self::Broken(_), _) => NextVerification::AfterAnHour,
            (Self::Intact | Self::Incomplete(_), _) => NextVerification::AfterInterval,
        }
    }

    /// The word and the text of the outcome, as they are stored.
    #[must_use]
    pub fn word_and_text(&self) -> (&'static str, Option<&str>) {
        match self {
            Self::Intact => ("intact", None),
            Self::Broken(flaw) => ("broken", Some(flaw)),
            Self::Incomplete(why) => ("incomplete", Some(why)),
        }
    }

    /// Reads the parts of [`VerificationOutcome::word_and_text`]. An unknown word counts as
    /// incomplete.
    #[must_use]
    pub fn of_parts(word: &str, text: Option<String>) -> Self {
        match word {
            "intact" => Self::Intact,
            "broken" => Self::Broken(text.unwrap_or_default()),
            _ => Self::Incomplete(text.unwrap_or_default()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn broken_logs_are_verified_soon_then_hourly() {
        let broken = VerificationOutcome::Broken("seal 7: it is missing".into());
        let incomplete = VerificationOutcome::Incomplete("there is no checkpoint".into());
        for (outcome, broken_in_row, expected) in [
            (&broken, 0, NextVerification::AtOnce),
            (&broken, 1, NextVerification::AtOnce),
            (&broken, 2, NextVerification::AfterAnHour),
            (&broken, 9, NextVerification::AfterAnHour),
            (&incomplete, 0, NextVerification::AfterInterval),
            (&VerificationOutcome::Intact, 0, NextVerification::AfterInterval),
        ] {
            assert_eq!(outcome.next(broken_in_row), expected, "{outcome:?} {broken_in_row}");
        }
    }

    #[test]
    fn an_outcome_reads_back_as_itself() {
        let outcomes = [
            VerificationOutcome::Intact,
            VerificationOutcome::Broken("seal 7: it is missing".into()),
            VerificationOutcome::Incomplete("there is no checkpoint".into()),
        ];
        for outcome in outcomes {
            let (word, text) = outcome.word_and_text();
            assert_eq!(VerificationOutcome::of_parts(word, text.map(Into::into)), outcome);
        }
    }
}
