//! Notices: a firm and the operator hear of each episode of a subscription once, and of each
//! revoked key (ruling 49).
//!
//! [`episode`] decides when a notice is due. [`NoticeFacts`] has its facts of the log, and
//! [`Notice`] adds the names that a person needs. The operator gets a notice as a CloudEvent. No
//! notice is about a notice: neither mails nor calls of the operator's URL belong to a
//! subscription.

pub mod episode;
mod sent;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::lang::Lang;
use crate::occurrence::id_of_rule;
use crate::time::Timestamp;

pub use sent::{
    NoticeChannel, NoticeSending, NoticeSendingCommand, NoticeSendingEvent, SentNotice,
};

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

/// The notices that a firm wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoticeSettings {
    /// The language of these mails.
    pub lang: Lang,
    /// Whether notices are mailed to the firm.
    pub mail: bool,
}

impl Default for NoticeSettings {
    fn default() -> Self {
        Self { lang: Lang::default(), mail: true }
    }
}

/// A change of the notices that a firm wants: `notices` of `firm.changed`. A field that is not
/// named stays as it is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NoticeChange {
    /// The language of these mails.
    pub lang: Option<Lang>,
    /// Whether notices are mailed to the firm.
    pub mail: Option<bool>,
}

impl NoticeChange {
    /// Whether nothing changes.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self == Self::default()
    }

    /// This change after an earlier one.
    #[must_use]
    pub fn after(self, earlier: Self) -> Self {
        Self { lang: self.lang.or(earlier.lang), mail: self.mail.or(earlier.mail) }
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

/// A subscription that a notice names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoticeHook {
    /// The subscription.
    pub hook_id: Uuid,
    /// The key of its trigger.
    pub trigger: String,
    /// Its target, without path and query (ruling 44).
    pub target: String,
}

/// A key that a notice names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoticeKey {
    /// Its label.
    pub name: String,
    /// Its first characters.
    pub prefix: String,
}

/// A notice with the names that a person needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// The firm.
    pub firm_id: Uuid,
    /// The facts of the log.
    pub facts: NoticeFacts,
    /// The subscription, or all subscriptions that went along.
    pub hooks: Vec<NoticeHook>,
    /// The revoked key.
    pub key: Option<NoticeKey>,
    /// The integrations screen of the product.
    pub link: Option<String>,
}

impl Notice {
    /// The notice as a CloudEvent (version 1.0, JSON). A later attempt sends the same text.
    #[must_use]
    pub fn cloud_event(&self, source: &str) -> String {
        let Self { firm_id, facts, key, link, .. } = self;
        let hook = |hook: &NoticeHook| json!({"id": hook.hook_id, "trigger": hook.trigger, "target": hook.target});
        let hooks: Vec<Value> = self.hooks.iter().map(hook).collect();
        let key = key
            .as_ref()
            .map(|key| json!({"id": facts.subject_id, "name": key.name, "prefix": key.prefix}));
        json!({
            "specversion": "1.0",
            "id": facts.notice_id(),
            "source": source,
            "type": facts.kind.name(),
            "subject": facts.subject_id,
            "time": facts.happened_at,
            "datacontenttype": "application/json",
            "firmid": firm_id,
            "data": {
                "reason": facts.reason, "failing_since": facts.failing_since,
                "failures": facts.failures, "answers": facts.answers,
                "subscriptions": hooks, "key": key, "link": link,
            },
        })
        .to_string()
    }
}

/// A notice on its way to the operator's URL, as its row of the outbox has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QueuedNotice {
    /// The firm of the notice. The row has the firm of [`NOTICE_FIRM`].
    pub firm_id: Uuid,
    /// The event to append once the URL has taken the notice.
    pub sent: SentNotice,
    /// The body: a CloudEvent.
    pub body: String,
}

/// The firm by which notices to the operator's URL count in limits. All of them together have the
/// limits of one firm, so a slow URL of the operator holds up no firm's deliveries (ruling 34).
pub const NOTICE_FIRM: Uuid = Uuid::nil();

/// The lane of the notices to the operator's host.
#[must_use]
pub fn notice_lane_id(host: &str) -> Uuid {
    id_of_rule(&format!("notice lane|{host}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(time: &str) -> Timestamp {
        format!("2026-11-01T{time}.000Z").parse().unwrap()
    }

    fn facts(kind: NoticeKind) -> NoticeFacts {
        NoticeFacts {
            kind,
            subject_id: Uuid::from_u128(1),
            happened_at: at("12:00:00"),
            reason: None,
            failing_since: None,
            failures: 0,
            answers: Vec::new(),
        }
    }

    #[test]
    fn a_fact_has_one_id_and_another_fact_another() {
        let warned = facts(NoticeKind::Warned);
        assert_eq!(warned.notice_id(), warned.clone().notice_id());
        let later = NoticeFacts { happened_at: at("12:00:01"), ..warned.clone() };
        assert_ne!(warned.notice_id(), later.notice_id());
        assert_ne!(warned.notice_id(), facts(NoticeKind::Failing).notice_id());
    }

    #[test]
    fn only_the_removal_of_a_closed_firm_is_about_the_firm() {
        let reason = Some(FIRM_CLOSED.to_owned());
        let closed = NoticeFacts { reason, ..facts(NoticeKind::Removed) };
        assert_eq!(closed.subject_kind(), "firm");
        assert_eq!(facts(NoticeKind::Removed).subject_kind(), "hook");
        assert_eq!(facts(NoticeKind::KeyRevoked).subject_kind(), "key");
    }

    #[test]
    fn a_cloud_event_has_the_facts_and_no_path_of_a_target() {
        let answer = NoticeAnswer {
            delivery_id: Uuid::from_u128(2),
            status: Some(410),
            error: None,
            finished_at: at("11:59:59"),
        };
        let hook = NoticeHook {
            hook_id: Uuid::from_u128(1),
            trigger: "form_submitted".to_owned(),
            target: "https://hooks.example.com/…".to_owned(),
        };
        let notice = Notice {
            firm_id: Uuid::from_u128(3),
            facts: NoticeFacts { answers: vec![answer], ..facts(NoticeKind::Warned) },
            hooks: vec![hook],
            key: None,
            link: None,
        };
        let text = notice.cloud_event("https://forms.test/api/v1");
        assert_eq!(text, notice.cloud_event("https://forms.test/api/v1"));
        let event: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(event["type"], "subscription.warned");
        assert_eq!(event["time"], "2026-11-01T12:00:00.000Z");
        assert_eq!(event["data"]["answers"][0]["status"], 410);
        assert_eq!(event["data"]["subscriptions"][0]["target"], "https://hooks.example.com/…");
    }
}
