//! A firm and its members, as the product reports them (contract, Authentication 3, 5 and 7).
//!
//! The product sends reports of state. The newest `time` wins per aspect ([`ReportEffect`]): the
//! firm's status, each of its settings, a member's activity and a member's role. An older or
//! repeated report is accepted and changes nothing. A closing and a leaving take effect whatever
//! their `time`. A changing event names only the settings that it changes.

mod brand_color;
mod event;
mod member;
mod notices;
mod report;
mod settings;
mod suspension;

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use self::member::FirmMember;
use self::settings::FirmSettings;
use crate::aggregate::aggregate;
use crate::aggregate::state_report::{self, AspectState, ReportEffect, effect_on};
use crate::values::Timestamp;

pub use brand_color::{BrandColor, NotAColor};
pub use event::FirmEvent;
pub use notices::{NoticeChange, NoticeSettings};
pub use report::{FirmBrand, FirmChange, FirmStatus, MemberChange, MemberRole};
pub use suspension::SuspensionChange;

/// Aggregate of one firm. Each firm has a stream of its own.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Firm {
    status: Option<AspectState<FirmStatus>>,
    settings: FirmSettings,
    members: BTreeMap<Uuid, FirmMember>,
    is_dropped: bool,
}

/// The time from a firm's closing until its data are dropped (ruling 45, a closed firm's data).
pub const CLOSED_FIRM_KEPT_FOR: Duration = Duration::from_secs(30 * 86_400);

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
            FirmCommand::RotateSecret { .. } if self.has_status(FirmStatus::Closed) => {
                Err(FirmRejection::Closed)
            }
            FirmCommand::RotateSecret { reason } => {
                Ok(vec![FirmEvent::SecretRotated { reason: reason.clone() }])
            }
            FirmCommand::DropData if !self.has_status(FirmStatus::Closed) => {
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
        self.members.get(&member_id).is_some_and(FirmMember::manages)
    }

    /// Whether a brand reported at this time is the newest. The reply address belongs to the brand,
    /// and no event carries it.
    #[must_use]
    pub fn takes_brand_of(&self, time: Timestamp) -> bool {
        !self.has_status(FirmStatus::Closed) && self.settings.takes_brand_of(time)
    }

    /// Effect of a report. A command that is no report is always news.
    #[must_use]
    pub fn effect_of(&self, command: &FirmCommand) -> ReportEffect {
        match command {
            FirmCommand::ReportFirm { time, change } => self.effect_of_change(*time, change),
            FirmCommand::ReportMember { member_id, time, change } => {
                let known = self.members.get(member_id);
                known.map_or(ReportEffect::News, |member| member.effect_of_change(*change, *time))
            }
            FirmCommand::RevealSecret
            | FirmCommand::RotateSecret { .. }
            | FirmCommand::DropData => ReportEffect::News,
        }
    }

    fn has_status(&self, status: FirmStatus) -> bool {
        self.status.is_some_and(|known| known.value == status)
    }

    fn report_firm(
        &self,
        time: Timestamp,
        change: &FirmChange,
    ) -> Result<Vec<FirmEvent>, FirmRejection> {
        let is_first = matches!(change, FirmChange::Opened { .. });
        if self.status.is_none() && !is_first {
            return Err(FirmRejection::Unknown);
        }
        Ok(match self.effect_of_change(time, change) {
            ReportEffect::News => firm_events(time, self.settings.news_of(change.clone(), time)),
            ReportEffect::Repeat | ReportEffect::Stale => Vec::new(),
        })
    }

    fn effect_of_change(&self, time: Timestamp, change: &FirmChange) -> ReportEffect {
        let Some(status) = &self.status else {
            return ReportEffect::News;
        };
        match (status.value, change) {
            (_, FirmChange::Opened { .. }) | (FirmStatus::Closed, FirmChange::Closed) => {
                ReportEffect::Repeat
            }
            (FirmStatus::Closed, _) => ReportEffect::Stale,
            (_, FirmChange::Closed) => ReportEffect::News,
            (_, FirmChange::Suspended) => effect_on(Some(status), &FirmStatus::Suspended, time),
            (_, FirmChange::Resumed) => effect_on(Some(status), &FirmStatus::Active, time),
            (_, FirmChange::Changed { .. }) => self.settings.effect_of_change(change, time),
        }
    }

    fn report_member(
        &self,
        member_id: Uuid,
        time: Timestamp,
        change: MemberChange,
    ) -> Vec<FirmEvent> {
        let unknown = FirmMember::default();
        let member = self.members.get(&member_id).unwrap_or(&unknown);
        member
            .news_of(change, time)
            .map(|change| member_event(member_id, time, change))
            .into_iter()
            .collect()
    }

    fn absorb(&mut self, event: &FirmEvent) {
        match *event {
            FirmEvent::FirmOpened { time, .. } | FirmEvent::FirmResumed { time } => {
                self.settings.absorb_event(event);
                self.enter_status(FirmStatus::Active, time);
            }
            FirmEvent::FirmChanged { .. } | FirmEvent::FirmNoticesChanged { .. } => {
                self.settings.absorb_event(event);
            }
            FirmEvent::FirmSuspended { time } => self.enter_status(FirmStatus::Suspended, time),
            FirmEvent::FirmClosed { time } => self.enter_status(FirmStatus::Closed, time),
            FirmEvent::MemberJoined { member_id, role, time } => {
                self.change_member(member_id, MemberChange::Joined(role), time);
            }
            FirmEvent::MemberRoleChanged { member_id, role, time } => {
                self.change_member(member_id, MemberChange::RoleChanged(role), time);
            }
            FirmEvent::MemberDisabled { member_id, time } => {
                self.change_member(member_id, MemberChange::Disabled, time);
            }
            FirmEvent::MemberEnabled { member_id, time } => {
                self.change_member(member_id, MemberChange::Enabled, time);
            }
            FirmEvent::MemberLeft { member_id, time } => {
                self.change_member(member_id, MemberChange::Left, time);
            }
            FirmEvent::FirmDataDropped {} => self.is_dropped = true,
            FirmEvent::SecretRevealed {} | FirmEvent::SecretRotated { .. } => {}
        }
    }

    fn enter_status(&mut self, status: FirmStatus, time: Timestamp) {
        state_report::absorb_value(&mut self.status, Some(&status), time);
    }

    fn change_member(&mut self, member_id: Uuid, change: MemberChange, time: Timestamp) {
        self.members.entry(member_id).or_default().absorb_change(change, time);
    }
}

