//! Events of a firm's stream.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::notices::NoticeChange;
use super::report::{FirmBrand, MemberRole};
use crate::aggregate::domain_event;
use crate::subscription::FirmPlan;
use crate::values::Timestamp;

/// Event of a firm.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum FirmEvent {
    /// The firm signed up.
    FirmOpened {
        /// The firm's name.
        name: String,
        /// The firm's plan.
        plan: FirmPlan,
        /// The look of the firm's mails.
        brand: FirmBrand,
        /// Time of the report, by the product's clock.
        time: Timestamp,
    },
    /// Some settings changed. A null field did not change.
    FirmChanged {
        /// The new name.
        name: Option<String>,
        /// The new plan.
        plan: Option<FirmPlan>,
        /// The new look of the firm's mails.
        brand: Option<FirmBrand>,
        /// Whether the firm sends invites.
        invites_enabled: Option<bool>,
        /// Time of the report, by the product's clock.
        time: Timestamp,
    },
    /// The firm wants other notices.
    FirmNoticesChanged {
        /// The settings that change.
        notices: NoticeChange,
        /// Time of the report, by the product's clock.
        time: Timestamp,
    },
    /// The firm was suspended.
    FirmSuspended {
        /// Time of the report, by the product's clock.
        time: Timestamp,
    },
    /// The firm was resumed.
    FirmResumed {
        /// Time of the report, by the product's clock.
        time: Timestamp,
    },
    /// The firm was closed for good.
    FirmClosed {
        /// Time of the report, by the product's clock.
        time: Timestamp,
    },
    /// A member joined.
    MemberJoined {
        /// The member.
        member_id: Uuid,
        /// The member's role.
        role: MemberRole,
        /// Time of the report, by the product's clock.
        time: Timestamp,
    },
    /// A member has another role.
    MemberRoleChanged {
        /// The member.
        member_id: Uuid,
        /// The new role.
        role: MemberRole,
        /// Time of the report, by the product's clock.
        time: Timestamp,
    },
    /// A member may not sign in.
    MemberDisabled {
        /// The member.
        member_id: Uuid,
        /// Time of the report, by the product's clock.
        time: Timestamp,
    },
    /// A member may sign in again.
    MemberEnabled {
        /// The member.
        member_id: Uuid,
        /// Time of the report, by the product's clock.
        time: Timestamp,
    },
    /// A member left.
    MemberLeft {
        /// The member.
        member_id: Uuid,
        /// Time of the report, by the product's clock.
        time: Timestamp,
    },
    /// The webhook signing secret was shown.
    SecretRevealed {},
    /// A new webhook signing secret signs from this event on.
    SecretRotated {
        /// The reason, in the caller's words.
        reason: Option<String>,
    },
    /// The grace time of the closed firm is over. From this event on its personal data and secrets
    /// are dropped, and intake ignores activities about it (ruling 45, a closed firm's data).
    FirmDataDropped {},
}

domain_event!(FirmEvent {
    FirmOpened,
    FirmChanged,
    FirmNoticesChanged,
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
    FirmDataDropped,
});
