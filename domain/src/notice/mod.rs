//! Notices: a firm and the operator hear of each episode of a subscription once, and of each
//! revoked key (ruling 49).
//!
//! [`episode`] decides when a notice is due. [`NoticeFacts`] has its facts of the log, and
//! [`Notice`] adds the names that a person needs. The operator gets a notice as a CloudEvent. No
//! notice is about a notice: neither mails nor calls of the operator's URL belong to a
//! subscription.

pub mod episode;

mod facts;
mod sent;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::aggregate::id_of_rule;

pub use facts::{FIRM_CLOSED, NoticeAnswer, NoticeFacts, NoticeKind};
pub use sent::{
    NoticeChannel, NoticeSending, NoticeSendingCommand, NoticeSendingEvent, SentNotice,
};

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
    use crate::values::Timestamp;

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
    fn each_fact_has_its_own_notice_id() {
        let warned = facts(NoticeKind::Warned);
        assert_eq!(warned.notice_id(), warned.clone().notice_id());
        let later = NoticeFacts { happened_at: at("12:00:01"), ..warned.clone() };
        assert_ne!(warned.notice_id(), later.notice_id());
        assert_ne!(warned.notice_id(), facts(NoticeKind::Failing).notice_id());
    }

    #[test]
    fn only_closed_firms_removals_name_the_firm() {
        let reason = Some(FIRM_CLOSED.to_owned());
        let closed = NoticeFacts { reason, ..facts(NoticeKind::Removed) };
        assert_eq!(closed.subject_kind(), "firm");
        assert_eq!(facts(NoticeKind::Removed).subject_kind(), "hook");
        assert_eq!(facts(NoticeKind::KeyRevoked).subject_kind(), "key");
    }

    #[test]
    fn a_cloud_event_hides_the_targets_path() {
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
