//! That somebody read what a firm has to answer for: those who look at others are looked at
//! themselves. A stream each: nobody's stream grows with how often it is read about.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::event::{aggregate, domain_event};
use crate::occurrence::NeverRefused;
use crate::time::Timestamp;

/// One stream per reading, of one event.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reading {
    recorded: bool,
}

/// What can be asked of a reading.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReadingCommand {
    /// Record it.
    Record(ReadingDetails),
}

/// What the log says of a reading.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReadingEvent {
    /// Somebody read.
    AuditRead(ReadingDetails),
}

domain_event!(ReadingEvent { AuditRead });
aggregate!(Reading, ReadingCommand, ReadingEvent, NeverRefused);

impl Reading {
    /// Decides what a command leads to; nothing, when it is recorded.
    ///
    /// # Errors
    /// None.
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

/// What was read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReadingDetails {
    /// Of what.
    pub what: ReadingSubject,
    /// In which form.
    pub how: ReadAs,
    /// The subscription, if it was one's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hook_id: Option<Uuid>,
    /// The delivery, if it was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivery_id: Option<Uuid>,
    /// From when on, if that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// Until when, if that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
}

impl ReadingDetails {
    /// All of it, of whatever time.
    #[must_use]
    pub const fn at(what: ReadingSubject, how: ReadAs) -> Self {
        Self { what, how, hook_id: None, delivery_id: None, since: None, until: None }
    }
}

/// Of what.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReadingSubject {
    /// The firm's audit log.
    Audit,
    /// Its removed subscriptions.
    Hooks,
    /// The history of one subscription.
    Hook,
    /// Its deliveries.
    Deliveries,
    /// One delivery, with its tries, and for operators with what receivers said.
    Delivery,
}

/// In which form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReadAs {
    /// A page of a list.
    Page,
    /// Comma-separated values.
    Csv,
    /// JSON, one entry per line.
    Ndjson,
    /// With everything that proves it.
    Bundle,
}

impl ReadAs {
    /// Whether it leaves the service as a whole.
    #[must_use]
    pub const fn leaves(self) -> bool {
        match self {
            Self::Page => false,
            Self::Csv | Self::Ndjson | Self::Bundle => true,
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
