//! Limits that span streams: keys and subscriptions of a firm, and invites of a day.
//!
//! The transaction that appends events counts from those events, so that a race for the last free
//! number has one winner.

use chrono::NaiveDate;

use super::all::Event;
use crate::access::{KEYS_PER_FIRM, KeyEvent};
use crate::invite::{INVITES_PER_DAY, InviteEvent, InviteOf};
use crate::subscription::SubscriptionEvent;

/// A counted limit per firm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Quota {
    /// Active API keys, 25 per firm (contract, section Limits).
    Keys,
    /// Subscriptions, 100 per firm (contract, section Limits).
    Hooks,
    /// Form invites of a UTC day, 300 per firm (contract, section Limits).
    Invites,
}

/// Change of a count by an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuotaChange {
    /// The quota.
    pub quota: Quota,
    /// The day of the count. `None` if the quota has no day.
    pub day: Option<NaiveDate>,
    /// The difference.
    pub by: i32,
}

impl Quota {
    /// Largest count of a firm.
    #[must_use]
    pub const fn limit(self) -> i32 {
        match self {
            Self::Keys => KEYS_PER_FIRM,
            Self::Hooks => 100,
            Self::Invites => INVITES_PER_DAY,
        }
    }

    /// The name in the `quotas` table.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Keys => "keys",
            Self::Hooks => "hooks",
            Self::Invites => "invites",
        }
    }

    /// The change that an event makes, if any.
    #[must_use]
    pub const fn change_from(event: &Event) -> Option<QuotaChange> {
        match event {
            Event::Key(KeyEvent::KeyCreated { .. }) => Some(Self::Keys.change_by(1)),
            Event::Key(KeyEvent::KeyRevoked { .. }) => Some(Self::Keys.change_by(-1)),
            Event::Subscription(SubscriptionEvent::SubscriptionCreated { .. }) => {
                Some(Self::Hooks.change_by(1))
            }
            Event::Subscription(SubscriptionEvent::SubscriptionRemoved { .. }) => {
                Some(Self::Hooks.change_by(-1))
            }
            Event::Invite(InviteEvent::InviteReserved(of)) => Some(invite_change(of, 1)),
            Event::Invite(InviteEvent::InviteRefused(of) | InviteEvent::InviteReleased(of)) => {
                Some(invite_change(of, -1))
            }
            Event::Subscription(
                SubscriptionEvent::TargetGone { .. } | SubscriptionEvent::TargetAnswered { .. },
            )
            | Event::Invite(InviteEvent::InviteSent(_))
            | Event::Firm(_)
            | Event::Form(_)
            | Event::Occurrence(_)
            | Event::Delivery(_)
            | Event::Person(_)
            | Event::Response(_)
            | Event::Reading(_)
            | Event::Replay(_)
            | Event::Pause(_)
            | Event::Repair(_)
            | Event::LateEntry(_)
            | Event::CheckpointSeries(_)
            | Event::AccessToken(_)
            | Event::Maintenance(_)
            | Event::TargetTest(_)
            | Event::SignIn(_)
            | Event::NoticeSending(_) => None,
        }
    }

    const fn change_by(self, by: i32) -> QuotaChange {
        QuotaChange { quota: self, day: None, by }
    }
}

const fn invite_change(of: &InviteOf, by: i32) -> QuotaChange {
    QuotaChange { quota: Quota::Invites, day: Some(of.day), by }
}
