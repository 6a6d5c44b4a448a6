//! Occurrences, each recorded once by its trigger's rule, however often the product reports the
//! activity (contract, section Delivery guarantees).

use serde::{Deserialize, Serialize};
use uuid::{Builder, Uuid, Version};

use crate::aggregate::{NeverRefused, aggregate, domain_event, id_of_rule};
use crate::subscription::Trigger;
use crate::values::Timestamp;

/// Id of an occurrence, equal for all reports of the occurrence.
#[must_use]
pub fn occurrence_id(firm_id: Uuid, trigger: Trigger, key: &str) -> Uuid {
    id_of_rule(&format!("v1|{firm_id}|{}|{key}", trigger.key()))
}

/// Id of the delivery of an occurrence to a subscription, by this service's own rule (RFC 9562,
/// version 8).
///
/// The first six bytes are the occurrence's time by the product's clock, in milliseconds since
/// 1970. So deliveries of one time are neighbours in every index. The rest is a UUIDv5 of
/// occurrence and subscription. An occurrence that is reported again after a restore has equal
/// deliveries (ruling 41).
#[must_use]
pub fn delivery_id(occurrence_id: Uuid, happened_at: Timestamp, hook_id: Uuid) -> Uuid {
    let mut bytes = Uuid::new_v5(&occurrence_id, hook_id.as_bytes()).into_bytes();
    let [.., a, b, c, d, e, f] = happened_at.get().timestamp_millis().to_be_bytes();
    bytes[..6].copy_from_slice(&[a, b, c, d, e, f]);
    Builder::from_bytes(bytes).with_version(Version::Custom).into_uuid()
}

/// Id of a delivery that is reissued from another, one per request.
#[must_use]
pub fn reissue_id(delivery_id: Uuid, request_id: Uuid) -> Uuid {
    Uuid::new_v5(&delivery_id, request_id.as_bytes())
}

/// Aggregate of one occurrence. Its stream has one event.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Occurrence {
    recorded: bool,
}

/// Command on an occurrence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OccurrenceCommand {
    /// Records the occurrence, if it is new.
    Record(Happening),
}

/// An occurrence's content, and the subscriptions that get it. The append that records an
/// occurrence fills in `hooks` and `seen`. The fields are in alphabetical order, so that the JSON
/// is written in canonical form (RFC 8785).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Happening {
    /// The booking of the occurrence, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub booking_id: Option<Uuid>,
    /// The form of the occurrence.
    pub form_id: Uuid,
    /// Time of the occurrence, by the product's clock.
    pub happened_at: Timestamp,
    /// The subscriptions that get the occurrence, ordered by id. The match in the appending
    /// transaction saw exactly these (ruling 30a). There are at most 100 (contract, section
    /// Limits).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hooks: Vec<Uuid>,
    /// The report of the occurrence, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report_id: Option<Uuid>,
    /// The response of the occurrence.
    pub response_id: Uuid,
    /// Position of the last creation or removal of a subscription of the firm that the match saw. 0
    /// before the first.
    pub seen: i64,
    /// Whether no subscription gets the occurrence, because the firm's plan lacked the trigger.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub silent: bool,
    /// The trigger of the occurrence.
    pub trigger: Trigger,
}

impl Happening {
    /// Ids of the deliveries with their subscriptions. `occurrence_id` is the occurrence's own id.
    pub fn deliveries(&self, occurrence_id: Uuid) -> impl Iterator<Item = (Uuid, Uuid)> + '_ {
        let delivery_to = move |hook_id| delivery_id(occurrence_id, self.happened_at, hook_id);
        self.hooks.iter().map(move |hook_id| (delivery_to(*hook_id), *hook_id))
    }
}

/// Event of an occurrence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum OccurrenceEvent {
    /// The occurrence happened.
    OccurrenceRecorded(Happening),
}

domain_event!(OccurrenceEvent { OccurrenceRecorded });
aggregate!(Occurrence, OccurrenceCommand, OccurrenceEvent, NeverRefused);

impl Occurrence {
    /// Decides on the events that follow from a report: one the first time, none later.
    pub fn decide(
        &self,
        OccurrenceCommand::Record(happening): &OccurrenceCommand,
    ) -> Result<Vec<OccurrenceEvent>, NeverRefused> {
        if self.recorded {
            return Ok(Vec::new());
        }
        Ok(vec![OccurrenceEvent::OccurrenceRecorded(happening.clone())])
    }

    fn absorb(&mut self, OccurrenceEvent::OccurrenceRecorded(_): &OccurrenceEvent) {
        self.recorded = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cqrs_es::test::TestFramework;

    fn happening() -> Happening {
        Happening {
            trigger: Trigger::FormSubmitted,
            form_id: Uuid::from_u128(1),
            response_id: Uuid::from_u128(2),
            report_id: None,
            booking_id: None,
            hooks: Vec::new(),
            seen: 0,
            silent: false,
            happened_at: "2026-11-01T00:00:00.000Z".parse().unwrap(),
        }
    }

    #[test]
    fn an_occurrence_is_recorded_once() {
        let report = OccurrenceCommand::Record(happening());
        let recorded = OccurrenceEvent::OccurrenceRecorded(happening());
        TestFramework::<Occurrence>::with(())
            .given_no_previous_events()
            .when(report.clone())
            .then_expect_events(vec![recorded.clone()]);
        TestFramework::<Occurrence>::with(())
            .given(vec![recorded])
            .when(report)
            .then_expect_events(vec![]);
    }

    /// The rule fixes the id, and each part changes it.
    #[test]
    fn an_occurrences_id_follows_from_its_parts() {
        let (one, two) = (Uuid::from_u128(1), Uuid::from_u128(2));
        let id = occurrence_id(one, Trigger::FormSubmitted, "a");
        assert_eq!(id, occurrence_id(one, Trigger::FormSubmitted, "a"));
        assert_eq!(id.to_string(), "f7cf37b2-dbf0-585e-afd6-9ec13ec0b42d");
        assert_ne!(id, occurrence_id(two, Trigger::FormSubmitted, "a"));
        assert_ne!(id, occurrence_id(one, Trigger::LeadHot, "a"));
        assert_ne!(id, occurrence_id(one, Trigger::FormSubmitted, "b"));
    }

    /// The rule fixes the id, which begins with the time of the occurrence.
    #[test]
    fn delivery_ids_sort_by_the_occurrences_time() {
        let (occurrence, one, two) = (Uuid::from_u128(1), Uuid::from_u128(2), Uuid::from_u128(3));
        let at = |text: &str, hook_id| delivery_id(occurrence, text.parse().unwrap(), hook_id);
        let noon = "2026-11-01T12:00:00.000Z";
        let id = at(noon, one);
        assert_eq!(id.to_string(), "01a196fb-1600-84eb-a4d2-4ba6b70a12f0");
        assert_ne!(id, at(noon, two));
        assert_ne!(id, delivery_id(one, noon.parse().unwrap(), one));
        let later = "2026-11-01T12:00:00.001Z";
        assert!(id.max(at(noon, two)) < at(later, one).min(at(later, two)));
        let happening =
            Happening { hooks: vec![one, two], happened_at: noon.parse().unwrap(), ..happening() };
        let deliveries: Vec<_> = happening.deliveries(occurrence).collect();
        assert_eq!(deliveries, [(id, one), (at(noon, two), two)]);
    }
}
