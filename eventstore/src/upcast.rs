//! Old shapes of events, read as new ones: one list, for the store and for the tail.

use cqrs_es::persist::{EventUpcaster, SerializedEvent};

/// Every upcaster there is, oldest first.
pub struct Upcasters(Vec<Box<dyn EventUpcaster>>);

impl Upcasters {
    /// Those of this build. None: every event still has its first shape.
    #[must_use]
    pub fn current() -> Self {
        Self(Vec::new())
    }

    /// A list of one's own.
    #[must_use]
    pub fn new(list: Vec<Box<dyn EventUpcaster>>) -> Self {
        Self(list)
    }

    pub(crate) fn into_list(self) -> Vec<Box<dyn EventUpcaster>> {
        self.0
    }

    /// Whether one of them reads events of this name and version.
    pub(crate) fn touch(&self, event_type: &str, event_version: &str) -> bool {
        self.0.iter().any(|upcaster| upcaster.can_upcast(event_type, event_version))
    }

    pub(crate) fn apply(&self, event: SerializedEvent) -> SerializedEvent {
        self.0.iter().fold(event, |event, upcaster| {
            if upcaster.can_upcast(&event.event_type, &event.event_version) {
                upcaster.upcast(event)
            } else {
                event
            }
        })
    }
}
