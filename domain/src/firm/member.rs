//! A member of a firm: the activity and the role, each with a clock of its own (ruling 35).

use serde::{Deserialize, Serialize};

use super::report::{MemberChange, MemberRole};
use crate::aggregate::state_report::{self, AspectState, ReportEffect, effect_if_named, effect_on};
use crate::values::Timestamp;

/// A member, as the product last reported each aspect. A member whose joining was not reported is
/// active and has no role.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FirmMember {
    activity: Option<AspectState<MemberActivity>>,
    role: Option<AspectState<Option<MemberRole>>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum MemberActivity {
    /// The member may sign in.
    Active,
    /// The member may not sign in.
    Disabled,
    /// The member left the firm.
    Left,
}

impl FirmMember {
    pub(super) fn manages(&self) -> bool {
        let is_active =
            self.activity.is_none_or(|activity| activity.value == MemberActivity::Active);
        let role = self.role.and_then(|role| role.value);
        is_active && role.is_some_and(MemberRole::manages)
    }

    pub(super) fn effect_of_change(&self, change: MemberChange, time: Timestamp) -> ReportEffect {
        ReportEffect::of_all([
            self.effect_on_activity(change, time),
            self.effect_on_role(change, time),
        ])
    }

    /// The part of a report that is news. A joining may be newer than the known activity and older
    /// than the known role, or the other way round.
    pub(super) fn news_of(&self, change: MemberChange, time: Timestamp) -> Option<MemberChange> {
        use ReportEffect::{News, Stale};
        let activity = self.effect_on_activity(change, time);
        let role = self.effect_on_role(change, time);
        match (change, activity, role) {
            (MemberChange::Joined(_), News, Stale) => Some(MemberChange::Enabled),
            (MemberChange::Joined(role), Stale, News) => Some(MemberChange::RoleChanged(role)),
            (_, News, _) | (_, _, News) => Some(change),
            _ => None,
        }
    }

    fn effect_on_activity(&self, change: MemberChange, time: Timestamp) -> ReportEffect {
        let known = self.activity.as_ref();
        let has_left = known.is_some_and(|known| known.value == MemberActivity::Left);
        let is_old = known.is_some_and(|known| time <= known.time);
        match change {
            MemberChange::Left if has_left && is_old => ReportEffect::Repeat,
            MemberChange::Left => ReportEffect::News,
            // A leaving may be older than the clock, so a report with the clock's time may be older
            // than the leaving. Only a joining brings the member back at that time.
            MemberChange::Disabled | MemberChange::Enabled if has_left && is_old => {
                ReportEffect::Stale
            }
            MemberChange::Joined(_)
            | MemberChange::RoleChanged(_)
            | MemberChange::Disabled
            | MemberChange::Enabled => effect_if_named(known, activity_of(change).as_ref(), time),
        }
    }

    fn effect_on_role(&self, change: MemberChange, time: Timestamp) -> ReportEffect {
        let known = self.role.as_ref();
        match change {
            MemberChange::Joined(role) | MemberChange::RoleChanged(role) => {
                effect_on(known, &Some(role), time)
            }
            MemberChange::Disabled | MemberChange::Enabled | MemberChange::Left => {
                ReportEffect::Repeat
            }
        }
    }

    pub(super) fn absorb_change(&mut self, change: MemberChange, time: Timestamp) {
        state_report::absorb_value(&mut self.activity, activity_of(change).as_ref(), time);
        let role = match change {
            MemberChange::Joined(role) | MemberChange::RoleChanged(role) => Some(Some(role)),
            MemberChange::Left => Some(None),
            MemberChange::Disabled | MemberChange::Enabled => None,
        };
        state_report::absorb_value(&mut self.role, role.as_ref(), time);
    }
}

const fn activity_of(change: MemberChange) -> Option<MemberActivity> {
    match change {
        MemberChange::Joined(_) | MemberChange::Enabled => Some(MemberActivity::Active),
        MemberChange::Disabled => Some(MemberActivity::Disabled),
        MemberChange::Left => Some(MemberActivity::Left),
        MemberChange::RoleChanged(_) => None,
    }
}
