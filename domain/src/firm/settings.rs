//! Settings of a firm, each with a clock of its own (ruling 35).

use serde::{Deserialize, Serialize};

use super::event::FirmEvent;
use super::notices::NoticeChange;
use super::report::{FirmBrand, FirmChange};
use crate::aggregate::state_report::{
    AspectState, ReportEffect, absorb_value, effect_if_named, if_news,
};
use crate::subscription::FirmPlan;
use crate::values::{Lang, Timestamp};

/// Newest reported value of each setting.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FirmSettings {
    name: Option<AspectState<String>>,
    plan: Option<AspectState<FirmPlan>>,
    brand: Option<AspectState<FirmBrand>>,
    invites_enabled: Option<AspectState<bool>>,
    notices_lang: Option<AspectState<Lang>>,
    notices_mail: Option<AspectState<bool>>,
}

impl FirmSettings {
    pub(super) fn takes_brand_of(&self, time: Timestamp) -> bool {
        self.brand.as_ref().is_none_or(|brand| brand.time <= time)
    }

    /// Effect of a report that changes settings. Other reports leave the settings as they are.
    pub(super) fn effect_of_change(&self, change: &FirmChange, time: Timestamp) -> ReportEffect {
        let FirmChange::Changed { name, plan, brand, invites_enabled, notices } = change else {
            return ReportEffect::Repeat;
        };
        ReportEffect::of_all([
            effect_if_named(self.name.as_ref(), name.as_ref(), time),
            effect_if_named(self.plan.as_ref(), plan.as_ref(), time),
            effect_if_named(self.brand.as_ref(), brand.as_ref(), time),
            effect_if_named(self.invites_enabled.as_ref(), invites_enabled.as_ref(), time),
            effect_if_named(self.notices_lang.as_ref(), notices.lang.as_ref(), time),
            effect_if_named(self.notices_mail.as_ref(), notices.mail.as_ref(), time),
        ])
    }

    /// The change without the settings that are no news.
    pub(super) fn news_of(&self, change: FirmChange, time: Timestamp) -> FirmChange {
        let FirmChange::Changed { name, plan, brand, invites_enabled, notices } = change else {
            return change;
        };
        FirmChange::Changed {
            name: if_news(self.name.as_ref(), name, time),
            plan: if_news(self.plan.as_ref(), plan, time),
            brand: if_news(self.brand.as_ref(), brand, time),
            invites_enabled: if_news(self.invites_enabled.as_ref(), invites_enabled, time),
            notices: NoticeChange {
                lang: if_news(self.notices_lang.as_ref(), notices.lang, time),
                mail: if_news(self.notices_mail.as_ref(), notices.mail, time),
            },
        }
    }

    pub(super) fn absorb_event(&mut self, event: &FirmEvent) {
        match event {
            FirmEvent::FirmOpened { name, plan, brand, time } => {
                absorb_value(&mut self.name, Some(name), *time);
                absorb_value(&mut self.plan, Some(plan), *time);
                absorb_value(&mut self.brand, Some(brand), *time);
            }
            FirmEvent::FirmChanged { name, plan, brand, invites_enabled, time } => {
                absorb_value(&mut self.name, name.as_ref(), *time);
                absorb_value(&mut self.plan, plan.as_ref(), *time);
                absorb_value(&mut self.brand, brand.as_ref(), *time);
                absorb_value(&mut self.invites_enabled, invites_enabled.as_ref(), *time);
            }
            FirmEvent::FirmNoticesChanged { notices, time } => {
                absorb_value(&mut self.notices_lang, notices.lang.as_ref(), *time);
                absorb_value(&mut self.notices_mail, notices.mail.as_ref(), *time);
            }
            _ => {}
        }
    }
}
