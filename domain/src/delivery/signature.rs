//! The signature of a webhook, and a receiver's check of it (contract, section Signature; ruling
//! 22).

use std::fmt;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use subtle::ConstantTimeEq;
use thiserror::Error;
use uuid::Uuid;

use crate::subscription::Trigger;
use crate::values::text;

/// Prefix of every signing secret's text (contract, section Authentication).
pub const SECRET_PREFIX: &str = "whsec_";

/// Largest age of a signature at the receiver, in seconds (contract, section Limits).
pub const SIGNATURE_AGE_MAX_SECONDS: u64 = 5 * 60;

/// Digits of a time until the year 33658. Every receiver reads so many without an overflow.
const TIME_DIGITS_MAX: usize = 12;

/// Digits of an HMAC-SHA256 in hexadecimal.
const V1_DIGITS: usize = 64;

/// A firm's webhook signing secret. It never reaches a log: `Debug` shows nothing of the secret.
#[derive(Clone, PartialEq, Eq)]
pub struct WebhookSecret(String);

/// A sample for the target of a subscription, and the secret that signs it. It is not `Debug`,
/// because the body may hold answers of people.
pub struct SignedSample {
    /// The id in `X-Service-Delivery`. No delivery has it.
    pub sample_id: Uuid,
    /// The subscription.
    pub hook_id: Uuid,
    /// The trigger of the subscription.
    pub trigger: Trigger,
    /// The target of the subscription.
    pub target: String,
    /// The bytes to send.
    pub body: Vec<u8>,
    /// The secret that signs the bytes.
    pub secret: WebhookSecret,
}

/// The text does not have the form of a signing secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("not the form of a webhook signing secret")]
pub struct NotASecret;

impl WebhookSecret {
    /// Makes a secret from 32 random bytes.
    #[must_use]
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(text::secret_text(SECRET_PREFIX, bytes))
    }

    /// Reads a stored secret.
    ///
    /// # Errors
    /// [`NotASecret`] unless [`WebhookSecret::from_bytes`] could have made exactly this text.
    pub fn parse(text: &str) -> Result<Self, NotASecret> {
        if text::is_secret(SECRET_PREFIX, text) {
            Ok(Self(text.to_owned()))
        } else {
            Err(NotASecret)
        }
    }

    /// The whole text, which owners and admins see and which is the key of [`sign_body`].
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for WebhookSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WebhookSecret(…)")
    }
}

/// Value of `X-Service-Signature` for a body that is sent at this time. The HMAC key is the whole
/// text of the secret, with its prefix (ruling 22).
#[must_use]
pub fn sign_body(secret: &str, unix_seconds: i64, body: &[u8]) -> String {
    format!("t={unix_seconds},v1={}", v1_hmac(secret, &unix_seconds.to_string(), body))
}

/// Header and body of a request, as a receiver has them.
#[derive(Clone, Copy, Debug)]
pub struct SignedRequest<'a> {
    /// Value of `X-Service-Signature`.
    pub header: &'a str,
    /// The raw body before any parsing.
    pub body: &'a [u8],
}

/// Why a receiver rejects a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum BadSignature {
    /// The header is not `t=<unix_seconds>,v1=<hex>`.
    #[error("the signature header is malformed")]
    Malformed,
    /// The signature's time is more than [`SIGNATURE_AGE_MAX_SECONDS`] away.
    #[error("the signature is too old or from the future")]
    Stale,
    /// Another secret, another time or another body was signed.
    #[error("the signature does not match")]
    Mismatch,
}

/// Checks a request as a receiver does, in constant time.
///
/// # Errors
/// [`BadSignature`] is the first reason for a rejection.
pub fn verify_request(
    request: SignedRequest<'_>,
    secret: &str,
    now_unix_seconds: i64,
) -> Result<(), BadSignature> {
    let (t, given) = parse_header(request.header).ok_or(BadSignature::Malformed)?;
    let unix_seconds: i64 = t.parse().map_err(|_| BadSignature::Malformed)?;
    if now_unix_seconds.abs_diff(unix_seconds) > SIGNATURE_AGE_MAX_SECONDS {
        return Err(BadSignature::Stale);
    }
    let expected = v1_hmac(secret, t, request.body);
    if bool::from(expected.as_bytes().ct_eq(given.as_bytes())) {
        Ok(())
    } else {
        Err(BadSignature::Mismatch)
    }
}

/// The parts `t` and `v1` as they are written, if the header has exactly this form.
fn parse_header(header: &str) -> Option<(&str, &str)> {
    let (t, v1) = header.strip_prefix("t=")?.split_once(",v1=")?;
    let is_time =
        (1..=TIME_DIGITS_MAX).contains(&t.len()) && t.bytes().all(|it| it.is_ascii_digit());
    let is_hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    (is_time && v1.len() == V1_DIGITS && v1.bytes().all(is_hex)).then_some((t, v1))
}

