//! People: their names, addresses and sentences, and how their stories end.

use super::firms::GeneratedFirm;
use super::json::ObjectWriter;
use super::random::Random;
use super::words::{COMMON_SENTENCES, FOREIGN_LOCALES, Locale, MAIL_DOMAINS, NameOrder, TRADES};

/// A respondent. A field that the person does not tell is empty.
#[derive(Debug)]
pub(super) struct GeneratedPerson {
    pub(super) origin: &'static Locale,
    pub(super) name: String,
    first_name: &'static str,
    last_name: &'static str,
    pub(super) email: String,
    pub(super) phone: String,
    company: String,
}

impl GeneratedPerson {
    /// A person of the firm's country, or sometimes of another. An address may come up again; an
    /// address with a mark does not.
    pub(super) fn new(random: &mut Random, firm: &GeneratedFirm, mark: Option<u64>) -> Self {
        let abroad = random.pick_one(&FOREIGN_LOCALES);
        let origin = if random.per_mille(600) { firm.home } else { abroad };
        let (first_name, ascii_first) = random.pick_one(origin.first);
        let (last_name, ascii_last) = random.pick_one(origin.last);
        let name = match origin.order {
            NameOrder::FirstLast => format!("{first_name} {last_name}"),
            NameOrder::LastFirst => format!("{last_name}{first_name}"),
        };
        let suffix =
            mark.map_or_else(|| random.draw_below(500).to_string(), |mark| format!("r{mark}"));
        let domain = random.pick_one(&MAIL_DOMAINS);
        let email = format!("{ascii_first}.{ascii_last}.{suffix}@{domain}");
        let company = format!("{last_name} {}", random.pick_one(&TRADES));
        let phone = random.fill_digits(origin.phone);
        let mut text_or_empty =
            |often, text| if random.per_mille(often) { text } else { String::new() };
        let phone = text_or_empty(750, phone);
        let company = text_or_empty(600, company);
        Self { origin, name, first_name, last_name, email, phone, company }
    }

    pub(super) fn write_fields(&self, fields: &mut ObjectWriter<'_>) {
        fields.text("name", &self.name).text("first_name", self.first_name);
        fields.text("last_name", self.last_name).text("email", &self.email);
        fields.text("phone", &self.phone).text("company", &self.company);
    }

    /// All contact fields in one line.
    pub(super) fn contact_line(&self) -> String {
        let fields = [&self.name, &self.email, &self.phone, &self.company];
        let filled: Vec<&str> =
            fields.into_iter().map(String::as_str).filter(|text| !text.is_empty()).collect();
        filled.join(", ")
    }

    pub(super) fn pick_sentence(&self, random: &mut Random) -> &'static str {
        let is_common = random.per_mille(120);
        if is_common {
            random.pick_one(&COMMON_SENTENCES)
        } else {
            random.pick_one(self.origin.sentences)
        }
    }

    /// A few sentences. One text in forty has some kilobytes.
    pub(super) fn some_sentences(&self, random: &mut Random) -> String {
        let long = random.per_mille(25);
        let sentences = if long { 40 + random.draw_below(80) } else { 1 + random.draw_below(5) };
        let mut text = String::from(self.pick_sentence(random));
        for _ in 1..sentences {
            text.push_str(random.pick_one(&[" ", " ", "\n", "\n\n"]));
            text.push_str(self.pick_sentence(random));
        }
        text
    }
}

/// The end of a person's story.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PersonFate {
    /// No further event.
    Stays,
    /// The address unsubscribes or bounces.
    Unreachable,
    /// One response is erased.
    ResponseErased,
    /// The person is erased.
    PersonErased,
}

impl PersonFate {
    pub(super) fn new(random: &mut Random) -> Self {
        match random.draw_below(1_000) {
            ..30 => Self::Unreachable,
            30..36 => Self::ResponseErased,
            36..41 => Self::PersonErased,
            _ => Self::Stays,
        }
    }

    /// Whether the fate belongs to the address. Then no second person may have this address. A
    /// repeated erasure would also erase the second person's responses. Two people's reports about
    /// one address would have to keep an order.
    pub(super) const fn is_personal(self) -> bool {
        match self {
            Self::Unreachable | Self::PersonErased => true,
            Self::Stays | Self::ResponseErased => false,
        }
    }
}
