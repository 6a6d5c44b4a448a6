//! Addresses for mail (contract, section POST /forms/{id}/send; ruling 11).

use std::fmt;
use std::str::FromStr;

use thiserror::Error;
use url::Host;

/// Longest address, in characters (contract, section Limits).
pub const EMAIL_MAX: usize = 320;

/// Longest label of a domain (RFC 1035, section 2.3.4).
const LABEL_MAX: usize = 63;

/// Longest domain (RFC 5321, section 4.5.3.1.2).
const DOMAIN_MAX: usize = 255;

/// The address of one person: a dot-atom at a public domain. The domain is in ASCII.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EmailAddress {
    local: String,
    domain: String,
}

/// The text is not an address that mail can be sent to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("not an email address such as ann@example.com, of at most 320 characters")]
pub struct NotAnAddress;

impl EmailAddress {
    /// Reads an address as a report may write it (ruling 36).
    ///
    /// # Errors
    /// [`NotAnAddress`] if the bare text is not one public address.
    pub fn read_leniently(text: &str) -> Result<Self, NotAnAddress> {
        bare_address(text).parse()
    }

    /// The part before the `@`, as it was sent.
    #[must_use]
    pub fn local_part(&self) -> &str {
        &self.local
    }

    /// The part after the `@`, in lower-case ASCII.
    #[must_use]
    pub fn domain(&self) -> &str {
        &self.domain
    }

    /// The person's key, equal for all spellings of the address (ruling 11). A `+tag` is kept.
    #[must_use]
    pub fn person_key(&self) -> String {
        format!("{}@{}", self.local.to_lowercase(), self.domain)
    }
}

/// The text without white space around it, angle brackets and a last dot.
#[must_use]
pub fn bare_address(text: &str) -> &str {
    let text = text.trim();
    let inner = text.strip_suffix('.').unwrap_or(text);
    let inner = inner.strip_prefix('<').and_then(|inner| inner.strip_suffix('>')).unwrap_or(inner);
    if inner.len() == text.len() { text } else { bare_address(inner) }
}

impl fmt::Display for EmailAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.local, self.domain)
    }
}

impl FromStr for EmailAddress {
    type Err = NotAnAddress;

    fn from_str(text: &str) -> Result<Self, NotAnAddress> {
        if text.chars().count() > EMAIL_MAX {
            return Err(NotAnAddress);
        }
        let (local, domain) = text.rsplit_once('@').ok_or(NotAnAddress)?;
        if !is_dot_atom(local) {
            return Err(NotAnAddress);
        }
        Ok(Self { local: local.to_owned(), domain: public_domain(domain)? })
    }
}

/// Whether the local part is a dot-atom (RFC 5322, section 3.2.3). It is ASCII and not quoted.
fn is_dot_atom(local: &str) -> bool {
    let is_atext =
        |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-/=?^_`{|}~".contains(&byte);
    local.split('.').all(|atom| !atom.is_empty() && atom.bytes().all(is_atext))
}

/// Reads a domain of at least two labels. IP literals are refused.
fn public_domain(domain: &str) -> Result<String, NotAnAddress> {
    // The URL parser would decode a percent sign.
    if domain.contains('%') {
        return Err(NotAnAddress);
    }
    let Ok(Host::Domain(ascii)) = Host::parse(domain) else {
        return Err(NotAnAddress);
    };
    let labels = ascii.split('.').count();
    if labels >= 2 && ascii.len() <= DOMAIN_MAX && ascii.split('.').all(is_label) {
        Ok(ascii)
    } else {
        Err(NotAnAddress)
    }
}

fn is_label(label: &str) -> bool {
    (1..=LABEL_MAX).contains(&label.len())
        && !label.starts_with('-')
        && !label.ends_with('-')
        && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    fn read(text: &str) -> Result<EmailAddress, NotAnAddress> {
        text.parse()
    }

    #[rstest]
    #[case("ann@example.com", "ann@example.com", "ann@example.com")]
    #[case("Ann.B+Tax@Example.COM", "Ann.B+Tax@example.com", "ann.b+tax@example.com")]
    #[case("o'neil@müller.example", "o'neil@xn--mller-kva.example", "o'neil@xn--mller-kva.example")]
    fn an_address_is_one_person(#[case] text: &str, #[case] sent: &str, #[case] person: &str) {
        let address = read(text).unwrap();
        assert_eq!((address.to_string().as_str(), address.person_key().as_str()), (sent, person));
    }

    #[rstest]
    fn a15_other_texts_are_no_addresses(
        #[values(
            "",
            "a",
            "@b.c",
            "a@",
            "a@b",
            "a@localhost",
            "a@[127.0.0.1]",
            "a@127.0.0.1",
            "a@[::1]",
            "a@1.2.3",
            "a@b.c\r\nBcc:x@y.z",
            "a@b.c, d@e.f",
            "a b@c.d",
            "a@b c.d",
            "a@b@c.d",
            ".a@b.c",
            "a.@b.c",
            "a..b@c.d",
            "a@.b.c",
            "a@b..c",
            "a@b.c.",
            "a@-b.c",
            "a@b_d.c",
            "\"a b\"@c.d",
            "<a@b.c>",
            "é@b.c",
            "a@b.c ",
            " a@b.c",
            "a@b.c\0",
            "a@b%2ec.d"
        )]
        text: &str,
    ) {
        assert_eq!(read(text), Err(NotAnAddress));
    }

    /// Space, brackets and a last dot are no part of the address.
    #[rstest]
    fn a_reported_address_is_read_leniently(
        #[values(
            "ann@example.com",
            " ann@example.com\t",
            "ann@example.com.",
            "<ann@example.com>",
            " < ann@example.com. > ",
            "<ann@example.com>."
        )]
        text: &str,
    ) {
        assert_eq!(bare_address(text), "ann@example.com");
        assert_eq!(EmailAddress::read_leniently(text), read("ann@example.com"));
    }

    #[rstest]
    fn a_bare_text_may_be_no_address(
        #[values("", " ", ".", "<>", "<a@b.c", "Ann <a@b.c>")] text: &str,
    ) {
        assert_eq!(EmailAddress::read_leniently(text), Err(NotAnAddress));
    }

    #[test]
    fn a15_320_characters_are_the_most() {
        let label = "d".repeat(63);
        let address =
            |local: usize| format!("{}@{label}.{label}.{label}.{label}", "a".repeat(local));
        assert_eq!(read(&address(64)).map(|_| ()), Ok(()));
        assert_eq!(address(64).len(), EMAIL_MAX);
        assert_eq!(read(&address(65)), Err(NotAnAddress));
        assert_eq!(read(&format!("a@{}.com", "d".repeat(64))), Err(NotAnAddress));
    }
}
