//! All events, as one closed type. The store appends and the tail reads this type.
//!
//! An event's shape is a promise and never changes meaning. A new shape is a new version, with an
//! upcaster from the old one.

use cqrs_es::Aggregate;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::access::sign_in::{SignIn, SignInEvent};
use crate::access::{AccessToken, AccessTokenEvent, Key, KeyEvent};
use crate::activity::{Happening, Occurrence, OccurrenceEvent, Response, ResponseEvent};
use crate::delivery::replay::{Replay, ReplayEvent};
use crate::delivery::{Delivery, DeliveryEvent, Pause, PauseEvent, Repair, RepairEvent};
use crate::firm::{Firm, FirmEvent};
use crate::form::{Form, FormEvent};
use crate::invite::{Invite, InviteEvent, Person, PersonEvent};
use crate::notice::{NoticeSending, NoticeSendingEvent};
use crate::operations::{
    CheckpointSeries, CheckpointSeriesEvent, LateEntry, LateEntryEvent, Maintenance,
    MaintenanceEvent, Reading, ReadingEvent,
};
use crate::subscription::{Subscription, SubscriptionEvent, TargetTest, TargetTestEvent};

/// Defines the closed type over all streams from one list.
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
            /// All kinds of streams.
            pub const KINDS: &[&str] = &[$($aggregate::TYPE),+];

            /// Kind of the event's stream.
            #[must_use]
            pub fn aggregate_type(&self) -> &'static str {
                match self {
                    $(Self::$aggregate(_) => $aggregate::TYPE,)+
                }
            }

            /// Name of the event in the log.
            #[must_use]
            pub fn event_type(&self) -> &'static str {
                match self {
                    $(Self::$aggregate(event) => event.name(),)+
                }
            }

            /// Version of the event's shape.
            #[must_use]
            pub const fn version(&self) -> &'static str {
                match self {
                    $(Self::$aggregate(event) => event.version(),)+
                }
            }

            /// Reads a stored event that is upcast to its newest shape.
            ///
            /// # Errors
            /// [`UnreadableEvent`] for a kind, name or shape that this build does not know. A
            /// reader stops at such an event and reports it. An event is never skipped.
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

        /// Writes the JSON that the log keeps.
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
    /// The happening, if this event records an occurrence.
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
    CheckpointSeries(CheckpointSeriesEvent),
    AccessToken(AccessTokenEvent),
    Maintenance(MaintenanceEvent),
    TargetTest(TargetTestEvent),
    SignIn(SignInEvent),
    NoticeSending(NoticeSendingEvent),
    LateEntry(LateEntryEvent),
);

/// The stored event cannot be read by this build.
#[derive(Debug, thiserror::Error)]
pub enum UnreadableEvent {
    /// This build does not know the kind of stream.
    #[error("unknown kind of stream `{0}`")]
    UnknownAggregate(String),
    /// The payload has another event's name than the row.
    #[error("the payload is not a `{0}`")]
    Misnamed(String),
    /// The event is unknown, or its shape does not fit.
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
    fn unknown_streams_events_and_shapes_are_refused() {
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
