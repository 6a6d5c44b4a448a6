//! Upcasters read old shapes of events as new ones. The store and the tail share one list.

use cqrs_es::persist::{EventUpcaster, SerializedEvent};

/// The upcasters, oldest first.
pub struct Upcasters(Vec<Box<dyn EventUpcaster>>);

impl Upcasters {
    /// Returns the upcasters of this build. The list is empty, because every event still has its
    /// first shape.
    #[must_use]
    pub fn current() -> Self {
        Self(Vec::new())
    }

    /// Makes a list from these upcasters.
    #[must_use]
    pub fn new(list: Vec<Box<dyn EventUpcaster>>) -> Self {
        Self(list)
    }

    pub(crate) fn into_list(self) -> Vec<Box<dyn EventUpcaster>> {
        self.0
    }

    /// Returns whether an upcaster reads events of this name and version.
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