fn v1_hmac(secret: &str, t: &str, body: &[u8]) -> String {
    let mut mac =
        Hmac::<Sha256>::new_from_slice(secret.as_bytes()).expect("HMAC takes a key of any length");
    mac.update(t.as_bytes());
    mac.update(b".");
    mac.update(body);
    hex::encode(mac.finalize().into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rstest::rstest;

    const SECRET: &str = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8";
    const NOW: i64 = 1_767_225_600;

    fn secret() -> WebhookSecret {
        WebhookSecret::from_bytes(std::array::from_fn(|i| u8::try_from(i).unwrap()))
    }

    fn check(header: &str, body: &[u8]) -> Result<(), BadSignature> {
        verify_request(SignedRequest { header, body }, SECRET, NOW)
    }

    /// Debug output hides the secret.
    #[test]
    fn a_secret_is_prefix_and_43_characters() {
        assert_eq!(secret().as_str(), SECRET);
        assert_eq!(format!("{:?}", secret()), "WebhookSecret(…)");
        assert_eq!(WebhookSecret::parse(SECRET), Ok(secret()));
        assert_eq!(WebhookSecret::parse(&SECRET[1..]), Err(NotASecret));
        assert_eq!(WebhookSecret::parse(&SECRET.replace("whsec_", "ffk_")), Err(NotASecret));
    }

    // printf '%s' '1767225600.{"event":"form_submitted"}' | openssl dgst -sha256 \
    //   -hmac whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8
    // and for bytes that are no text: printf '0.\000\377\r\n' | openssl dgst …
    #[rstest]
    #[case(
        NOW,
        br#"{"event":"form_submitted"}"#,
        "e7a304512d36c15510737f8dd41a14327eec34b3b719594fde4706c95a20f889"
    )]
    #[case(NOW, b"", "b8fb2a5ab5788917d605c0de71194c80589ce74db53f6d544f41c5877c13fd5d")]
    #[case(0, b"\0\xff\r\n", "ac5fa69db1dc2075f519bac399fe1373467e13038220337298fcf042dd1c9c33")]
    fn d11_openssl_agrees(#[case] t: i64, #[case] body: &[u8], #[case] v1: &str) {
        assert_eq!(sign_body(SECRET, t, body), format!("t={t},v1={v1}"));
    }

    #[test]
    fn a_receiver_accepts_only_signed_bytes() {
        let header = sign_body(SECRET, NOW, b"body");
        assert_eq!(check(&header, b"body"), Ok(()));
        assert_eq!(check(&header, b"body "), Err(BadSignature::Mismatch));
        let moved = header.replace(&NOW.to_string(), &(NOW + 1).to_string());
        assert_eq!(check(&moved, b"body"), Err(BadSignature::Mismatch));
    }

    /// The signature holds five minutes before and after its time.
    #[rstest]
    #[case(-301, Err(BadSignature::Stale))]
    #[case(-300, Ok(()))]
    #[case(300, Ok(()))]
    #[case(301, Err(BadSignature::Stale))]
    #[case(-NOW, Err(BadSignature::Stale))]
    #[case(999_999_999_999 - NOW, Err(BadSignature::Stale))]
    #[case(1_000_000_000_000 - NOW, Err(BadSignature::Malformed))]
    #[case(i64::MAX - NOW, Err(BadSignature::Malformed))]
    fn a_signature_holds_for_five_minutes(
        #[case] off: i64,
        #[case] expected: Result<(), BadSignature>,
    ) {
        assert_eq!(check(&sign_body(SECRET, NOW + off, b""), b""), expected);
    }

    #[rstest]
    fn a_malformed_signature_is_refused(
        #[values("", "t=1767225600", "v1=aa,t=1767225600", "t=,v1=", "t=-1,v1=aa", "t=+1,v1=aa")]
        header: &str,
    ) {
        assert_eq!(check(header, b""), Err(BadSignature::Malformed));
    }

    #[test]
    fn a_time_is_signed_as_written() {
        let header = sign_body(SECRET, NOW, b"").replace("t=", "t=0");
        assert_eq!(check(&header, b""), Err(BadSignature::Mismatch));
    }

    #[test]
    fn hex_is_lower_case_and_whole() {
        let header = sign_body(SECRET, NOW, b"");
        let (t, v1) = header.split_once(",v1=").unwrap();
        for other in [&v1.to_uppercase(), &v1[1..], &v1[..63], &format!("{v1}0"), ""] {
            assert_eq!(check(&format!("{t},v1={other}"), b""), Err(BadSignature::Malformed));
        }
    }

    proptest! {
        #[test]
        fn b17_no_secret_verifies_another_firms_signature(
            ours: [u8; 32], theirs: [u8; 32], at in 0..=999_999_999_999_i64, body: Vec<u8>,
        ) {
            let [ours, theirs] = [ours, theirs].map(WebhookSecret::from_bytes);
            prop_assume!(ours != theirs);
            let header = sign_body(ours.as_str(), at, &body);
            let request = SignedRequest { header: &header, body: &body };
            prop_assert_eq!(verify_request(request, ours.as_str(), at), Ok(()));
            prop_assert_eq!(verify_request(request, theirs.as_str(), at), Err(BadSignature::Mismatch));
        }
    }
}
