//! The API key of a caller (contract, section Authentication; ruling 3).
//!
//! The key's text appears once, in the answer that creates the key. Only [`ApiKey::hash`] is kept.
//! [`super::Key`] decides about creation and revocation.

use std::fmt;

use sha2::{Digest, Sha256};
use thiserror::Error;

use crate::values::text;

/// Largest number of active keys of a firm (contract, section Limits).
pub const KEYS_PER_FIRM: i32 = 25;

/// Prefix of every key's text.
pub const API_KEY_PREFIX: &str = "ffk_";

/// Number of characters that are shown to tell keys apart (ruling 3).
const SHOWN_CHARS: usize = 12;

/// The text of an API key. It never reaches a log: `Debug` shows [`ApiKey::prefix`] only.
#[derive(Clone, PartialEq, Eq)]
pub struct ApiKey(String);

/// The text does not have the form of a key, so no lookup is made (case B2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("not the form of an API key")]
pub struct NotAKey;

impl ApiKey {
    /// Makes a key from 32 random bytes.
    #[must_use]
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(text::secret_text(API_KEY_PREFIX, bytes))
    }

    /// Reads a key as a caller sent it.
    ///
    /// # Errors
    /// [`NotAKey`] unless [`ApiKey::from_bytes`] could have made exactly this text.
    pub fn parse(text: &str) -> Result<Self, NotAKey> {
        if text::is_secret(API_KEY_PREFIX, text) { Ok(Self(text.to_owned())) } else { Err(NotAKey) }
    }

    /// The whole text, for the one answer that shows the key.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The key's first characters, to tell keys apart (contract, section Me).
    #[must_use]
    pub fn prefix(&self) -> &str {
        &self.0[..SHOWN_CHARS]
    }

    /// SHA-256 of the text, the only part of a key that is kept (contract, section Authentication).
    #[must_use]
    pub fn hash(&self) -> [u8; 32] {
        Sha256::digest(self.0.as_bytes()).into()
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ApiKey({}…)", self.prefix())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    const ZEROS: &str = "ffk_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

    #[test]
    fn a_key_is_prefix_and_43_characters() {
        assert_eq!(ApiKey::from_bytes([0; 32]).as_str(), ZEROS);
        let key = ApiKey::from_bytes([0xfb; 32]);
        assert_eq!(key.as_str(), "ffk_-_v7-_v7-_v7-_v7-_v7-_v7-_v7-_v7-_v7-_v7-_s");
        assert_eq!(ApiKey::parse(key.as_str()), Ok(key));
    }

    #[rstest]
    #[case::empty("")]
    #[case::prefix_only("ffk_")]
    #[case::chars_42("ffk_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA")]
    #[case::chars_44("ffk_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA")]
    #[case::upper_case_prefix("FFK_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA")]
    #[case::another_prefix("whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA")]
    #[case::plus_of_plain_base64("ffk_+AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA")]
    #[case::padding("ffk_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=")]
    #[case::non_ascii("ffk_éAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA")]
    #[case::not_canonical("ffk_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAB")]
    #[case::space_before(" ffk_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA")]
    #[case::line_break_after("ffk_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\n")]
    fn b2_anything_else_is_not_a_key(#[case] text: &str) {
        assert_eq!(ApiKey::parse(text), Err(NotAKey));
    }

    #[test]
    fn only_the_first_12_characters_are_shown() {
        let key = ApiKey::from_bytes([0; 32]);
        assert_eq!(key.prefix(), "ffk_AAAAAAAA");
        assert_eq!(format!("{key:?}"), "ApiKey(ffk_AAAAAAAA…)");
    }

    #[test]
    fn a_keys_hash_is_its_texts_sha256() {
        // printf ffk_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA | openssl dgst -sha256
        assert_eq!(
            hex::encode(ApiKey::from_bytes([0; 32]).hash()),
            "d2f0b51c9d6dd4dd955950cc30d9d298baa80fb9ad949896efa1350aae506988"
        );
    }
}
