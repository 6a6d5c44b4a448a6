//! Every event there is, as one closed type: what the store appends and what the tail hands out.
//!
//! An event's shape is a promise: it never changes meaning. A new shape is a new version, with an
//! upcaster from the old one.

use cqrs_es::{Aggregate, DomainEvent};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::delivery::{Delivery, DeliveryEvent};
use crate::firm::{Firm, FirmEvent};
use crate::form::{Form, FormEvent};
use crate::invite::{Invite, InviteEvent};
use crate::key::{Key, KeyEvent};
use crate::occurrence::{Happening, Occurrence, OccurrenceEvent};
use crate::pause::{Pause, PauseEvent};
use crate::person::{Person, PersonEvent};
use crate::reading::{Reading, ReadingEvent};
use crate::repair::{Repair, RepairEvent};
use crate::replay::{Replay, ReplayEvent};
use crate::response::{Response, ResponseEvent};
use crate::subscription::{Subscription, SubscriptionEvent};

/// The version every event has until its shape changes.
pub const FIRST_VERSION: &str = "1.0";

/// Names the variants of an event enum: the name in the log is the variant's.
macro_rules! domain_event {
    ($event:ident { $($variant:ident),+ $(,)? }) => {
        impl $event {
            /// The event's name in the log.
            #[must_use]
            pub fn name(&self) -> &'static str {
                match self {
                    $(Self::$variant { .. } => stringify!($variant),)+
                }
            }

            /// The names of all events of this stream.
            pub const NAMES: &'static [&'static str] = &[$(stringify!($variant)),+];
        }

        impl cqrs_es::DomainEvent for $event {
            fn event_type(&self) -> String {
                self.name().to_owned()
            }

            fn event_version(&self) -> String {
                crate::event::FIRST_VERSION.to_owned()
            }
        }
    };
}

/// Ties an aggregate's pure `decide` and `absorb` to cqrs-es.
macro_rules! aggregate {
    ($aggregate:ident, $command:ident, $event:ident, $rejection:ident) => {
        impl cqrs_es::Aggregate for $aggregate {
            const TYPE: &'static str = stringify!($aggregate);
            type Command = $command;
            type Event = $event;
            type Error = $rejection;
            type Services = ();

            async fn handle(
                &mut self,
                command: $command,
                _: &(),
                sink: &cqrs_es::event_sink::EventSink<Self>,
            ) -> Result<(), $rejection> {
                for event in self.decide(&command)? {
                    sink.write(event, self).await;
                }
                Ok(())
            }

            fn apply(&mut self, event: $event) {
                self.absorb(&event);
            }
        }
    };
}

pub(crate) use {aggregate, domain_event};

