//! Readings of a firm's audit log and history, so that the readers are watched too. Each reading
//! has a stream of its own, so that no stream grows with the number of readings.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::aggregate::{NeverRefused, aggregate, domain_event};
use crate::values::Timestamp;

/// Aggregate of one reading. Its stream has one event.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reading {
    recorded: bool,
}

/// Command on a reading.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReadingCommand {
    /// Records the reading.
    Record(ReadingDetails),
}

/// Event of a reading.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReadingEvent {
    /// An auditor or operator read the firm's history.
    AuditRead(ReadingDetails),
}

domain_event!(ReadingEvent { AuditRead });
aggregate!(Reading, ReadingCommand, ReadingEvent, NeverRefused);

impl Reading {
    /// Decides on the events that follow from a command. A recorded reading has no further event.
    pub fn decide(
        &self,
        ReadingCommand::Record(look): &ReadingCommand,
    ) -> Result<Vec<ReadingEvent>, NeverRefused> {
        let new = (!self.recorded).then(|| ReadingEvent::AuditRead(look.clone()));
        Ok(new.into_iter().collect())
    }

    fn absorb(&mut self, ReadingEvent::AuditRead(_): &ReadingEvent) {
        self.recorded = true;
    }
}

/// Subject, form and limits of a reading.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReadingDetails {
    /// The subject.
    pub what: ReadingSubject,
    /// The form.
    pub how: ReadAs,
    /// The subscription, if the reading was about one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hook_id: Option<Uuid>,
    /// The delivery, if the reading was about one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivery_id: Option<Uuid>,
    /// The key, if the reading was about one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_id: Option<Uuid>,
    /// The person, by the keyed hash of the address, if the reading was about one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub person_id: Option<Uuid>,
    /// Start of the time range, if one was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// End of the time range, if one was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// The place in a feed after which the reader follows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<i64>,
    /// The reader's reason, for personal content and whole targets only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl ReadingDetails {
    /// A reading without limits of time.
    #[must_use]
    pub const fn at(what: ReadingSubject, how: ReadAs) -> Self {
        Self {
            what,
            how,
            hook_id: None,
            delivery_id: None,
            key_id: None,
            person_id: None,
            since: None,
            until: None,
            after: None,
            reason: None,
        }
    }
}

/// Subject of a reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReadingSubject {
    /// The firm's audit log.
    Audit,
    /// The firm's removed subscriptions.
    Hooks,
    /// The history of one subscription.
    Hook,
    /// The firm's deliveries.
    Deliveries,
    /// One delivery with its attempts. Operators see the receivers' answers too.
    Delivery,
    /// The whole target of a subscription or of a workflow step (ruling 44).
    Target,
    /// The history of one key.
    Key,
    /// Events of the log.
    Events,
    /// The firm's members, keys and tokens at a moment.
    Access,
    /// The body that a delivery sent (ruling 50).
    Body,
    /// The answers that a delivery got (ruling 50).
    Answer,
    /// All that was sent about a person.
    Person,
    /// The portal: a session of a member began (ruling 48).
    Portal,
}

/// Form of a reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReadAs {
    /// A page of a list.
    Page,
    /// Comma-separated values.
    Csv,
    /// JSON, one entry per line.
    Ndjson,
    /// The entries with everything that proves them.
    Bundle,
    /// Entries as they come, for as long as the reader follows them.
    Feed,
}

impl ReadAs {
    /// Whether the data leaves the service as a whole.
    #[must_use]
    pub const fn leaves_service(self) -> bool {
        match self {
            Self::Page => false,
            Self::Csv | Self::Ndjson | Self::Bundle | Self::Feed => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cqrs_es::test::TestFramework;

    #[test]
    fn a_reading_is_recorded_once() {
        let look = ReadingDetails::at(ReadingSubject::Audit, ReadAs::Csv);
        let record = ReadingCommand::Record(look.clone());
        let read = ReadingEvent::AuditRead(look);
        let given = |events| TestFramework::<Reading>::with(()).given(events);
        given(vec![]).when(record.clone()).then_expect_events(vec![read.clone()]);
        given(vec![read]).when(record).then_expect_events(vec![]);
    }
}
