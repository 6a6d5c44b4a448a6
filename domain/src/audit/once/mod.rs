//! A proof from the log alone that each subscription gets each occurrence once (contract, section
//! Delivery guarantees; invariant I1; ruling 30a). It finds the subscriptions that each occurrence
//! should list, and the faults of the deliveries.
//!
//! No delivery depends on this module. The match reads a table that changes with the append. This
//! module decides again from the events, so that a fault of either side shows.

mod course;
mod fault;

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use uuid::Uuid;

use crate::activity::{Happening, delivery_id, reissue_id};
use crate::delivery::{Consignment, DeliveryEvent, DeliveryOf, ReissuedDelivery};
use crate::event::EventContext;
use crate::subscription::{SubscriptionEvent, Trigger};
use crate::values::Timestamp;

pub use course::{QueuedFor, first_fault};
pub use fault::{DeliveryFault, DeliveryFaultKind};

/// A match may miss a subscription's creation or removal that is at most this old, because the two
/// transactions overlapped. No transaction lasts longer.
pub const OVERLAP_MAX: Duration = Duration::from_secs(60);

/// An occurrence at its position in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordedOccurrence<'a> {
    /// Id of the occurrence.
    pub occurrence_id: Uuid,
    /// Position of the occurrence.
    pub position: i64,
    /// Recording time of the occurrence.
    pub recorded_at: Timestamp,
    /// The firm.
    pub firm_id: Uuid,
    /// The occurrence's content, with the subscriptions that get it.
    pub happening: &'a Happening,
}

impl<'a> RecordedOccurrence<'a> {
    /// The occurrence with this id and position.
    #[must_use]
    pub const fn at(
        occurrence_id: Uuid,
        position: i64,
        context: &EventContext,
        happening: &'a Happening,
    ) -> Self {
        let EventContext { firm_id, recorded_at, .. } = *context;
        Self { occurrence_id, position, recorded_at, firm_id, happening }
    }

    /// Id of the occurrence's delivery to a subscription.
    #[must_use]
    pub fn delivery_id(&self, hook_id: Uuid) -> Uuid {
        delivery_id(self.occurrence_id, self.happening.happened_at, hook_id)
    }

    fn lists_hook(&self, hook_id: Uuid) -> bool {
        self.happening.hooks.contains(&hook_id)
    }
}

/// The life of a subscription in the log, between two positions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct SubscriptionLife {
    firm_id: Uuid,
    trigger: Trigger,
    form_id: Option<Uuid>,
    made_at: i64,
    removed_at: Option<i64>,
}

impl SubscriptionLife {
    /// Whether the match of this occurrence saw the subscription live.
    fn was_seen_by(&self, happened: &RecordedOccurrence<'_>) -> bool {
        let Happening { trigger, form_id, seen, silent, .. } = happened.happening;
        !silent
            && self.firm_id == happened.firm_id
            && self.trigger == *trigger
            && self.form_id.is_none_or(|of_form| of_form == *form_id)
            && self.made_at <= *seen
            && self.removed_at.is_none_or(|removed_at| *seen < removed_at)
    }

    /// Whether the subscription was removed after the occurrence's match and before its position.
    /// The occurrence's own transaction or an overlapping one removed it.
    fn ended_before(&self, happened: &RecordedOccurrence<'_>) -> bool {
        self.removed_at.is_some_and(|removed_at| removed_at < happened.position)
    }
}

/// How a delivery to a subscription began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeliveryBeginning<'a> {
    /// The occurrence lists the subscription.
    Listed(DeliveryOf),
    /// A repair queued the delivery.
    Repaired(&'a Consignment),
    /// An operator reissued the delivery.
    Anew(&'a ReissuedDelivery),
    /// The first event does not name the occurrence.
    Unsaid,
}

impl<'a> DeliveryBeginning<'a> {
    /// How the stream of a delivery begins. `None` for a workflow step.
    #[must_use]
    pub fn new(event: &'a DeliveryEvent) -> Option<Self> {
        let listed = |of: Option<DeliveryOf>| of.map_or(Self::Unsaid, Self::Listed);
        match event {
            DeliveryEvent::StepQueued(_) => None,
            DeliveryEvent::DeliveryQueued(consignment) => Some(Self::Repaired(consignment)),
            DeliveryEvent::DeliveryReissued(reissued) => Some(Self::Anew(reissued)),
            DeliveryEvent::DeliveryAttempted(attempt) => Some(listed(attempt.of)),
            DeliveryEvent::DeliveryCancelled { of, .. } => Some(listed(*of)),
            DeliveryEvent::StepRetried(_) | DeliveryEvent::DeliveryReplayed(_) => {
                Some(Self::Unsaid)
            }
        }
    }

    /// Occurrence and subscription, if the first event names them.
    #[must_use]
    pub const fn delivery_of(self) -> Option<DeliveryOf> {
        match self {
            Self::Listed(of) => Some(of),
            Self::Repaired(consignment) => Some(consignment.delivery_of()),
            Self::Anew(reissued) => Some(reissued.consignment.delivery_of()),
            Self::Unsaid => None,
        }
    }

    /// Id of the delivery by rule. An occurrence and a subscription have one, and each reissue
    /// request has one.
    fn id_by_rule(self, of: DeliveryOf, happened: &RecordedOccurrence<'_>) -> Uuid {
        match self {
            Self::Anew(reissued) => reissue_id(reissued.reissue_of, reissued.request_id),
            Self::Listed(_) | Self::Repaired(_) | Self::Unsaid => happened.delivery_id(of.hook_id),
        }
    }
}

/// All subscriptions that ever existed, by their own events.
#[derive(Debug, Default)]
pub struct SubscriptionLives {
    lives: HashMap<Uuid, SubscriptionLife>,
    by_firm_and_trigger: HashMap<(Uuid, Trigger), Vec<Uuid>>,
    /// Creation and removal times of each firm's subscriptions, by position.
    changes: BTreeMap<(Uuid, i64), Timestamp>,
}

/// An event of a subscription at its position in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordedChange<'a> {
    /// The subscription.
    pub hook_id: Uuid,
    /// The firm of the subscription.
    pub firm_id: Uuid,
    /// Position of the event.
    pub position: i64,
    /// Recording time of the event.
    pub recorded_at: Timestamp,
    /// The event.
    pub event: &'a SubscriptionEvent,
}