/// Makes the closed type over all streams from one list.
macro_rules! all_events {
    ($($aggregate:ident($event:ident)),+ $(,)?) => {
        /// An event of any stream.
        #[derive(Debug, Clone, PartialEq)]
        pub enum Event {
            $(
                #[doc = concat!("An event of a `", stringify!($aggregate), "` stream.")]
                $aggregate($event),
            )+
        }

        impl Event {
            /// The kind of stream this event belongs to.
            #[must_use]
            pub fn aggregate_type(&self) -> &'static str {
                match self {
                    $(Self::$aggregate(_) => $aggregate::TYPE,)+
                }
            }

            /// The event's name in the log.
            #[must_use]
            pub fn event_type(&self) -> &'static str {
                match self {
                    $(Self::$aggregate(event) => event.name(),)+
                }
            }

            /// The version of the event's shape.
            #[must_use]
            pub fn event_version(&self) -> String {
                match self {
                    $(Self::$aggregate(event) => event.event_version(),)+
                }
            }

            /// Reads a stored event, already upcast to its newest shape.
            ///
            /// # Errors
            /// [`UnreadableEvent`] for a kind, name or shape this build does not know. A reader stops
            /// at it and says so; an event is never skipped.
            pub fn from_payload<'de>(
                aggregate_type: &str,
                event_type: &str,
                payload: impl Deserializer<'de, Error = serde_json::Error>,
            ) -> Result<Self, UnreadableEvent> {
                match aggregate_type {
                    $($aggregate::TYPE => {
                        let event = $event::deserialize(payload)?;
                        if event.name() != event_type {
                            return Err(UnreadableEvent::Misnamed(event_type.to_owned()));
                        }
                        Ok(Self::$aggregate(event))
                    })+
                    other => Err(UnreadableEvent::UnknownAggregate(other.to_owned())),
                }
            }
        }

        /// As the JSON the log keeps.
        impl Serialize for Event {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                match self {
                    $(Self::$aggregate(event) => event.serialize(serializer),)+
                }
            }
        }

        $(
            impl From<$event> for Event {
                fn from(event: $event) -> Self {
                    Self::$aggregate(event)
                }
            }

            impl TryFrom<Event> for $event {
                type Error = UnreadableEvent;

                fn try_from(event: Event) -> Result<Self, UnreadableEvent> {
                    let Event::$aggregate(event) = event else {
                        return Err(UnreadableEvent::Misnamed(event.event_type().to_owned()));
                    };
                    Ok(event)
                }
            }
        )+
    };
}

impl Event {
    /// What happened, if this event records an occurrence.
    #[must_use]
    pub const fn happening(&self) -> Option<&Happening> {
        match self {
            Self::Occurrence(OccurrenceEvent::OccurrenceRecorded(happening)) => Some(happening),
            _ => None,
        }
    }
}

all_events!(
    Firm(FirmEvent),
    Form(FormEvent),
    Key(KeyEvent),
    Subscription(SubscriptionEvent),
    Occurrence(OccurrenceEvent),
    Delivery(DeliveryEvent),
    Invite(InviteEvent),
    Person(PersonEvent),
    Response(ResponseEvent),
    Reading(ReadingEvent),
    Replay(ReplayEvent),
    Pause(PauseEvent),
    Repair(RepairEvent),
);

/// A stored event this build cannot read.
#[derive(Debug, thiserror::Error)]
pub enum UnreadableEvent {
    /// A stream of a kind this build does not know.
    #[error("unknown kind of stream `{0}`")]
    UnknownAggregate(String),
    /// The payload is of another event than the row says.
    #[error("the payload is not a `{0}`")]
    Misnamed(String),
    /// An unknown event, or a shape that does not fit.
    #[error("unknown event or shape: {0}")]
    Shape(#[from] serde_json::Error),
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_stored_event_reads_back_as_itself() {
        let event = Event::from(FirmEvent::FirmClosed {
            time: "2026-11-01T00:00:00.000Z".parse().unwrap(),
        });
        let payload = serde_json::to_value(&event).unwrap();
        assert_eq!(payload, json!({"FirmClosed": {"time": "2026-11-01T00:00:00.000Z"}}));
        assert_eq!(Event::from_payload("Firm", "FirmClosed", payload).unwrap(), event);
    }

    #[test]
    fn an_unknown_stream_event_or_shape_is_refused() {
        let unknown =
            |kind, name, payload| Event::from_payload(kind, name, payload).unwrap_err().to_string();
        assert_eq!(unknown("Moon", "Rose", json!({})), "unknown kind of stream `Moon`");
        assert!(
            unknown("Firm", "FirmSold", json!({"FirmSold": {}}))
                .starts_with("unknown event or shape")
        );
        assert!(
            unknown("Firm", "FirmClosed", json!({"FirmClosed": {}}))
                .starts_with("unknown event or shape")
        );
        let closed = json!({"FirmClosed": {"time": "2026-11-01T00:00:00.000Z"}});
        assert_eq!(unknown("Firm", "FirmOpened", closed), "the payload is not a `FirmOpened`");
    }
}
