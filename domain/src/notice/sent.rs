//! The record that a notice went: by mail to the firm, or to the operator's URL. Each of both has a
//! stream of its own, with one event.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::facts::NoticeKind;
use crate::aggregate::{NeverRefused, aggregate, domain_event, id_of_rule};

/// The way of a notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NoticeChannel {
    /// By mail to the firm.
    Mail,
    /// To the operator's URL.
    Operator,
}

impl NoticeChannel {
    /// The channel's word in logs and metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Mail => "mail",
            Self::Operator => "operator",
        }
    }

    /// The id of a notice on this way: of its mail, its delivery and its stream.
    #[must_use]
    pub fn sending_id(self, notice_id: Uuid) -> Uuid {
        id_of_rule(&format!("notice sent|{notice_id}|{}", self.name()))
    }
}

/// Content of the event. The recipient is a keyed hash, because an address is personal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SentNotice {
    /// The way.
    pub channel: NoticeChannel,
    /// The kind of the notice.
    pub kind: NoticeKind,
    /// The notice.
    pub notice_id: Uuid,
    /// The subscription, the key or the firm.
    pub subject_id: Uuid,
    /// The kind of the subject: `hook`, `key` or `firm`.
    pub subject_kind: String,
    /// Keyed hash of the recipient, lower-case hex.
    pub to: String,
}

/// Aggregate of a notice on one way.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NoticeSending {
    sent: bool,
}

/// Command on a notice on one way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoticeSendingCommand {
    /// Records that the recipient has taken the notice.
    RecordSent(SentNotice),
}

/// Event of a notice on one way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum NoticeSendingEvent {
    /// The mail server or the operator's URL has taken the notice.
    NoticeSent(SentNotice),
}

domain_event!(NoticeSendingEvent { NoticeSent });
aggregate!(NoticeSending, NoticeSendingCommand, NoticeSendingEvent, NeverRefused);

impl NoticeSending {
    /// Decides on the events that follow from a command. A sent notice has no further event.
    pub fn decide(
        &self,
        NoticeSendingCommand::RecordSent(sent): &NoticeSendingCommand,
    ) -> Result<Vec<NoticeSendingEvent>, NeverRefused> {
        let new = (!self.sent).then(|| NoticeSendingEvent::NoticeSent(sent.clone()));
        Ok(new.into_iter().collect())
    }

    fn absorb(&mut self, NoticeSendingEvent::NoticeSent(_): &NoticeSendingEvent) {
        self.sent = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cqrs_es::test::TestFramework;

    #[test]
    fn a_notice_is_sent_once_per_channel() {
        let notice_id = Uuid::from_u128(1);
        let mail = NoticeChannel::Mail.sending_id(notice_id);
        assert_ne!(mail, NoticeChannel::Operator.sending_id(notice_id));
        let sent = SentNotice {
            channel: NoticeChannel::Mail,
            kind: NoticeKind::Warned,
            notice_id,
            subject_id: Uuid::from_u128(2),
            subject_kind: "hook".to_owned(),
            to: "00".to_owned(),
        };
        let record = NoticeSendingCommand::RecordSent(sent.clone());
        let event = NoticeSendingEvent::NoticeSent(sent);
        let given = |events| TestFramework::<NoticeSending>::with(()).given(events);
        given(vec![]).when(record.clone()).then_expect_events(vec![event.clone()]);
        given(vec![event]).when(record).then_expect_events(vec![]);
    }
}
