//! Once per subscription, as a proof from the log alone (contract, section Delivery guarantees;
//! invariant I1, ruling 30): who should have heard of what, and what is wrong with what was queued.
//!
//! Nothing here is used to deliver. Fan-out asks a table that changes with the append; what is decided
//! here is decided a second time, from the events, so that a fault in either shows.

mod course;

use std::collections::HashMap;

use uuid::Uuid;

use crate::context::Context;
use crate::delivery::{Consignment, DeliveryEvent, Reissued};
use crate::occurrence::{Happening, delivery_id, reissue_id};
use crate::subscription::SubscriptionEvent;
use crate::time::Timestamp;
use crate::trigger::Trigger;

pub use course::{Queued, judge};

/// An occurrence at its place in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Happened {
    /// Its id.
    pub occurrence_id: Uuid,
    /// Its place.
    pub position: i64,
    /// When it was recorded.
    pub recorded_at: Timestamp,
    /// The firm.
    pub firm_id: Uuid,
    /// The trigger.
    pub trigger: Trigger,
    /// The form it is about.
    pub form_id: Uuid,
    /// Whether it was used up without telling anybody.
    pub silent: bool,
}

impl Happened {
    /// What was recorded at this place.
    #[must_use]
    pub const fn at(place: (Uuid, i64), context: &Context, happening: &Happening) -> Self {
        let (occurrence_id, position) = place;
        let Context { firm_id, recorded_at, .. } = *context;
        let Happening { trigger, form_id, silent, .. } = *happening;
        Self { occurrence_id, position, recorded_at, firm_id, trigger, form_id, silent }
    }

    /// The delivery of it to a subscription, by the rule.
    #[must_use]
    pub fn delivery_id(&self, hook_id: Uuid) -> Uuid {
        delivery_id((self.occurrence_id, self.recorded_at), hook_id)
    }
}

/// A subscription's life in the log: from one position to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Life {
    firm_id: Uuid,
    trigger: Trigger,
    form_id: Option<Uuid>,
    made_at: i64,
    removed_at: Option<i64>,
}

impl Life {
    fn hears_of(&self, happened: &Happened) -> bool {
        !happened.silent
            && self.firm_id == happened.firm_id
            && self.trigger == happened.trigger
            && self.form_id.is_none_or(|form_id| form_id == happened.form_id)
            && self.made_at < happened.position
            && self.removed_at.is_none_or(|removed_at| happened.position < removed_at)
    }
}

/// How a delivery to a subscription began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Beginning<'a> {
    /// It was queued by what happened.
    Queued(&'a Consignment),
    /// An operator had it made anew.
    Anew(&'a Reissued),
}

impl<'a> Beginning<'a> {
    /// How the stream of a delivery begins; none if it is not to a subscription.
    #[must_use]
    pub const fn of(event: &'a DeliveryEvent) -> Option<Self> {
        match event {
            DeliveryEvent::DeliveryQueued(consignment) => Some(Self::Queued(consignment)),
            DeliveryEvent::DeliveryReissued(reissued) => Some(Self::Anew(reissued)),
            _ => None,
        }
    }

    /// What it tells of, to whom.
    #[must_use]
    pub const fn consignment(self) -> &'a Consignment {
        match self {
            Self::Queued(consignment) => consignment,
            Self::Anew(reissued) => &reissued.consignment,
        }
    }

    /// The id it has by rule: one per occurrence and subscription, and one per request to make it anew.
    fn id(self, happened: &Happened) -> Uuid {
        match self {
            Self::Queued(of) => happened.delivery_id(of.hook_id),
            Self::Anew(reissued) => reissue_id(reissued.reissue_of, reissued.request_id),
        }
    }
}

/// All subscriptions there ever were, as their own events tell.
#[derive(Debug, Default)]
pub struct Lives {
    lives: HashMap<Uuid, Life>,
    of: HashMap<(Uuid, Trigger), Vec<Uuid>>,
}

