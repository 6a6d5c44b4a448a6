//! A firm and its members, as the product reports them (contract, Authentication 3, 5 and 7).
//!
//! The product sends reports of state. For the firm and for each member the newest `time` wins. An
//! older or repeated report is accepted and changes nothing. `time` may be cut to whole seconds, so
//! among reports with one `time` the last one wins.

mod event;

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::event::aggregate;
use crate::time::Timestamp;
use crate::trigger::FirmPlan;

pub use event::FirmEvent;

/// Aggregate of one firm. Each firm has a stream of its own.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Firm {
    status: Option<FirmStatus>,
    time: Option<Timestamp>,
    /// The last reported change.
    changed: Option<FirmEvent>,
    members: BTreeMap<Uuid, FirmMember>,
    is_dropped: bool,
}

/// The time from a firm's closing until its data are dropped (ruling 45, a closed firm's data).
pub const CLOSED_FIRM_KEPT_FOR: Duration = Duration::from_secs(30 * 86_400);

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

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct FirmMember {
    role: Option<MemberRole>,
    active: bool,
    time: Timestamp,
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

/// Command on a firm.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FirmCommand {
    /// Takes in a report about the firm.
    ReportFirm {
        /// Time of the report, by the product's clock.
        time: Timestamp,
        /// The reported change.
        change: FirmChange,
    },
    /// Takes in a report about a member.
    ReportMember {
        /// The member.
        member_id: Uuid,
        /// Time of the report, by the product's clock.
        time: Timestamp,
        /// The reported change.
        change: MemberChange,
    },
    /// Records that the webhook signing secret is shown.
    RevealSecret,
    /// Makes a new secret sign.
    RotateSecret {
        /// The reason.
        reason: Option<String>,
    },
    /// Drops the data of the closed firm.
    DropData,
}

aggregate!(Firm, FirmCommand, FirmEvent, FirmRejection);

/// Why a command on a firm was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FirmRejection {
    /// No report of this firm came yet.
    #[error("the firm is not known: report firm.opened first")]
    Unknown,
    /// The firm was closed, so nothing is signed for it any more.
    #[error("the firm is closed")]
    Closed,
    /// Only the data of a closed firm are dropped.
    #[error("the firm is not closed")]
    NotClosed,
}

impl Firm {
    /// Decides on the events that follow from a command. A report that is not new has none.
    ///
    /// # Errors
    /// [`FirmRejection`] says why the command is refused.
    pub fn decide(&self, command: &FirmCommand) -> Result<Vec<FirmEvent>, FirmRejection> {
        match command {
            FirmCommand::ReportFirm { time, change } => self.report_firm(*time, change),
            FirmCommand::ReportMember { .. }
            | FirmCommand::RevealSecret
            | FirmCommand::RotateSecret { .. }
            | FirmCommand::DropData
                if self.status.is_none() =>
            {
                Err(FirmRejection::Unknown)
            }
            FirmCommand::ReportMember { member_id, time, change } => {
                Ok(self.report_member(*member_id, *time, *change))
            }
            FirmCommand::RevealSecret if self.is_dropped => Err(FirmRejection::Closed),
            FirmCommand::RevealSecret => Ok(vec![FirmEvent::SecretRevealed {}]),
            FirmCommand::RotateSecret { .. } if self.status == Some(FirmStatus::Closed) => {
                Err(FirmRejection::Closed)
            }
            FirmCommand::RotateSecret { reason } => {
                Ok(vec![FirmEvent::SecretRotated { reason: reason.clone() }])
            }
            FirmCommand::DropData if self.status != Some(FirmStatus::Closed) => {
                Err(FirmRejection::NotClosed)
            }
            FirmCommand::DropData if self.is_dropped => Ok(Vec::new()),
            FirmCommand::DropData => Ok(vec![FirmEvent::FirmDataDropped {}]),
        }
    }

    /// Whether the firm's data are dropped. Activities about it are then ignored.
    #[must_use]
    pub const fn is_dropped(&self) -> bool {
        self.is_dropped
    }

    /// Whether this member may create keys now.
    #[must_use]
    pub fn is_manager(&self, member_id: Uuid) -> bool {
        self.members
            .get(&member_id)
            .is_some_and(|member| member.active && member.role.is_some_and(MemberRole::manages))
    }

    /// Whether the newest report has this time and changes settings. Then another report of that
    /// time may change more.
    #[must_use]
    pub fn was_changed_at(&self, at: Timestamp) -> bool {
        let changed =
            matches!(self.changed, Some(FirmEvent::FirmChanged { time, .. }) if time == at);
        changed && self.time == Some(at)
    }

