//! The languages of links and mails (contract, section POST /forms/{id}/links).

use serde::{Deserialize, Serialize};

/// Longest `lang` of a link or an invite, in characters (contract, section Limits).
pub const LANG_MAX: usize = 10;

/// A language of a form's link or mail.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Lang {
    /// English, also the language of mails without one.
    #[default]
    En,
    /// French.
    Fr,
    /// Spanish.
    Es,
}

impl Lang {
    /// All languages.
    pub const ALL: [Self; 3] = [Self::En, Self::Fr, Self::Es];

    /// Reads exactly `en`, `fr` or `es`. Any other text is no language (case A14).
    #[must_use]
    pub fn read(code: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|lang| lang.code() == code)
    }

    /// The language's code in links, bodies and `Content-Language`.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::En => "en",
            Self::Fr => "fr",
            Self::Es => "es",
        }
    }
}
