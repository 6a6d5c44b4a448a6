//! Upcasters read old shapes of events as new ones. The store and the tail share one list.

use cqrs_es::persist::{EventUpcaster, SemanticVersionEventUpcaster, SerializedEvent};
use domain::aggregate::FIRST_VERSION;
use domain::delivery::workflow::{STEP_VERSION, upcast_order};
use domain::subscription::{CREATED_VERSION, upcast_created};
use serde_json::Value;

/// The upcasters, oldest first.
pub struct Upcasters(Vec<Box<dyn EventUpcaster>>);

impl Upcasters {
    /// Returns the upcasters of this build.
    #[must_use]
    pub fn current() -> Self {
        Self(vec![
            upcaster("StepQueued", STEP_VERSION, |event| {
                event.get_mut("StepQueued").map(upcast_order)
            }),
            upcaster("StepRetried", STEP_VERSION, |event| {
                event.get_mut("StepRetried")?.get_mut("order").map(upcast_order)
            }),
            upcaster("SubscriptionCreated", CREATED_VERSION, |event| {
                event.get_mut("SubscriptionCreated").map(upcast_created)
            }),
        ])
    }

    /// Makes a list from these upcasters.
    #[must_use]
    pub fn new(list: Vec<Box<dyn EventUpcaster>>) -> Self {
        Self(list)
    }

    pub(crate) fn into_list(self) -> Vec<Box<dyn EventUpcaster>> {
        self.0
    }

    /// Returns whether an upcaster reads events of this name and version. Every old version is the
    /// first one so far; an upcaster alone would also read versions that no build has written.
    pub(crate) fn reads_version(&self, event_type: &str, event_version: &str) -> bool {
        event_version == FIRST_VERSION
            && self.0.iter().any(|upcaster| upcaster.can_upcast(event_type, event_version))
    }

    pub(crate) fn apply_all(&self, event: SerializedEvent) -> SerializedEvent {
        self.0.iter().fold(event, |event, upcaster| {
            if upcaster.can_upcast(&event.event_type, &event.event_version) {
                upcaster.upcast(event)
            } else {
                event
            }
        })
    }
}

/// An upcaster to this version. `rewrite` changes the stored JSON, or returns `None` if a part is
/// missing; the event then cannot be read.
fn upcaster(
    event_type: &str,
    version: &str,
    rewrite: fn(&mut Value) -> Option<()>,
) -> Box<dyn EventUpcaster> {
    let upcast = move |mut event: Value| {
        rewrite(&mut event);
        event
    };
    Box::new(SemanticVersionEventUpcaster::new(event_type, version, Box::new(upcast)))
}
