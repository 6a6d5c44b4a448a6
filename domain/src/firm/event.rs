//! What happened to a firm: the events of its stream.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{FirmBrand, MemberRole};
use crate::event::domain_event;
use crate::time::Timestamp;
use crate::trigger::FirmPlan;

/// What happened to a firm.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum FirmEvent {
    /// It signed up.
    FirmOpened {
        /// Its name.
        name: String,
        /// What it pays for.
        plan: FirmPlan,
        /// How its mails look.
        brand: FirmBrand,
        /// By the product's clock.
        time: Timestamp,
    },
    /// Some of its settings changed; what is null did not.
    FirmChanged {
        /// Its new name.
        name: Option<String>,
        /// Its new plan.
        plan: Option<FirmPlan>,
        /// Its new looks.
        brand: Option<FirmBrand>,
        /// Whether it sends invites.
        invites_enabled: Option<bool>,
        /// By the product's clock.
        time: Timestamp,
    },
    /// It was suspended.
    FirmSuspended {
        /// By the product's clock.
        time: Timestamp,
    },
    /// It is back.
    FirmResumed {
        /// By the product's clock.
        time: Timestamp,
    },
    /// It was closed for good.
    FirmClosed {
        /// By the product's clock.
        time: Timestamp,
    },
    /// A member joined.
    MemberJoined {
        /// Who.
        member_id: Uuid,
        /// With which role.
        role: MemberRole,
        /// By the product's clock.
        time: Timestamp,
    },
    /// A member has another role.
    MemberRoleChanged {
        /// Who.
        member_id: Uuid,
        /// The new role.
        role: MemberRole,
        /// By the product's clock.
        time: Timestamp,
    },
    /// A member may not sign in.
    MemberDisabled {
        /// Who.
        member_id: Uuid,
        /// By the product's clock.
        time: Timestamp,
    },
    /// A member may sign in again.
    MemberEnabled {
        /// Who.
        member_id: Uuid,
        /// By the product's clock.
        time: Timestamp,
    },
    /// A member left.
    MemberLeft {
        /// Who.
        member_id: Uuid,
        /// By the product's clock.
        time: Timestamp,
    },
    /// Somebody was shown the webhook signing secret.
    SecretRevealed {},
    /// From here on a new webhook signing secret signs.
    SecretRotated {
        /// Why, as whoever asked for it says.
        reason: Option<String>,
    },
}

domain_event!(FirmEvent {
    FirmOpened,
    FirmChanged,
    FirmSuspended,
    FirmResumed,
    FirmClosed,
    MemberJoined,
    MemberRoleChanged,
    MemberDisabled,
    MemberEnabled,
    MemberLeft,
    SecretRevealed,
    SecretRotated,
});
