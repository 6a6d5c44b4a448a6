//! The shape of a locale: the origin of a person.

/// A person's origin: names, sentences and formats.
#[derive(Debug)]
pub(crate) struct Locale {
    /// The code of the language.
    pub(crate) lang: &'static str,
    /// The IANA name of the time zone.
    pub(crate) time_zone: &'static str,
    /// A phone number, with `#` for digits.
    pub(crate) phone: &'static str,
    /// First names, as written and in plain ASCII.
    pub(crate) first: &'static [Name],
    /// Last names.
    pub(crate) last: &'static [Name],
    /// The order of first and last name.
    pub(crate) order: NameOrder,
    /// Sentences of free text.
    pub(crate) sentences: &'static [&'static str],
}

/// A name as written, and in plain ASCII for addresses.
pub(crate) type Name = (&'static str, &'static str);

/// The order of first and last name.
#[derive(Debug, Clone, Copy)]
pub(crate) enum NameOrder {
    /// First name, space, last name.
    FirstLast,
    /// Last name and first name, without a space.
    LastFirst,
}
