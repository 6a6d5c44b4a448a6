//! Words of people and forms, all made up. Addresses are at `example.com` and its like. Phone
//! numbers are of ranges reserved for fiction, where a country has one.

mod beyond;
mod forms;
mod latin;
mod locale;

pub(super) use forms::{
    FormQuestion, FormTemplate, HIDDEN_FIELDS, HiddenFieldTemplate, QuestionKind,
};
pub(super) use locale::{Locale, NameOrder};

/// The languages of forms. Firms come from these countries.
pub(super) static FIRM_LOCALES: [(&Locale, &[FormTemplate]); 4] = [
    (&latin::ENGLISH, forms::ENGLISH),
    (&latin::FRENCH, forms::FRENCH),
    (&latin::GERMAN, forms::GERMAN),
    (&latin::SPANISH, forms::SPANISH),
];

/// Origins of people from abroad.
pub(super) static FOREIGN_LOCALES: [&Locale; 11] = [
    &latin::ENGLISH,
    &latin::FRENCH,
    &latin::GERMAN,
    &latin::SPANISH,
    &latin::POLISH,
    &latin::VIETNAMESE,
    &beyond::RUSSIAN,
    &beyond::GREEK,
    &beyond::CHINESE,
    &beyond::ARABIC,
    &beyond::JAPANESE,
];

pub(super) const MAIL_DOMAINS: [&str; 3] = ["example.com", "example.org", "example.net"];

pub(super) const COLORS: [&str; 8] =
    ["#1f5c4d", "#7a1e2c", "#0b3d91", "#f2a900", "#2e2e3a", "#006d77", "#b5179e", "#588157"];

pub(super) const TRADES: [&str; 12] = [
    "Ltd",
    "& Daughters",
    "GmbH",
    "SARL",
    "S.L.",
    "Ceramics",
    "Logistics",
    "\"No. 7\" Bakery",
    "Œuvres d’art",
    "Maschinenbau KG",
    "Studio 5/6",
    "Óptica e Hijos",
];

pub(super) const PRACTICES: [&str; 6] =
    ["Accountants", "Legal", "Advisers", "Tax & Audit", "Partners", "Notaries"];

pub(super) const DEVICES: [&str; 4] = ["mobile", "desktop", "mobile", "tablet"];

pub(super) const UTM: [(&str, &str, &str); 6] = [
    ("newsletter", "email", "autumn-2026"),
    ("google", "cpc", "tax relief+deadline"),
    ("linkedin", "social", "été & rentrée"),
    ("facebook", "social", "jahresabschluss"),
    ("partner", "referral", "100%-gratis"),
    ("qr", "print", "店頭"),
];

/// Sentences that fit every locale.
pub(super) const COMMON_SENTENCES: [&str; 8] = [
    "👍🏽",
    "Thanks!! 🙏✨",
    "See \"Annex B\", page 4 (C:\\Users\\me\\scan.pdf).",
    "Total: 12 % of 1'204.50 <b>net</b> & VAT.",
    "👩‍👩‍👧‍👦 We are a family business 🇪🇺",
    "{\"not\": \"json\", \"but\": [\"close\"]}",
    "Tab\tseparated\tvalues; and a line\r\nof another system.",
    "Zu\u{308}rich, cafe\u{301}, \u{202b}שלום\u{202c} 🤷🏾‍♀️",
];

pub(super) const HIGHLIGHTS: [&str; 8] = [
    "Two filing dates before the end of the year",
    "VAT registration recommended",
    "Délai de prescription : 3 mois restants",
    "Rücklage prüfen (§ 7g EStG)",
    "Posible deducción por I+D",
    "Contract lacks a \"termination\" clause",
    "Liquidity: 4.2 months 📉",
    "Κίνδυνος διπλής φορολόγησης",
];

pub(super) const SUMMARIES: [&str; 4] = [
    "You are in good shape, with two open points.",
    "Votre situation demande une réponse avant la fin du mois.\nNous proposons un appel.",
    "Nach den Angaben ist eine Förderung wahrscheinlich – im Einzelnen zu prüfen.",
    "Hay margen de mejora: «primero los impuestos, luego lo demás».",
];
