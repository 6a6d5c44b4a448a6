//! Reports about a firm and its members.

use serde::{Deserialize, Serialize};

use super::notices::NoticeChange;
use crate::subscription::FirmPlan;

/// Whether a firm may act (contract, Authentication 7; ruling 28).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FirmStatus {
    /// The firm is in business.
    Active,
    /// The firm is suspended, and its deliveries wait.
    Suspended,
    /// The firm is closed for good.
    Closed,
}

/// Role of a member in the firm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MemberRole {
    /// The owner manages keys.
    Owner,
    /// An admin manages keys.
    Admin,
    /// Any other member. They manage no keys.
    Member,
}

impl MemberRole {
    /// Whether members with this role create keys and see the signing secret (contract,
    /// Authentication 3 and 9).
    #[must_use]
    pub const fn manages(self) -> bool {
        match self {
            Self::Owner | Self::Admin => true,
            Self::Member => false,
        }
    }
}

/// The look of a firm's mails. The reply address is personal and is kept in the vault.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FirmBrand {
    /// A CSS colour.
    pub color: Option<String>,
    /// URL of the logo.
    pub logo_url: Option<String>,
}

/// A report about the firm.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FirmChange {
    /// The firm signed up.
    Opened {
        /// The firm's name.
        name: String,
        /// The firm's plan.
        plan: FirmPlan,
        /// The look of the firm's mails.
        brand: FirmBrand,
    },
    /// Some settings changed.
    Changed {
        /// The new name.
        name: Option<String>,
        /// The new plan.
        plan: Option<FirmPlan>,
        /// The new look of the firm's mails.
        brand: Option<FirmBrand>,
        /// Whether the firm sends invites.
        invites_enabled: Option<bool>,
        /// The notices that the firm wants.
        notices: NoticeChange,
    },
    /// The firm was suspended.
    Suspended,
    /// The firm was resumed.
    Resumed,
    /// The firm was closed for good.
    Closed,
}

/// A report about one member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemberChange {
    /// The member joined, with a role.
    Joined(MemberRole),
    /// The member has another role.
    RoleChanged(MemberRole),
    /// The member may not sign in.
    Disabled,
    /// The member may sign in again.
    Enabled,
    /// The member left the firm.
    Left,
}
