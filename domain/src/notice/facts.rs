//! The facts of a notice, as the log has them.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::aggregate::id_of_rule;
use crate::values::Timestamp;

/// The reason of the one notice about all subscriptions of a closed firm.
pub const FIRM_CLOSED: &str = "firm_closed";

/// The subject of a notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NoticeKind {
    /// A delivery ended with 410, the first one since the last success.
    Warned,
    /// No delivery succeeded for 24 hours, after at least 10 failures.
    Failing,
    /// A delivery succeeded after one of the notices above.
    Recovered,
    /// A subscription was removed, or all subscriptions of a closed firm.
    Removed,
    /// A key was revoked, with its subscriptions.
    KeyRevoked,
}

impl NoticeKind {
    /// The type of the CloudEvent, also in lists.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Warned => "subscription.warned",
            Self::Failing => "subscription.failing",
            Self::Recovered => "subscription.recovered",
            Self::Removed => "subscription.removed",
            Self::KeyRevoked => "key.revoked",
        }
    }
}

/// An answer, or its absence, that a notice shows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NoticeAnswer {
    /// The delivery.
    pub delivery_id: Uuid,
    /// The status, if the receiver answered.
    pub status: Option<u16>,
    /// The word for the fault, if there was no status.
    pub error: Option<String>,
    /// End of the attempt.
    pub finished_at: Timestamp,
}

/// The facts of a notice, from the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NoticeFacts {
    /// The kind of the notice.
    pub kind: NoticeKind,
    /// The subscription, the key, or the closed firm.
    pub subject_id: Uuid,
    /// The time at which it happened.
    pub happened_at: Timestamp,
    /// The reason of a removal or revocation.
    pub reason: Option<String>,
    /// End of the first failure since the last success.
    pub failing_since: Option<Timestamp>,
    /// Failures since the last success.
    pub failures: i64,
    /// The answers that led to the notice, in the order of their ends.
    pub answers: Vec<NoticeAnswer>,
}

impl NoticeFacts {
    /// The notice's id. One fact has one id, also after a restore.
    #[must_use]
    pub fn notice_id(&self) -> Uuid {
        let Self { kind, subject_id, happened_at, .. } = self;
        id_of_rule(&format!("notice|{}|{subject_id}|{happened_at}", kind.name()))
    }

    /// Whether the notice is about all subscriptions of a closed firm.
    #[must_use]
    pub fn is_of_closed_firm(&self) -> bool {
        self.kind == NoticeKind::Removed && self.reason.as_deref() == Some(FIRM_CLOSED)
    }

    /// The kind of the subject, as the audit log names it.
    #[must_use]
    pub fn subject_kind(&self) -> &'static str {
        match self.kind {
            NoticeKind::KeyRevoked => "key",
            NoticeKind::Removed if self.is_of_closed_firm() => "firm",
            NoticeKind::Warned
            | NoticeKind::Failing
            | NoticeKind::Recovered
            | NoticeKind::Removed => "hook",
        }
    }
}
