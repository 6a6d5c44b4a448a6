//! An event, before its append and in the log.

use std::collections::HashMap;

use cqrs_es::persist::SerializedEvent;
use domain::aggregate::event_id;
use domain::audit::EventPlace;
use domain::event::{Event, EventContext};
use uuid::Uuid;

use crate::error::AppendError;

/// An event that a caller wants to append.
#[derive(Debug, Clone, PartialEq)]
pub struct NewEvent {
    /// The id of the stream.
    pub aggregate_id: String,
    /// The sequence: one more than that of the stream's last event.
    pub sequence: i64,
    /// The content of the event.
    pub event: Event,
    /// The actor, the firm and the time of the event.
    pub context: EventContext,
}

impl NewEvent {
    /// Returns the id that the event will have.
    #[must_use]
    pub fn id(&self) -> Uuid {
        event_id(self.event.aggregate_type(), &self.aggregate_id, self.sequence)
    }

    /// Numbers the events of one command, after the last event of their stream.
    pub fn number_after<E: Into<Event>>(
        last_sequence: i64,
        aggregate_id: &str,
        context: &EventContext,
        events: impl IntoIterator<Item = E>,
    ) -> Vec<Self> {
        (last_sequence + 1..)
            .zip(events)
            .map(|(sequence, event)| Self {
                aggregate_id: aggregate_id.to_owned(),
                sequence,
                event: event.into(),
                context: context.clone(),
            })
            .collect()
    }

    pub(crate) fn from_serialized(event: &SerializedEvent) -> Result<Self, AppendError> {
        let unreadable = |error: String| AppendError::Unreadable(error);
        let metadata: HashMap<String, String> = serde_json::from_value(event.metadata.clone())
            .map_err(|error| unreadable(error.to_string()))?;
        let context =
            EventContext::from_map(&metadata).map_err(|error| unreadable(error.to_string()))?;
        let body =
            Event::from_payload(&event.aggregate_type, &event.event_type, event.payload.clone())
                .map_err(|error| unreadable(error.to_string()))?;
        let sequence =
            i64::try_from(event.sequence).map_err(|error| unreadable(error.to_string()))?;
        Ok(Self { aggregate_id: event.aggregate_id.clone(), sequence, event: body, context })
    }
}

/// An event that the log has.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordedEvent {
    /// The position in the log.
    pub position: i64,
    /// The stored digest.
    pub digest: [u8; 32],
    /// The id of the stream.
    pub aggregate_id: String,
    /// The sequence in the stream.
    pub sequence: i64,
    /// The content of the event.
    pub event: Event,
    /// The actor, the firm and the time of the event.
    pub context: EventContext,
}

impl RecordedEvent {
    /// Returns the id of the event. It is computed from the stream and the sequence. No column
    /// stores it.
    #[must_use]
    pub fn id(&self) -> Uuid {
        event_id(self.event.aggregate_type(), &self.aggregate_id, self.sequence)
    }

    /// Returns the place of the event.
    #[must_use]
    pub fn place(&self) -> EventPlace {
        EventPlace { position: self.position, firm_id: self.context.firm_id, event_id: self.id() }
    }
}
