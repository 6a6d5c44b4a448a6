//! Limits that span streams: how many keys and subscriptions a firm has.
//!
//! Counted from the events themselves, in the transaction that appends them, so that a race for
//! the last place has one winner.

use crate::api_key::KEYS_PER_FIRM;
use crate::event::Event;
use crate::key::KeyEvent;
use crate::subscription::SubscriptionEvent;

/// What is counted per firm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Quota {
    /// Active API keys: 25 per firm (contract, section Limits).
    Keys,
    /// Subscriptions: 100 per firm (contract, section Limits).
    Hooks,
}

impl Quota {
    /// How many a firm may have.
    #[must_use]
    pub const fn limit(self) -> i32 {
        match self {
            Self::Keys => KEYS_PER_FIRM,
            Self::Hooks => 100,
        }
    }

    /// The name in the `quotas` table.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Keys => "keys",
            Self::Hooks => "hooks",
        }
    }

    /// By how much an event changes a count, if it does.
    #[must_use]
    pub const fn change(event: &Event) -> Option<(Self, i32)> {
        match event {
            Event::Key(KeyEvent::KeyCreated { .. }) => Some((Self::Keys, 1)),
            Event::Key(KeyEvent::KeyRevoked { .. }) => Some((Self::Keys, -1)),
            Event::Subscription(SubscriptionEvent::SubscriptionCreated { .. }) => {
                Some((Self::Hooks, 1))
            }
            Event::Subscription(SubscriptionEvent::SubscriptionRemoved { .. }) => {
                Some((Self::Hooks, -1))
            }
            Event::Subscription(
                SubscriptionEvent::TargetGone { .. } | SubscriptionEvent::TargetAnswered { .. },
            )
            | Event::Firm(_)
            | Event::Form(_)
            | Event::Occurrence(_)
            | Event::Delivery(_) => None,
        }
    }
}