    fn report_firm(
        &self,
        time: Timestamp,
        change: &FirmChange,
    ) -> Result<Vec<FirmEvent>, FirmRejection> {
        let opens = matches!(change, FirmChange::Opened { .. });
        let news = match self.status {
            None if opens => true,
            None => return Err(FirmRejection::Unknown),
            Some(FirmStatus::Closed) => false,
            Some(FirmStatus::Active | FirmStatus::Suspended) => {
                let again = self.time == Some(time) && self.repeats(time, change);
                !opens && !again && self.time.is_none_or(|newest| newest <= time)
            }
        };
        Ok(if news { vec![firm_event(time, change)] } else { Vec::new() })
    }

    /// Whether the report would change nothing.
    fn repeats(&self, time: Timestamp, change: &FirmChange) -> bool {
        match change {
            FirmChange::Opened { .. } => true,
            FirmChange::Changed { .. } => self.changed == Some(firm_event(time, change)),
            FirmChange::Suspended => self.status == Some(FirmStatus::Suspended),
            FirmChange::Resumed => self.status == Some(FirmStatus::Active),
            FirmChange::Closed => self.status == Some(FirmStatus::Closed),
        }
    }

    fn report_member(
        &self,
        member_id: Uuid,
        time: Timestamp,
        change: MemberChange,
    ) -> Vec<FirmEvent> {
        let known = self.members.get(&member_id);
        let is_old = |known: &FirmMember| known.time > time || known.after(change, time) == *known;
        if known.is_some_and(is_old) {
            return Vec::new();
        }
        vec![match change {
            MemberChange::Joined(role) => FirmEvent::MemberJoined { member_id, role, time },
            MemberChange::RoleChanged(role) => {
                FirmEvent::MemberRoleChanged { member_id, role, time }
            }
            MemberChange::Disabled => FirmEvent::MemberDisabled { member_id, time },
            MemberChange::Enabled => FirmEvent::MemberEnabled { member_id, time },
            MemberChange::Left => FirmEvent::MemberLeft { member_id, time },
        }]
    }

    fn absorb(&mut self, event: &FirmEvent) {
        match *event {
            FirmEvent::FirmOpened { time, .. } | FirmEvent::FirmResumed { time } => {
                self.enter(FirmStatus::Active, time);
            }
            FirmEvent::FirmChanged { time, .. } => {
                self.changed = Some(event.clone());
                self.time = Some(time);
            }
            FirmEvent::FirmSuspended { time } => self.enter(FirmStatus::Suspended, time),
            FirmEvent::FirmClosed { time } => self.enter(FirmStatus::Closed, time),
            FirmEvent::MemberJoined { member_id, role, time } => {
                self.tell(member_id, MemberChange::Joined(role), time);
            }
            FirmEvent::MemberRoleChanged { member_id, role, time } => {
                self.tell(member_id, MemberChange::RoleChanged(role), time);
            }
            FirmEvent::MemberDisabled { member_id, time } => {
                self.tell(member_id, MemberChange::Disabled, time);
            }
            FirmEvent::MemberEnabled { member_id, time } => {
                self.tell(member_id, MemberChange::Enabled, time);
            }
            FirmEvent::MemberLeft { member_id, time } => {
                self.tell(member_id, MemberChange::Left, time);
            }
            FirmEvent::FirmDataDropped {} => self.is_dropped = true,
            FirmEvent::SecretRevealed {} | FirmEvent::SecretRotated { .. } => {}
        }
    }

    fn enter(&mut self, status: FirmStatus, time: Timestamp) {
        self.status = Some(status);
        self.time = Some(time);
    }

    fn tell(&mut self, member_id: Uuid, change: MemberChange, time: Timestamp) {
        let unknown = FirmMember { role: None, active: true, time };
        let member = self.members.entry(member_id).or_insert(unknown);
        *member = member.after(change, time);
    }
}

impl FirmMember {
    /// The member after this change.
    const fn after(&self, change: MemberChange, time: Timestamp) -> Self {
        let Self { role, active, .. } = *self;
        match change {
            MemberChange::Joined(role) => Self { role: Some(role), active: true, time },
            MemberChange::RoleChanged(role) => Self { role: Some(role), active, time },
            MemberChange::Disabled => Self { role, active: false, time },
            MemberChange::Enabled => Self { role, active: true, time },
            MemberChange::Left => Self { role: None, active: false, time },
        }
    }
}

fn firm_event(time: Timestamp, change: &FirmChange) -> FirmEvent {
    match change.clone() {
        FirmChange::Opened { name, plan, brand } => {
            FirmEvent::FirmOpened { name, plan, brand, time }
        }
        FirmChange::Changed { name, plan, brand, invites_enabled } => {
            FirmEvent::FirmChanged { name, plan, brand, invites_enabled, time }
        }
        FirmChange::Suspended => FirmEvent::FirmSuspended { time },
        FirmChange::Resumed => FirmEvent::FirmResumed { time },
        FirmChange::Closed => FirmEvent::FirmClosed { time },
    }
}

#[cfg(test)]
mod tests;
