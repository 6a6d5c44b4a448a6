//! The `Idempotency-Key` of a request (ruling 40).

use std::str::FromStr;

use sha2::{Digest, Sha256};

/// Longest key, in characters (ruling 40).
const KEY_MAX: usize = 255;

/// The caller's name for a request that it may repeat. Only its hash is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IdempotencyKey {
    /// SHA-256 of the key's text.
    pub sha256: [u8; 32],
}

/// The text is no key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("`Idempotency-Key` must be there once, with 1 to {KEY_MAX} printable ASCII characters")]
pub struct BadIdempotencyKey;

impl FromStr for IdempotencyKey {
    type Err = BadIdempotencyKey;

    fn from_str(text: &str) -> Result<Self, BadIdempotencyKey> {
        let printable = text.bytes().all(|byte| (b' '..=b'~').contains(&byte));
        if !printable || !(1..=KEY_MAX).contains(&text.len()) {
            return Err(BadIdempotencyKey);
        }
        Ok(Self { sha256: Sha256::digest(text).into() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_1_to_255_printable_characters() {
        let key = |text: &str| text.parse::<IdempotencyKey>();
        for good in ["a", "run 7/step 2", "~", &"a".repeat(255)] {
            assert!(key(good).is_ok(), "{good}");
        }
        for bad in ["", "\t", "a\u{7f}", "é", &"a".repeat(256)] {
            assert_eq!(key(bad), Err(BadIdempotencyKey), "{bad}");
        }
        assert_ne!(key("a"), key("A"));
    }
}
