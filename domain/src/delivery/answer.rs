//! The answer to one attempt, and the verdict on it (contract, section States and transitions;
//! rulings 18, 19 and 25).
//!
//! The verdict is delivered, retry or failed. [`super::RetrySchedule`] decides when the retry comes
//! and when the attempts are used up.

use thiserror::Error;

use super::signature::SECRET_PREFIX;
use crate::access::API_KEY_PREFIX;
use crate::subscription::TargetRefusal;
use crate::values::text;

/// Largest part of an answer's body that is kept, in bytes (ruling 25).
pub const ANSWER_KEPT_BYTES: usize = 1_024;

/// Text that replaces a secret in a kept answer.
const MASK: &str = "[masked]";

/// Answer to an attempt. A redirect that can be followed is no answer yet.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum AttemptAnswer {
    /// The final status. Its headers came in time.
    #[error("answered {0}")]
    Status(u16),
    /// No complete answer came in time.
    #[error(transparent)]
    NetworkError(#[from] NetworkError),
    /// The target's own text is refused. Nothing was looked up or dialled.
    #[error("refused: {0}")]
    Refused(TargetRefusal),
    /// The redirect cannot be followed.
    #[error(transparent)]
    RedirectInvalid(#[from] RedirectFault),
    /// The attempt was dropped before it was dialled (ruling 29). The receiver has seen nothing.
    #[error("not sent")]
    NeverSent,
    /// The process had no file descriptor for the attempt. That is no fault of the receiver: the
    /// attempt is released and does not count.
    #[error("not sent: this process had no file descriptor left")]
    OutOfDescriptors,
}

/// Why no complete answer came. Each of these faults may pass, so each is retried (ruling 18).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NetworkError {
    /// The lookup of the name failed.
    #[error("the host's name could not be looked up")]
    Dns,
    /// The name leads to private addresses only.
    #[error("refused: the host's name leads to private addresses only")]
    TargetRefusedByDns,
    /// The connection failed.
    #[error("the host could not be connected to")]
    Connect,
    /// The TLS handshake failed.
    #[error("the TLS handshake failed")]
    Tls,
    /// The 10 seconds ran out (contract, section Limits).
    #[error("no answer within 10 seconds")]
    Timeout,
    /// The answer is not valid HTTP.
    #[error("the answer is not valid HTTP")]
    Protocol,
    /// The connection ended before the answer did.
    #[error("the connection was closed before the answer")]
    Reset,
}

/// Why a redirect is not followed. Such an answer does not change by itself, so no fault of this
/// kind is retried (ruling 19).
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RedirectFault {
    /// The answer has no `Location`.
    #[error("a redirect without a Location")]
    MissingLocation,
    /// The answer has more than one `Location`.
    #[error("a redirect with several Locations")]
    SeveralLocations,
    /// The redirect leads to a refused target.
    #[error("a redirect to a refused target: {0}")]
    Refused(TargetRefusal),
    /// The redirect leads back to an earlier hop of the attempt.
    #[error("a redirect that leads back")]
    Loop,
    /// The attempt has more than 5 hops.
    #[error("too many redirects")]
    TooMany,
}

/// Verdict of an answer on its delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerVerdict {
    /// The delivery arrived.
    Delivered,
    /// The delivery is retried while attempts remain.
    Retry,
    /// The delivery fails at once, even if attempts remain.
    Failed,
}

impl AttemptAnswer {
    /// Applies the contract's rule (section States and transitions). HTTP knows no final status
    /// outside 200–599, so such a status counts as a protocol error (case D1).
    #[must_use]
    pub fn verdict(&self) -> AnswerVerdict {
        match self {
            Self::Status(200..=299) => AnswerVerdict::Delivered,
            Self::Status(408 | 425 | 429) => AnswerVerdict::Retry,
            Self::Status(300..=499) | Self::Refused(_) | Self::RedirectInvalid(_) => {
                AnswerVerdict::Failed
            }
            Self::Status(_) | Self::NetworkError(_) | Self::NeverSent | Self::OutOfDescriptors => {
                AnswerVerdict::Retry
            }
        }
    }

    /// A stable word for the kind of answer, for the delivery's history.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Status(200..=599) => "status",
            Self::Status(_) => NetworkError::Protocol.code(),
            Self::NetworkError(error) => error.code(),
            Self::Refused(_) => "target_refused",
            Self::RedirectInvalid(fault) => fault.code(),
            Self::NeverSent | Self::OutOfDescriptors => "never_sent",
        }
    }

    /// A word from a small fixed set, used as a metric's label. The receiver cannot choose the word
    /// (case E23): `dns` is this service's own result.
    #[must_use]
    pub fn class(&self) -> &'static str {
        match self {
            Self::Status(410) => "410",
            Self::Status(429) => "429",
            Self::Status(200..=299) => "2xx",
            Self::Status(300..=399) => "3xx",
            Self::Status(400..=499) => "4xx",
            Self::Status(500..=599) => "5xx",
            other => other.code(),
        }
    }

    /// The final status, if one came.
    #[must_use]
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::Status(status) => Some(*status),
            Self::NetworkError(_)
            | Self::Refused(_)
            | Self::RedirectInvalid(_)
            | Self::NeverSent
            | Self::OutOfDescriptors => None,
        }
    }
}

impl NetworkError {
    fn code(self) -> &'static str {
        match self {
            Self::Dns => "dns",
            Self::TargetRefusedByDns => "target_refused",
            Self::Connect => "connect",
            Self::Tls => "tls",
            Self::Timeout => "timeout",
            Self::Protocol => "protocol",
            Self::Reset => "reset",
        }
    }
}

impl RedirectFault {
    fn code(&self) -> &'static str {
        match self {
            Self::MissingLocation | Self::SeveralLocations | Self::Refused(_) => "redirect_invalid",
            Self::Loop => "redirect_loop",
            Self::TooMany => "too_many_redirects",
        }
    }
}

/// Cleans an answer's body for keeping (ruling 25, case D5). The result is valid text of at most
/// [`ANSWER_KEPT_BYTES`]. It has no control characters other than line break and tab, and no
/// secrets. Secrets are the given texts, and any text in the form of a key or a signing secret.
#[must_use]
pub fn clean_answer(bytes: &[u8], secrets: &[&str]) -> String {
    let mut cleaned = secrets
        .iter()
        .filter(|secret| !secret.is_empty())
        .fold(String::from_utf8_lossy(bytes).into_owned(), |text, secret| {
            text.replace(secret, MASK)
        });
    for prefix in [SECRET_PREFIX, API_KEY_PREFIX] {
        cleaned = mask_secrets(&cleaned, prefix);
    }
    cleaned = cleaned.chars().map(harmless_char).collect();
    cleaned.truncate(cleaned.floor_char_boundary(ANSWER_KEPT_BYTES));
    cleaned
}

/// Masks every run of secret characters that follows the prefix and is as long as a secret.
fn mask_secrets(text: &str, prefix: &str) -> String {
    let mut masked = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(prefix) {
        masked.push_str(before);
        let beyond = after.trim_start_matches(text::is_secret_char);
        let is_secret = after.len() - beyond.len() >= text::SECRET_CHARS;
        masked.push_str(if is_secret { MASK } else { prefix });
        rest = if is_secret { beyond } else { after };
    }
    masked.push_str(rest);
    masked
}

fn harmless_char(c: char) -> char {
    if c.is_control() && !matches!(c, '\n' | '\t') { char::REPLACEMENT_CHARACTER } else { c }
}