impl SubscriptionLives {
    /// Takes in an event of a subscription. The events of each subscription come in order.
    pub fn take_change(&mut self, change: RecordedChange<'_>) {
        let RecordedChange { hook_id, firm_id, position, recorded_at, event } = change;
        match event {
            SubscriptionEvent::SubscriptionCreated { trigger, form_id, .. } => {
                let trigger = *trigger;
                let life = SubscriptionLife {
                    firm_id,
                    trigger,
                    form_id: *form_id,
                    made_at: position,
                    removed_at: None,
                };
                if self.lives.insert(hook_id, life).is_none() {
                    self.by_firm_and_trigger.entry((firm_id, trigger)).or_default().push(hook_id);
                }
            }
            SubscriptionEvent::SubscriptionRemoved { .. } => {
                if let Some(life) = self.lives.get_mut(&hook_id) {
                    life.removed_at = life.removed_at.or(Some(position));
                }
            }
            SubscriptionEvent::TargetGone(_) | SubscriptionEvent::TargetAnswered { .. } => return,
        }
        self.changes.insert((firm_id, position), recorded_at);
    }

    /// Number of subscriptions.
    #[must_use]
    pub fn count(&self) -> usize {
        self.lives.len()
    }

    /// The subscriptions that an occurrence should list and does not.
    pub fn missing_hooks<'a>(
        &'a self,
        happened: &'a RecordedOccurrence<'_>,
    ) -> impl Iterator<Item = Uuid> + use<'a> {
        let of_trigger =
            self.by_firm_and_trigger.get(&(happened.firm_id, happened.happening.trigger));
        let all = of_trigger.map_or(&[][..], Vec::as_slice).iter().copied();
        all.filter(|hook_id| {
            !happened.lists_hook(*hook_id)
                && self
                    .lives
                    .get(hook_id)
                    .is_some_and(|life| life.was_seen_by(happened) && !life.ended_before(happened))
        })
    }

    /// The subscriptions that an occurrence lists and should not.
    pub fn unexpected_hooks<'a>(
        &'a self,
        happened: &'a RecordedOccurrence<'_>,
    ) -> impl Iterator<Item = Uuid> + use<'a> {
        let all = happened.happening.hooks.iter().copied();
        all.filter(|hook_id| !self.was_seen(*hook_id, happened))
    }

    /// Whether a creation or removal of the firm's subscriptions lies before an occurrence, and its
    /// match missed the change.
    #[must_use]
    pub fn match_overlap(&self, happened: &RecordedOccurrence<'_>) -> MatchOverlap {
        let after = (happened.firm_id, happened.happening.seen + 1);
        let Some((_, at)) = self.changes.range(after..(happened.firm_id, happened.position)).next()
        else {
            return MatchOverlap::None;
        };
        let age = happened.recorded_at.get() - at.get();
        if age.to_std().is_ok_and(|age| age > OVERLAP_MAX) {
            MatchOverlap::TooOld
        } else {
            MatchOverlap::Some
        }
    }

    fn was_seen(&self, hook_id: Uuid, happened: &RecordedOccurrence<'_>) -> bool {
        self.lives.get(&hook_id).is_some_and(|life| life.was_seen_by(happened))
    }

    /// The fault in the beginning of a delivery, if any. Its occurrence does not exist, its
    /// subscription does not get the occurrence, or the delivery is a second one.
    #[must_use]
    pub fn fault_of_beginning(
        &self,
        delivery_id: Uuid,
        begun: DeliveryBeginning<'_>,
        happened: Option<&RecordedOccurrence<'_>>,
    ) -> Option<DeliveryFault> {
        let (Some(of), Some(happened)) = (begun.delivery_of(), happened) else {
            return Some(DeliveryFault::OfNothing);
        };
        let may_get_it = happened.lists_hook(of.hook_id)
            || (!matches!(begun, DeliveryBeginning::Listed(_))
                && self.was_seen(of.hook_id, happened));
        if !may_get_it {
            return Some(DeliveryFault::ToNobody);
        }
        (delivery_id != begun.id_by_rule(of, happened)).then_some(DeliveryFault::Second)
    }
}

/// Whether a match missed changes of its firm's subscriptions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MatchOverlap {
    /// The match saw all changes.
    None,
    /// The match missed a change of an overlapping transaction. Either list is right (ruling 30a).
    Some,
    /// The match missed a change that is older than [`OVERLAP_MAX`].
    TooOld,
}

#[cfg(test)]
mod tests;
