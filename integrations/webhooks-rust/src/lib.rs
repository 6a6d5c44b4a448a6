#![doc = include_str!("../README.md")]

pub mod events;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use thiserror::Error;

/// A signature is at most so far from the current time, in either direction.
pub const AGE_MAX_SECONDS: u64 = 300;

const TIME_DIGITS_MAX: usize = 12;

const V1_DIGITS: usize = 64;

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SignatureError {
    /// The header is not exactly `t=<unix seconds>,v1=<64 lower-case hexadecimal digits>`.
    #[error("malformed signature")]
    Malformed,
    /// The signature is more than 5 minutes old, or ahead.
    #[error("stale signature")]
    Stale,
    /// None of the secrets signed this time and this body.
    #[error("wrong signature")]
    Mismatch,
}

/// Checks that one of the secrets signed this body within 5 minutes of `now`, in unix seconds.
///
/// `header` is the value of `X-Service-Signature`, or an empty text if there is none. `body` has the
/// bytes as they arrived. An empty secret verifies nothing. The comparison takes constant time.
///
/// # Errors
/// [`SignatureError`] is the first reason to refuse the request.
pub fn verify<S: AsRef<str>>(
    header: &str,
    body: &[u8],
    secrets: &[S],
    now: u64,
) -> Result<(), SignatureError> {
    let (t, v1) = parts(header).ok_or(SignatureError::Malformed)?;
    let signed_at: u64 = t.parse().map_err(|_| SignatureError::Malformed)?;
    let v1 = hex::decode(v1).map_err(|_| SignatureError::Malformed)?;
    if now.abs_diff(signed_at) > AGE_MAX_SECONDS {
        return Err(SignatureError::Stale);
    }
    let keys = secrets.iter().map(AsRef::as_ref).filter(|secret| !secret.is_empty());
    for key in keys {
        let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key.as_bytes()) else { continue };
        mac.update(t.as_bytes());
        mac.update(b".");
        mac.update(body);
        if mac.verify_slice(&v1).is_ok() {
            return Ok(());
        }
    }
    Err(SignatureError::Mismatch)
}

fn parts(header: &str) -> Option<(&str, &str)> {
    let (t, v1) = header.strip_prefix("t=")?.split_once(",v1=")?;
    let is_time =
        (1..=TIME_DIGITS_MAX).contains(&t.len()) && t.bytes().all(|it| it.is_ascii_digit());
    let is_hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    (is_time && v1.len() == V1_DIGITS && v1.bytes().all(is_hex)).then_some((t, v1))
}
