//! Whether mail may go to a person's address. The product reports it, the person asks for it, or a
//! mail server decides it (contract, section FormInvite; ruling 11). The log holds a keyed hash of
//! the address and never the address.

use std::cmp::Ordering;

use serde::{Deserialize, Serialize};

use crate::aggregate::state_report::ReportEffect;
use crate::aggregate::{aggregate, domain_event};
use crate::values::Timestamp;

/// Aggregate of one person in a firm. Each person of a firm has a stream.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Person {
    unsubscribed: bool,
    bounced: bool,
    time: Option<Timestamp>,
}

/// A change to an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AddressChange {
    /// The person wants no mail.
    Unsubscribed,
    /// Mail cannot be delivered to the address.
    Bounced,
    /// Mail may go to the address again.
    Restored,
}

/// Command on a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PersonCommand {
    /// Takes in a report of the product. The newest `time` wins. Among reports with one `time`, the
    /// one that stops mail wins.
    Report {
        /// Time of the report, by the product's clock.
        time: Timestamp,
        /// The reported change.
        change: AddressChange,
    },
    /// The person asked for no more mail. Such a request is never too late.
    Unsubscribe {
        /// The current time.
        time: Timestamp,
    },
    /// Erases the person's data up to now. Repeated commands erase again.
    Erase {
        /// The current time.
        time: Timestamp,
    },
    /// A mail server refused the address for good.
    Bounce {
        /// The current time.
        time: Timestamp,
    },
}

/// Event of a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum PersonEvent {
    /// The person wants no mail any more.
    AddressUnsubscribed {
        /// Start of the state.
        time: Timestamp,
    },
    /// Mail cannot be delivered to the address.
    AddressBounced {
        /// Start of the state.
        time: Timestamp,
    },
    /// Mail may go to the address again.
    AddressRestored {
        /// Start of the state.
        time: Timestamp,
    },
    /// The person's answers were erased. The decision whether mail may go to the address stays
    /// (case H7).
    PersonErased {
        /// Time of the erasure.
        time: Timestamp,
    },
}

domain_event!(PersonEvent { AddressUnsubscribed, AddressBounced, AddressRestored, PersonErased });
aggregate!(Person, PersonCommand, PersonEvent, PersonRejection);

/// A person's stream refuses nothing. A command without news changes nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PersonRejection {}

impl Person {
    /// Decides on the events that follow from a command. A command without news has none.
    pub fn decide(&self, command: &PersonCommand) -> Result<Vec<PersonEvent>, PersonRejection> {
        let (news, event) = match *command {
            PersonCommand::Report { time, change } => {
                (self.effect_of(command) == ReportEffect::News, change.event_at(time))
            }
            PersonCommand::Unsubscribe { time } => {
                (!self.unsubscribed, AddressChange::Unsubscribed.event_at(self.not_before(time)))
            }
            PersonCommand::Erase { time } => (true, PersonEvent::PersonErased { time }),
            PersonCommand::Bounce { time } => {
                (!self.bounced, AddressChange::Bounced.event_at(self.not_before(time)))
            }
        };
        Ok(if news { vec![event] } else { Vec::new() })
    }

    /// Effect of a report. A command that is no report is always news.
    #[must_use]
    pub fn effect_of(&self, command: &PersonCommand) -> ReportEffect {
        let PersonCommand::Report { time, change } = *command else {
            return ReportEffect::News;
        };
        let Some(newest) = self.time else {
            return ReportEffect::News;
        };
        let mut after = self.clone();
        after.absorb(&change.event_at(time));
        let stops = change != AddressChange::Restored;
        match time.cmp(&newest) {
            Ordering::Less => ReportEffect::Stale,
            Ordering::Greater => ReportEffect::News,
            Ordering::Equal if after == *self => ReportEffect::Repeat,
            Ordering::Equal if stops => ReportEffect::News,
            Ordering::Equal => ReportEffect::Stale,
        }
    }

    /// The time, or the stream's newest time if that is later. Times of the stream never go back.
    fn not_before(&self, time: Timestamp) -> Timestamp {
        self.time.map_or(time, |newest| newest.max(time))
    }

    fn absorb(&mut self, event: &PersonEvent) {
        match event {
            PersonEvent::AddressUnsubscribed { time } => {
                self.unsubscribed = true;
                self.time = Some(*time);
            }
            PersonEvent::AddressBounced { time } => {
                self.bounced = true;
                self.time = Some(*time);
            }
            PersonEvent::AddressRestored { time } => {
                *self = Self { time: Some(*time), ..Self::default() };
            }
            PersonEvent::PersonErased { .. } => {}
        }
    }
}

