//! The script of answers: `200,410,410,429:30,slow:11`. After its end every answer is 200.

use std::str::FromStr;
use std::time::Duration;

/// The time that the service waits for an answer (contract, section Limits).
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// The longest wait of a slow answer, in seconds.
const SLOW_SECONDS_MAX: u64 = 3_600;

/// One answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ScriptedAnswer {
    pub(super) status: u16,
    /// `Retry-After`, in seconds.
    pub(super) retry_after: Option<u64>,
    /// The wait before the answer.
    pub(super) wait: Duration,
}

impl ScriptedAnswer {
    pub(super) const OK: Self = Self { status: 200, retry_after: None, wait: Duration::ZERO };

    /// Whether the service has given up waiting by then.
    pub(super) fn is_too_slow(self) -> bool {
        self.wait >= ANSWER_WITHIN
    }

    /// The answer to a request that does not verify.
    pub(super) const UNVERIFIED: Self = Self { status: 401, ..Self::OK };
}

impl FromStr for ScriptedAnswer {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const FORM: &str = "write a status (410), a status with Retry-After (429:30), or slow:11";
        let (word, seconds) = match text.trim().split_once(':') {
            Some((word, seconds)) => (word, Some(seconds.parse::<u64>().map_err(|_| FORM)?)),
            None => (text.trim(), None),
        };
        if word == "slow" {
            let seconds = seconds.filter(|seconds| *seconds <= SLOW_SECONDS_MAX).ok_or(FORM)?;
            return Ok(Self { wait: Duration::from_secs(seconds), ..Self::OK });
        }
        let status = word.parse().ok().filter(|status| (200..=599).contains(status)).ok_or(FORM)?;
        Ok(Self { status, retry_after: seconds, ..Self::OK })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<Result<ScriptedAnswer, &'static str>> {
        text.split(',').map(str::parse).collect()
    }

    #[test]
    fn scripts_have_statuses_waits_and_slow_answers() {
        let ok = ScriptedAnswer::OK;
        let expected = [
            Ok(ok),
            Ok(ScriptedAnswer { status: 410, ..ok }),
            Ok(ScriptedAnswer { status: 429, retry_after: Some(30), ..ok }),
            Ok(ScriptedAnswer { wait: Duration::from_secs(11), ..ok }),
        ];
        assert_eq!(read("200, 410,429:30,slow:11"), expected);
    }

    #[test]
    fn another_word_is_refused() {
        for bad in ["", "199", "600", "ok", "slow", "slow:x", "slow:3601", "429:", "429:-1"] {
            assert!(bad.parse::<ScriptedAnswer>().is_err(), "{bad}");
        }
    }
}