impl Lives {
    /// Takes in what happened to a subscription of a firm at a place in the log; its events come in
    /// order.
    pub fn take(&mut self, hook_id: Uuid, place: (Uuid, i64), event: &SubscriptionEvent) {
        let (firm_id, position) = place;
        match event {
            SubscriptionEvent::SubscriptionCreated { trigger, form_id, .. } => {
                let (trigger, form_id) = (*trigger, *form_id);
                let life = Life { firm_id, trigger, form_id, made_at: position, removed_at: None };
                if self.lives.insert(hook_id, life).is_none() {
                    self.of.entry((firm_id, trigger)).or_default().push(hook_id);
                }
            }
            SubscriptionEvent::SubscriptionRemoved { .. } => {
                if let Some(life) = self.lives.get_mut(&hook_id) {
                    life.removed_at = life.removed_at.or(Some(position));
                }
            }
            SubscriptionEvent::TargetGone(_) | SubscriptionEvent::TargetAnswered { .. } => {}
        }
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.lives.len()
    }

    /// The subscriptions that hear of it.
    pub fn hearing_of<'a>(&'a self, happened: &'a Happened) -> impl Iterator<Item = Uuid> + 'a {
        let of_trigger = self.of.get(&(happened.firm_id, happened.trigger));
        let all = of_trigger.map_or(&[][..], Vec::as_slice).iter().copied();
        all.filter(|hook_id| self.hears_of(*hook_id, happened))
    }

    fn hears_of(&self, hook_id: Uuid, happened: &Happened) -> bool {
        self.lives.get(&hook_id).is_some_and(|life| life.hears_of(happened))
    }

    /// What is wrong with the beginning of a delivery, if anything is: nothing happened that it could
    /// tell of, nobody subscribed there, or it is a second one of the same to the same.
    #[must_use]
    pub fn beginning(
        &self,
        delivery: Uuid,
        begun: Beginning<'_>,
        happened: Option<&Happened>,
    ) -> Option<Wrong> {
        let Some(happened) = happened else {
            return Some(Wrong::OfNothing);
        };
        if !self.hears_of(begun.consignment().hook_id, happened) {
            return Some(Wrong::ToNobody);
        }
        (delivery != begun.id(happened)).then_some(Wrong::Second)
    }
}

/// What a delivery can be wrong in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wrong {
    /// A subscription that lived when it happened has none, though fan-out is past it.
    Missing,
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
    /// Its subscription did not live when it happened.
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
pub enum Kind {
    /// Somebody does not hear of it.
    Missing,
    /// Somebody hears of it, or may hear of it, more than once.
    Doubled,
    /// It belongs to nothing.
    Orphaned,
    /// It waits for a try that nobody will make.
    Lost,
}

impl Kind {
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

impl Wrong {
    /// Of which kind it is.
    #[must_use]
    pub const fn kind(self) -> Kind {
        match self {
            Self::Missing => Kind::Missing,
            Self::Second
            | Self::Successes(_)
            | Self::Tries(..)
            | Self::Replay(_)
            | Self::AfterTheEnd
            | Self::StillQueued => Kind::Doubled,
            Self::OfNothing | Self::ToNobody | Self::Unknown => Kind::Orphaned,
            Self::Lost | Self::ReplayLost(_) => Kind::Lost,
        }
    }
}

impl std::fmt::Display for Wrong {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Missing => f.write_str("the subscription lived there and has no delivery"),
            Self::Second => f.write_str("a second delivery of one occurrence to one subscription"),
            Self::Successes(times) => write!(f, "it succeeded {times} times"),
            Self::Tries(made, allowed) => write!(f, "{made} tries, of {allowed} at most"),
            Self::Replay(id) => write!(f, "a try of replay {id} that the replay did not order"),
            Self::AfterTheEnd => f.write_str("something follows its end"),
            Self::StillQueued => f.write_str("it has ended and is queued all the same"),
            Self::OfNothing => f.write_str("its occurrence is not in the log"),
            Self::ToNobody => f.write_str("its subscription did not live there"),
            Self::Unknown => f.write_str("it is queued and not in the log"),
            Self::Lost => f.write_str("it waits for a try and is not queued"),
            Self::ReplayLost(id) => write!(f, "replay {id} has queued it, and it is not queued"),
        }
    }
}

#[cfg(test)]
mod tests;