impl AddressChange {
    const fn event_at(self, time: Timestamp) -> PersonEvent {
        match self {
            Self::Unsubscribed => PersonEvent::AddressUnsubscribed { time },
            Self::Bounced => PersonEvent::AddressBounced { time },
            Self::Restored => PersonEvent::AddressRestored { time },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cqrs_es::test::{AggregateTestExecutor, TestFramework};

    fn at(second: u32) -> Timestamp {
        format!("2026-11-01T00:00:{second:02}.000Z").parse().unwrap()
    }

    fn report(second: u32, change: AddressChange) -> PersonCommand {
        PersonCommand::Report { time: at(second), change }
    }

    fn given(events: Vec<PersonEvent>) -> AggregateTestExecutor<Person> {
        TestFramework::with(()).given(events)
    }

    #[test]
    fn of_reports_the_newest_wins() {
        let unsubscribed = PersonEvent::AddressUnsubscribed { time: at(5) };
        let restored = AddressChange::Restored;
        given(vec![])
            .when(report(5, AddressChange::Unsubscribed))
            .then_expect_events(vec![unsubscribed]);
        given(vec![unsubscribed]).when(report(5, restored)).then_expect_events(vec![]);
        given(vec![unsubscribed])
            .when(report(6, restored))
            .then_expect_events(vec![PersonEvent::AddressRestored { time: at(6) }]);
    }

    /// An address that was restored and unsubscribed at one time got mail.
    #[test]
    fn a_stop_beats_an_equally_timed_restoring() {
        let restored = PersonEvent::AddressRestored { time: at(5) };
        let unsubscribed = PersonEvent::AddressUnsubscribed { time: at(5) };
        let report = |change| PersonCommand::Report { time: at(5), change };
        given(vec![restored])
            .when(report(AddressChange::Unsubscribed))
            .then_expect_events(vec![unsubscribed]);
        given(vec![restored, unsubscribed])
            .when(report(AddressChange::Unsubscribed))
            .then_expect_events(vec![]);
    }

    /// An older report is stale. A restoring is stale also at the time of a stop.
    #[test]
    fn an_older_or_equal_restoring_is_stale() {
        let is_stale = |person: &Person, report| person.effect_of(&report) == ReportEffect::Stale;
        let mut person = Person::default();
        assert!(!is_stale(&person, report(4, AddressChange::Unsubscribed)));
        person.absorb(&PersonEvent::AddressUnsubscribed { time: at(5) });
        assert!(is_stale(&person, report(4, AddressChange::Unsubscribed)));
        assert!(!is_stale(&person, report(5, AddressChange::Unsubscribed)), "a repeat");
        assert!(is_stale(&person, report(5, AddressChange::Restored)));
        person.absorb(&PersonEvent::AddressRestored { time: at(6) });
        assert!(!is_stale(&person, report(6, AddressChange::Restored)), "a repeat");
    }

    #[test]
    fn a_request_unsubscribes_once_however_late() {
        let restored = PersonEvent::AddressRestored { time: at(9) };
        let unsubscribed = PersonEvent::AddressUnsubscribed { time: at(9) };
        let ask = PersonCommand::Unsubscribe { time: at(5) };
        given(vec![restored]).when(ask).then_expect_events(vec![unsubscribed]);
        given(vec![restored, unsubscribed]).when(ask).then_expect_events(vec![]);
    }

    #[test]
    fn h7_an_erased_person_stays_unsubscribed() {
        let unsubscribed = PersonEvent::AddressUnsubscribed { time: at(1) };
        let erased = PersonEvent::PersonErased { time: at(2) };
        let erase = PersonCommand::Erase { time: at(2) };
        given(vec![unsubscribed]).when(erase).then_expect_events(vec![erased]);
        given(vec![unsubscribed, erased]).when(erase).then_expect_events(vec![erased]);
        given(vec![unsubscribed, erased])
            .when(PersonCommand::Unsubscribe { time: at(3) })
            .then_expect_events(vec![]);
    }

    #[test]
    fn a_bounce_is_recorded_once_until_restored() {
        let bounced = PersonEvent::AddressBounced { time: at(1) };
        let bounce = PersonCommand::Bounce { time: at(1) };
        given(vec![]).when(bounce).then_expect_events(vec![bounced]);
        given(vec![bounced]).when(bounce).then_expect_events(vec![]);
        given(vec![bounced, PersonEvent::AddressRestored { time: at(2) }])
            .when(bounce)
            .then_expect_events(vec![PersonEvent::AddressBounced { time: at(2) }]);
    }
}
