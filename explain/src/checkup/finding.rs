//! A finding, and faults that explain others.

use std::time::Duration;

/// Faults, each with the checks that can go wrong because of it. Their own advice would mislead:
/// with the wrong key no secret can be read, and a rotation would not help.
const CONSEQUENCES: [(&str, &[&str]); 3] = [
    ("installation", &["wrapping_key", "identity_key", "newest_keys", "erasures", "secrets"]),
    ("wrapping_key", &["identity_key", "newest_keys", "secrets"]),
    ("senders", &["unspread", "backlog", "leases", "replays"]),
];

/// How serious a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckVerdict {
    /// Everything is in order.
    Fine,
    /// The service works, or another finding names the cause. An operator should know this state.
    Notice,
    /// A fault.
    Wrong,
}

/// Result of one check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Name of the check.
    pub check: &'static str,
    /// How serious the finding is.
    pub verdict: CheckVerdict,
    /// The observed state.
    pub says: String,
    /// The advice, if the operator should act.
    pub advice: Option<&'static str>,
}

impl CheckVerdict {
    /// The verdict's word in the output.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fine => "fine",
            Self::Notice => "notice",
            Self::Wrong => "wrong",
        }
    }
}

impl Finding {
    /// Turns each fault that another fault explains into a notice. It names the cause and gives no
    /// advice.
    #[must_use]
    pub fn mute_consequences(findings: Vec<Self>) -> Vec<Self> {
        let is_wrong =
            |one: &Self, check: &str| one.check == check && one.verdict == CheckVerdict::Wrong;
        let causes: Vec<(&str, &[&str])> = CONSEQUENCES
            .into_iter()
            .filter(|(cause, _)| findings.iter().any(|one| is_wrong(one, cause)))
            .collect();
        let mute = |one: Self| {
            let explains = |(_, checks): &&(&str, &[&str])| checks.contains(&one.check);
            match causes.iter().find(explains) {
                Some((cause, _)) if one.verdict == CheckVerdict::Wrong => Self {
                    verdict: CheckVerdict::Notice,
                    says: format!("{}: probably because of `{cause}`", one.says),
                    advice: None,
                    ..one
                },
                _ => one,
            }
        };
        findings.into_iter().map(mute).collect()
    }

    pub(super) const fn fine(check: &'static str, says: String) -> Self {
        Self { check, verdict: CheckVerdict::Fine, says, advice: None }
    }

    pub(super) const fn notice(check: &'static str, says: String, advice: &'static str) -> Self {
        Self { check, verdict: CheckVerdict::Notice, says, advice: Some(advice) }
    }

    pub(super) const fn wrong(check: &'static str, says: String, advice: &'static str) -> Self {
        Self { check, verdict: CheckVerdict::Wrong, says, advice: Some(advice) }
    }
}

/// A duration in words for the operator.
pub(super) fn spoken_duration(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..120 => format!("{seconds} s"),
        seconds @ 120..7_200 => format!("{} min", seconds / 60),
        seconds @ 7_200..172_800 => format!("{} h", seconds / 3_600),
        seconds => format!("{} days", seconds / 86_400),
    }
}