/// The events of a report that is news. The settings of notices have an event of their own.
fn firm_events(time: Timestamp, change: FirmChange) -> Vec<FirmEvent> {
    let event = match change {
        FirmChange::Opened { name, plan, brand } => {
            FirmEvent::FirmOpened { name, plan, brand, time }
        }
        FirmChange::Changed {
            name: None,
            plan: None,
            brand: None,
            invites_enabled: None,
            notices,
        } => {
            return notices_changed(time, notices).collect();
        }
        FirmChange::Changed { name, plan, brand, invites_enabled, notices } => {
            let changed = FirmEvent::FirmChanged { name, plan, brand, invites_enabled, time };
            return std::iter::once(changed).chain(notices_changed(time, notices)).collect();
        }
        FirmChange::Suspended => FirmEvent::FirmSuspended { time },
        FirmChange::Resumed => FirmEvent::FirmResumed { time },
        FirmChange::Closed => FirmEvent::FirmClosed { time },
    };
    vec![event]
}

fn notices_changed(time: Timestamp, notices: NoticeChange) -> impl Iterator<Item = FirmEvent> {
    let changed = (!notices.is_empty()).then_some(FirmEvent::FirmNoticesChanged { notices, time });
    changed.into_iter()
}

const fn member_event(member_id: Uuid, time: Timestamp, change: MemberChange) -> FirmEvent {
    match change {
        MemberChange::Joined(role) => FirmEvent::MemberJoined { member_id, role, time },
        MemberChange::RoleChanged(role) => FirmEvent::MemberRoleChanged { member_id, role, time },
        MemberChange::Disabled => FirmEvent::MemberDisabled { member_id, time },
        MemberChange::Enabled => FirmEvent::MemberEnabled { member_id, time },
        MemberChange::Left => FirmEvent::MemberLeft { member_id, time },
    }
}

#[cfg(test)]
mod tests;
