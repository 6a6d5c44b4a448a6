//! The languages of links and mails (contract, section POST /forms/{id}/links).

/// Longest `lang` of a link or an invite, in characters (contract, section Limits).
pub const LANG_MAX: usize = 10;

/// A language that a form can be asked for in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lang {
    /// English; mails without a language are in it.
    #[default]
    En,
    /// French.
    Fr,
    /// Spanish.
    Es,
}

impl Lang {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::En, Self::Fr, Self::Es];

    /// Reads `en`, `fr` or `es`, exactly; anything else is no language (case A14).
    #[must_use]
    pub fn read(code: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|lang| lang.code() == code)
    }

    /// Its code in links, bodies and `Content-Language`.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::En => "en",
            Self::Fr => "fr",
            Self::Es => "es",
        }
    }
}
