//! Parts that all aggregates share: the connection with cqrs-es, names and versions of events, ids
//! that follow from rules, and reports of state.

pub(crate) mod state_report;

use uuid::Uuid;

pub use state_report::{ReportEffect, TIME_AHEAD_MAX, is_too_far_ahead};

/// Version of every event whose shape never changed.
pub const FIRST_VERSION: &str = "1.0";

/// Defines the names and versions of an event enum. An event's name in the log is its variant's. A
/// variant without a version has the first one.
macro_rules! domain_event {
    (@version) => { crate::aggregate::FIRST_VERSION };
    (@version $version:expr) => { $version };
    ($event:ident { $($variant:ident $(= $version:expr)?),+ $(,)? }) => {
        impl $event {
            /// Name of the event in the log.
            #[must_use]
            pub fn name(&self) -> &'static str {
                match self {
                    $(Self::$variant { .. } => stringify!($variant),)+
                }
            }

            /// Names of all events of this stream.
            pub const NAMES: &'static [&'static str] = &[$(stringify!($variant)),+];

            /// Version of the event's shape.
            #[must_use]
            pub const fn version(&self) -> &'static str {
                match self {
                    $(Self::$variant { .. } => domain_event!(@version $($version)?),)+
                }
            }
        }

        impl cqrs_es::DomainEvent for $event {
            fn event_type(&self) -> String {
                self.name().to_owned()
            }

            fn event_version(&self) -> String {
                self.version().to_owned()
            }
        }
    };
}

/// Connects an aggregate's pure `decide` and `absorb` with cqrs-es.
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

/// Aggregates whose commands are never refused. A repeated command changes nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NeverRefused {}

/// Namespace of all ids that follow from rules. A change would record every occurrence a second
/// time.
const NAMESPACE: Uuid = Uuid::from_u128(0x6f2d_5b1e_9c0a_4e8b_a7d3_1f64_20c9_8e5d);

/// Id of an event, from its stream and its sequence there.
#[must_use]
pub fn event_id(aggregate_type: &str, aggregate_id: &str, sequence: i64) -> Uuid {
    id_of_rule(&format!("event|{aggregate_type}|{aggregate_id}|{sequence}"))
}

/// Id that a rule gives to a name. Equal names have equal ids.
pub(crate) fn id_of_rule(name: &str) -> Uuid {
    Uuid::new_v5(&NAMESPACE, name.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_event_has_its_own_id() {
        assert_ne!(event_id("Key", "a", 1), event_id("Key", "a", 2));
    }
}
