//! Once per subscription, as a proof from the log alone (contract, section Delivery guarantees;
//! invariant I1, ruling 30a): whom each occurrence should list, and what is wrong with its deliveries.
//!
//! Nothing here is used to deliver. The match asks a table that changes with the append; this module
//! decides a second time, from the events, so that a fault in either shows.

mod course;

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use uuid::Uuid;

use crate::context::EventContext;
use crate::delivery::{Consignment, DeliveryEvent, DeliveryOf, ReissuedDelivery};
use crate::occurrence::{Happening, delivery_id, reissue_id};
use crate::subscription::SubscriptionEvent;
use crate::time::Timestamp;
use crate::trigger::Trigger;

pub use course::{QueuedFor, judge};

/// A match may miss a subscription's creation or removal that is no older than this: the two
/// transactions overlapped. No transaction lasts longer.
pub const OVERLAP_MAX: Duration = Duration::from_secs(60);

/// An occurrence at its place in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordedOccurrence<'a> {
    /// Its id.
    pub occurrence_id: Uuid,
    /// Its place.
    pub position: i64,
    /// When it was recorded.
    pub recorded_at: Timestamp,
    /// The firm.
    pub firm_id: Uuid,
    /// What happened, and the subscriptions that get it.
    pub happening: &'a Happening,
}

impl<'a> RecordedOccurrence<'a> {
    /// What was recorded at this place.
    #[must_use]
    pub const fn at(place: (Uuid, i64), context: &EventContext, happening: &'a Happening) -> Self {
        let (occurrence_id, position) = place;
        let EventContext { firm_id, recorded_at, .. } = *context;
        Self { occurrence_id, position, recorded_at, firm_id, happening }
    }

    /// The delivery of it to a subscription, by the rule.
    #[must_use]
    pub fn delivery_id(&self, hook_id: Uuid) -> Uuid {
        delivery_id(self.occurrence_id, self.happening.happened_at, hook_id)
    }

    fn lists(&self, hook_id: Uuid) -> bool {
        self.happening.hooks.contains(&hook_id)
    }
}

/// A subscription's life in the log: from one position to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct SubscriptionLife {
    firm_id: Uuid,
    trigger: Trigger,
    form_id: Option<Uuid>,
    made_at: i64,
    removed_at: Option<i64>,
}

impl SubscriptionLife {
    /// Whether the match of this occurrence saw it live.
    fn was_seen_by(&self, happened: &RecordedOccurrence<'_>) -> bool {
        let Happening { trigger, form_id, seen, silent, .. } = happened.happening;
        !silent
            && self.firm_id == happened.firm_id
            && self.trigger == *trigger
            && self.form_id.is_none_or(|of_form| of_form == *form_id)
            && self.made_at <= *seen
            && self.removed_at.is_none_or(|removed_at| *seen < removed_at)
    }

    /// Whether it was removed after the match of this occurrence and before its place in the log: the
    /// transaction itself removed it, or another that overlapped.
    fn ended_before(&self, happened: &RecordedOccurrence<'_>) -> bool {
        self.removed_at.is_some_and(|removed_at| removed_at < happened.position)
    }
}

/// How a delivery to a subscription began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeliveryBeginning<'a> {
    /// Its occurrence lists its subscription.
    Listed(DeliveryOf),
    /// A repair queued it.
    Repaired(&'a Consignment),
    /// An operator had it made anew.
    Anew(&'a ReissuedDelivery),
    /// Its first event does not say what it is of.
    Unsaid,
}

impl<'a> DeliveryBeginning<'a> {
    /// How the stream of a delivery begins; none if it is a workflow step's.
    #[must_use]
    pub fn of(event: &'a DeliveryEvent) -> Option<Self> {
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

    /// Its occurrence and subscription, if its first event says so.
    #[must_use]
    pub const fn delivery_of(self) -> Option<DeliveryOf> {
        match self {
            Self::Listed(of) => Some(of),
            Self::Repaired(consignment) => Some(consignment.of()),
            Self::Anew(reissued) => Some(reissued.consignment.of()),
            Self::Unsaid => None,
        }
    }

    /// The id it has by rule: one per occurrence and subscription, and one per request to make it anew.
    fn id(self, of: DeliveryOf, happened: &RecordedOccurrence<'_>) -> Uuid {
        match self {
            Self::Anew(reissued) => reissue_id(reissued.reissue_of, reissued.request_id),
            Self::Listed(_) | Self::Repaired(_) | Self::Unsaid => happened.delivery_id(of.hook_id),
        }
    }
}

/// All subscriptions there ever were, as their own events tell.
#[derive(Debug, Default)]
pub struct SubscriptionLives {
    lives: HashMap<Uuid, SubscriptionLife>,
    by_firm_and_trigger: HashMap<(Uuid, Trigger), Vec<Uuid>>,
    /// When each firm's subscriptions were made and removed, by position.
    changes: BTreeMap<(Uuid, i64), Timestamp>,
}

/// An event of a subscription at its place in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordedChange<'a> {
    /// The subscription.
    pub hook_id: Uuid,
    /// Its firm.
    pub firm_id: Uuid,
    /// The place.
    pub position: i64,
    /// When it was recorded.
    pub recorded_at: Timestamp,
    /// What happened to it.
    pub event: &'a SubscriptionEvent,
}

impl SubscriptionLives {
    /// Takes in what happened to a subscription; the events of each come in order.
    pub fn take(&mut self, change: RecordedChange<'_>) {
        let RecordedChange { hook_id, firm_id, position, recorded_at, event } = change;
        match event {
            SubscriptionEvent::SubscriptionCreated { trigger, form_id, .. } => {
                let (trigger, form_id) = (*trigger, *form_id);
                let life = SubscriptionLife {
                    firm_id,
                    trigger,
                    form_id,
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

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.lives.len()
    }

    /// The subscriptions that an occurrence should list, and does not.
    pub fn missing_hooks<'a>(
        &'a self,
        happened: &'a RecordedOccurrence<'_>,
    ) -> impl Iterator<Item = Uuid> + use<'a> {
        let of_trigger =
            self.by_firm_and_trigger.get(&(happened.firm_id, happened.happening.trigger));
        let all = of_trigger.map_or(&[][..], Vec::as_slice).iter().copied();
        all.filter(|hook_id| {
            !happened.lists(*hook_id)
                && self
                    .lives
                    .get(hook_id)
                    .is_some_and(|life| life.was_seen_by(happened) && !life.ended_before(happened))
        })
    }

    /// The subscriptions that an occurrence lists, and should not.
    pub fn unexpected_hooks<'a>(
        &'a self,
        happened: &'a RecordedOccurrence<'_>,
    ) -> impl Iterator<Item = Uuid> + use<'a> {
        let all = happened.happening.hooks.iter().copied();
        all.filter(|hook_id| !self.was_seen(*hook_id, happened))
    }

    /// Whether a subscription of the firm was made or removed before an occurrence, and its match did
    /// not see it.
    #[must_use]
    pub fn overlap(&self, happened: &RecordedOccurrence<'_>) -> MatchOverlap {
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

    /// What is wrong with the beginning of a delivery, if anything is: nothing happened that it could
    /// tell of, its subscription does not get it, or it is a second one of the same to the same.
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
        let may_get_it = happened.lists(of.hook_id)
            || (!matches!(begun, DeliveryBeginning::Listed(_))
                && self.was_seen(of.hook_id, happened));
        if !may_get_it {
            return Some(DeliveryFault::ToNobody);
        }
        (delivery_id != begun.id(of, happened)).then_some(DeliveryFault::Second)
    }
}

