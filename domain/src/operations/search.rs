//! Reads a text that an operator looks for: an id or the start of one, a key's start, a hash, a
//! position, a host or a firm's name.

use uuid::Uuid;

use crate::access::{API_KEY_PREFIX, TOKEN_PREFIX};
use crate::delivery::PauseScope;
use crate::delivery::signature::SECRET_PREFIX;
use crate::values::IdRange;

/// Characters of a key that people see. A whole key is cut to them, so that it goes nowhere.
const KEY_SHOWN_CHARS: usize = 12;

/// Longest text that is looked for.
const TEXT_MAX: usize = 300;

/// One reading of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SearchTerm {
    /// A position of the log.
    Position(i64),
    /// A whole id.
    Id(Uuid),
    /// All ids that begin so: from the lowest to the highest.
    IdsBetween(Uuid, Uuid),
    /// The start of an API key.
    KeyStart(String),
    /// The hash of an audit entry, or the SHA-256 of a key.
    Hash([u8; 32]),
    /// The host of a receiver.
    Host(String),
    /// The start of a firm's name, in lower case.
    FirmName(String),
}

/// All readings of a text, the surest first. None of an empty or very long text.
#[must_use]
pub fn search_terms(text: &str) -> Vec<SearchTerm> {
    let text = text.trim();
    if text.is_empty() || text.chars().count() > TEXT_MAX {
        return Vec::new();
    }
    if text.starts_with(API_KEY_PREFIX) {
        return vec![SearchTerm::KeyStart(shown_of_key(text).to_owned())];
    }
    let mut hash = [0; 32];
    if hex::decode_to_slice(text, &mut hash).is_ok() {
        return vec![SearchTerm::Hash(hash)];
    }
    if let Some(id) = crate::values::parse_id(text) {
        return vec![SearchTerm::Id(id)];
    }
    let position = text.parse().ok().filter(|position| *position > 0).map(SearchTerm::Position);
    // A number alone is an address, too (WHATWG URL), and nobody means it.
    let host = match PauseScope::of_host(text) {
        Some(PauseScope::Host { host }) if text.contains(['.', ':']) => {
            Some(SearchTerm::Host(host))
        }
        _ => None,
    };
    let name = Some(SearchTerm::FirmName(text.to_lowercase()));
    [position, ids_beginning(text), host, name].into_iter().flatten().collect()
}

/// The text as an address may hold it. A whole key is cut to the part that people see. `None` if a
/// token or a webhook secret is in it.
#[must_use]
pub fn harmless_text(text: &str) -> Option<&str> {
    if text.contains(TOKEN_PREFIX) || text.contains(SECRET_PREFIX) {
        return None;
    }
    Some(text.find(API_KEY_PREFIX).map_or(text, |at| shown_of_key(&text[at..])))
}

/// The part of a key that people see.
fn shown_of_key(key: &str) -> &str {
    let end = key.char_indices().nth(KEY_SHOWN_CHARS).map_or(key.len(), |(end, _)| end);
    &key[..end]
}

/// The ids that begin with these digits.
fn ids_beginning(text: &str) -> Option<SearchTerm> {
    let range = IdRange::new(text).filter(|range| range.whole_id().is_none())?;
    Some(SearchTerm::IdsBetween(range.first, range.last))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(low: &str, high: &str) -> SearchTerm {
        SearchTerm::IdsBetween(low.parse().unwrap(), high.parse().unwrap())
    }

    #[test]
    fn a_text_is_read_every_possible_way() {
        let beginning =
            range("12340000-0000-0000-0000-000000000000", "1234ffff-ffff-ffff-ffff-ffffffffffff");
        let name = SearchTerm::FirmName("1234".into());
        assert_eq!(search_terms(" 1234 "), [SearchTerm::Position(1234), beginning, name]);
        let host = SearchTerm::Host("hooks.example.com".into());
        let name = SearchTerm::FirmName("hooks.example.com.".into());
        assert_eq!(search_terms("Hooks.Example.COM."), [host, name]);
        assert_eq!(search_terms("Harrow Lane"), [SearchTerm::FirmName("harrow lane".into())]);
        let id = "01a20f92-7c5f-7000-8000-00000000000a";
        assert_eq!(search_terms(id), [SearchTerm::Id(id.parse().unwrap())]);
        assert_eq!(search_terms(&"ab".repeat(32)), [SearchTerm::Hash([0xab; 32])]);
        assert_eq!(search_terms(""), []);
        assert_eq!(search_terms(&"x".repeat(301)), []);
    }

    /// The beginning has four digits or more, and each hyphen in its place.
    #[test]
    fn an_ids_beginning_has_four_digits() {
        let low = "01a20f92-7c5f-0000-0000-000000000000";
        let high = "01a20f92-7c5f-ffff-ffff-ffffffffffff";
        assert_eq!(ids_beginning("01a20f92-7c5f"), Some(range(low, high)));
        assert_eq!(ids_beginning("01A20F92-7c5f-"), Some(range(low, high)));
        for no_id in ["01a", "01a2-0f92", "ghij", "01a20f92 7c5f"] {
            assert_eq!(ids_beginning(no_id), None, "{no_id}");
        }
    }

    #[test]
    fn a_search_uses_a_keys_shown_part() {
        let key = format!("ffk_{}", "A".repeat(43));
        assert_eq!(search_terms(&key), [SearchTerm::KeyStart("ffk_AAAAAAAA".into())]);
        assert_eq!(search_terms("ffk_ab"), [SearchTerm::KeyStart("ffk_ab".into())]);
    }

    #[test]
    fn a_search_address_holds_no_secret() {
        let key = format!("ffk_{}", "A".repeat(43));
        assert_eq!(harmless_text(&key), Some("ffk_AAAAAAAA"));
        assert_eq!(harmless_text(&format!("Bearer {key}")), Some("ffk_AAAAAAAA"));
        assert_eq!(harmless_text("ffk_éééééééééé"), Some("ffk_éééééééé"));
        assert_eq!(harmless_text("ffk_a"), Some("ffk_a"));
        assert_eq!(harmless_text("Harrow Lane"), Some("Harrow Lane"));
        for secret in ["fft_AAAA", "Bearer fft_AAAA", "whsec_AAAA", "ffk_a fft_a"] {
            assert_eq!(harmless_text(secret), None, "{secret}");
        }
    }
}
