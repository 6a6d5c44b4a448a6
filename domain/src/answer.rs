//! What came back of one try, and what follows from it (contract, section States and
//! transitions; rulings 18, 19 and 25).
//!
//! It says delivered, retry or failed; when the retry comes and when tries run out is
//! [`crate::retry`]'s.

use thiserror::Error;

use crate::api_key::API_KEY_PREFIX;
use crate::signature::SECRET_PREFIX;
use crate::target::TargetRefusal;
use crate::text;

/// How much of an answer's body is kept, in bytes (ruling 25).
pub const ANSWER_KEPT_BYTES: usize = 1_024;

/// What stands in the place of a secret in a kept answer.
const MASK: &str = "[masked]";

/// What came back of a try. An answer that starts a further redirect is not one yet.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum AttemptAnswer {
    /// The final status; its headers came in time.
    #[error("answered {0}")]
    Status(u16),
    /// No whole answer in time.
    #[error(transparent)]
    NetworkError(#[from] NetworkError),
    /// The target's own text is refused: nothing was looked up or dialled.
    #[error("refused: {0}")]
    Refused(TargetRefusal),
    /// A redirect that cannot be followed.
    #[error(transparent)]
    RedirectInvalid(#[from] RedirectFault),
    /// Dropped before it was dialled (ruling 29): the receiver has seen nothing.
    #[error("not sent")]
    NeverSent,
}

/// Why no whole answer came. All of these may pass, so all are retried (ruling 18).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NetworkError {
    /// The name could not be looked up.
    #[error("the host's name could not be looked up")]
    Dns,
    /// The name was looked up and leads to private addresses only.
    #[error("refused: the host's name leads to private addresses only")]
    TargetRefusedByDns,
    /// No connection.
    #[error("the host could not be connected to")]
    Connect,
    /// No secure connection.
    #[error("the TLS handshake failed")]
    Tls,
    /// Ten seconds passed (contract, section Limits).
    #[error("no answer within 10 seconds")]
    Timeout,
    /// What came back is not HTTP as it should be.
    #[error("the answer is not valid HTTP")]
    Protocol,
    /// The connection ended before the answer did.
    #[error("the connection was closed before the answer")]
    Reset,
}

/// Why a redirect is not followed. The answers that cause these are not repeated by chance, so
/// none is retried (ruling 19).
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RedirectFault {
    /// There is no `Location`.
    #[error("a redirect without a Location")]
    MissingLocation,
    /// There is more than one `Location`.
    #[error("a redirect with several Locations")]
    SeveralLocations,
    /// It leads to what is no target.
    #[error("a redirect to a refused target: {0}")]
    Refused(TargetRefusal),
    /// It leads back to where the try has been.
    #[error("a redirect that leads back")]
    Loop,
    /// More than 5 hops.
    #[error("too many redirects")]
    TooMany,
}

/// What a try's answer means for its delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerVerdict {
    /// It arrived.
    Delivered,
    /// To be tried again while tries remain.
    Retry,
    /// Final at once, whatever tries remain.
    Failed,
}

impl AttemptAnswer {
    /// The contract's rule (section States and transitions). A status outside 200–599 is no
    /// final answer HTTP knows, and counts as a protocol error (case D1).
    #[must_use]
    pub fn verdict(&self) -> AnswerVerdict {
        match self {
            Self::Status(200..=299) => AnswerVerdict::Delivered,
            Self::Status(408 | 425 | 429) => AnswerVerdict::Retry,
            Self::Status(300..=499) | Self::Refused(_) | Self::RedirectInvalid(_) => {
                AnswerVerdict::Failed
            }
            Self::Status(_) | Self::NetworkError(_) | Self::NeverSent => AnswerVerdict::Retry,
        }
    }

    /// A stable word for its kind, for the delivery's history.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Status(200..=599) => "status",
            Self::Status(_) => NetworkError::Protocol.code(),
            Self::NetworkError(error) => error.code(),
            Self::Refused(_) => "target_refused",
            Self::RedirectInvalid(fault) => fault.code(),
            Self::NeverSent => "never_sent",
        }
    }

    /// A word for its kind that is one of few, to be counted by: what a receiver says has no words of
    /// its own here (case E23: `dns` is ours, not theirs).
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
            | Self::NeverSent => None,
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

/// What is kept of an answer's body (ruling 25, case D5): valid text of at most
/// [`ANSWER_KEPT_BYTES`], without control characters other than line break and tab, and without
/// our secrets. These are anything written like a key or signing secret, and the texts given.
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
    cleaned = cleaned.chars().map(harmless).collect();
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

fn harmless(c: char) -> char {
    if c.is_control() && !matches!(c, '\n' | '\t') { char::REPLACEMENT_CHARACTER } else { c }
}