/// Whether a match missed changes of its firm's subscriptions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MatchOverlap {
    /// It saw all of them.
    None,
    /// It missed one whose transaction may have overlapped: either is right (ruling 30a).
    Some,
    /// It missed one that is older than [`OVERLAP_MAX`].
    TooOld,
}

/// What a delivery can be wrong in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeliveryFault {
    /// Its occurrence's match saw the subscription live, and does not list it.
    Missing,
    /// The match of an occurrence missed a change of the firm's subscriptions that was long committed.
    Unseen,
    /// It is not the one that the rule names for its occurrence and its subscription.
    Second,
    /// It succeeded so often.
    Successes(u32),
    /// It was tried more often than it may be: so often, of so many.
    Tries(u32, u32),
    /// A replay tried it more than once, or was never asked to.
    Replay(Uuid),
    /// It was tried or taken back after its end.
    AfterTheEnd,
    /// It has ended, and is queued to be sent all the same.
    StillQueued,
    /// Its occurrence is not in the log.
    OfNothing,
    /// Its occurrence does not list its subscription, or should not.
    ToNobody,
    /// It is queued, and the log knows of no such delivery.
    Unknown,
    /// It waits for a try, and is not queued: nobody will send it.
    Lost,
    /// A replay says that it is queued once more, and it is not: nobody will send it.
    ReplayLost(Uuid),
}

/// The kinds of what can be wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DeliveryFaultKind {
    /// Somebody does not hear of it.
    Missing,
    /// Somebody hears of it, or may hear of it, more than once.
    Doubled,
    /// It belongs to nothing.
    Orphaned,
    /// It waits for a try that nobody will make.
    Lost,
}

impl DeliveryFaultKind {
    /// All there are.
    pub const ALL: [Self; 4] = [Self::Missing, Self::Doubled, Self::Orphaned, Self::Lost];

    /// The word for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Doubled => "doubled",
            Self::Orphaned => "orphaned",
            Self::Lost => "lost",
        }
    }
}

impl DeliveryFault {
    /// Of which kind it is.
    #[must_use]
    pub const fn kind(self) -> DeliveryFaultKind {
        match self {
            Self::Missing | Self::Unseen => DeliveryFaultKind::Missing,
            Self::Second
            | Self::Successes(_)
            | Self::Tries(..)
            | Self::Replay(_)
            | Self::AfterTheEnd
            | Self::StillQueued => DeliveryFaultKind::Doubled,
            Self::OfNothing | Self::ToNobody | Self::Unknown => DeliveryFaultKind::Orphaned,
            Self::Lost | Self::ReplayLost(_) => DeliveryFaultKind::Lost,
        }
    }
}

impl std::fmt::Display for DeliveryFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Missing => f.write_str("the match saw the subscription and does not list it"),
            Self::Unseen => f.write_str("the match missed a change of the firm's subscriptions"),
            Self::Second => f.write_str("a second delivery of one occurrence to one subscription"),
            Self::Successes(times) => write!(f, "it succeeded {times} times"),
            Self::Tries(made, allowed) => write!(f, "{made} tries, of {allowed} at most"),
            Self::Replay(id) => write!(f, "a try of replay {id} that the replay did not order"),
            Self::AfterTheEnd => f.write_str("something follows its end"),
            Self::StillQueued => f.write_str("it has ended and is queued all the same"),
            Self::OfNothing => f.write_str("its occurrence is not in the log"),
            Self::ToNobody => f.write_str("its subscription should not get it"),
            Self::Unknown => f.write_str("it is queued and the log lists no such delivery"),
            Self::Lost => f.write_str("it waits for a try and is not queued"),
            Self::ReplayLost(id) => write!(f, "replay {id} has queued it, and it is not queued"),
        }
    }
}

#[cfg(test)]
mod tests;
