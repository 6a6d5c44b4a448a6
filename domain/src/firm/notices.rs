//! The settings of a firm's notices.

use serde::{Deserialize, Serialize};

use crate::values::Lang;

/// The notices that a firm wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoticeSettings {
    /// The language of these mails.
    pub lang: Lang,
    /// Whether notices are mailed to the firm.
    pub mail: bool,
}

impl Default for NoticeSettings {
    fn default() -> Self {
        Self { lang: Lang::default(), mail: true }
    }
}

/// A change of the notices that a firm wants: `notices` of `firm.changed`. A field that is not
/// named stays as it is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NoticeChange {
    /// The language of these mails.
    pub lang: Option<Lang>,
    /// Whether notices are mailed to the firm.
    pub mail: Option<bool>,
}

impl NoticeChange {
    /// Whether nothing changes.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self == Self::default()
    }

    /// This change after an earlier one.
    #[must_use]
    pub fn merged_after(self, earlier: Self) -> Self {
        Self { lang: self.lang.or(earlier.lang), mail: self.mail.or(earlier.mail) }
    }
}
