//! A webhook of a step in a firm's workflow: its names, its method and its extra headers
//! (contract, section Events; ruling 33; case D13).

mod order;
mod target;

use std::collections::HashSet;

use uuid::Uuid;

use crate::aggregate::id_of_rule;

pub use order::{STEP_VERSION, StepMethod, StepName, StepOrder, StoredStepOrder, upcast_order};
pub use target::StepTarget;

/// Largest number of extra headers.
pub const HEADERS_MAX: usize = 32;

/// Largest size of all extra names and values together, in bytes.
pub const HEADERS_MAX_BYTES: usize = 8 * 1024;

/// Headers that belong to the service or to the connection.
const OWN_HEADERS: [&str; 18] = [
    "accept",
    "accept-encoding",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "expect",
    "host",
    "idempotency-key",
    "keep-alive",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "user-agent",
    "via",
];

/// Prefix of further headers that belong to the service.
const OWN_PREFIX: &str = "x-service-";

/// Why extra headers are refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HeaderFault {
    /// The step has more than [`HEADERS_MAX`] extra headers.
    #[error("a step has at most {HEADERS_MAX} extra headers")]
    TooMany,
    /// The extra headers have more than [`HEADERS_MAX_BYTES`].
    #[error("the extra headers of a step have at most {HEADERS_MAX_BYTES} bytes")]
    TooLarge,
    /// The name is not a token (RFC 9110, section 5.1).
    #[error("the name of an extra header is not a header name")]
    NotAName,
    /// The header belongs to the service or to the connection.
    #[error("the header `{0}` is set by the service")]
    Own(String),
    /// The header is there twice, in any case of letters.
    #[error("the header `{0}` is there twice")]
    Twice(String),
    /// The value has other characters than visible ASCII, spaces and tabs.
    #[error("the value of `{0}` holds what a header cannot carry")]
    NotAValue(String),
}

/// Lane of a firm's steps to a host.
#[must_use]
pub fn step_lane_id(firm_id: Uuid, host: &str) -> Uuid {
    id_of_rule(&format!("step lane|{firm_id}|{host}"))
}

/// Checks a step's extra headers (case D13).
///
/// # Errors
/// [`HeaderFault`] is the first reason for a refusal.
pub fn check_headers(headers: &[(String, String)]) -> Result<(), HeaderFault> {
    if headers.len() > HEADERS_MAX {
        return Err(HeaderFault::TooMany);
    }
    let bytes: usize = headers.iter().map(|(name, value)| name.len() + value.len()).sum();
    if bytes > HEADERS_MAX_BYTES {
        return Err(HeaderFault::TooLarge);
    }
    let mut seen = HashSet::new();
    for (name, value) in headers {
        let lower = name.to_ascii_lowercase();
        if name.is_empty() || !name.bytes().all(is_token) {
            return Err(HeaderFault::NotAName);
        }
        if lower.starts_with(OWN_PREFIX) || OWN_HEADERS.contains(&lower.as_str()) {
            return Err(HeaderFault::Own(lower));
        }
        if !value.bytes().all(|byte| matches!(byte, b'\t' | 0x20..=0x7e)) {
            return Err(HeaderFault::NotAValue(lower));
        }
        if !seen.insert(lower.clone()) {
            return Err(HeaderFault::Twice(lower));
        }
    }
    Ok(())
}

/// Whether the byte may stand in a token (RFC 9110, section 5.6.2).
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(headers: &[(&str, &str)]) -> Result<(), HeaderFault> {
        let owned: Vec<_> =
            headers.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        check_headers(&owned)
    }

    /// Upper and lower case make no difference.
    #[test]
    fn d13_the_services_own_headers_are_refused() {
        for own in [
            "X-Service-Event",
            "x-service-anything",
            "Host",
            "Content-Length",
            "TRANSFER-ENCODING",
            "connection",
            "Idempotency-Key",
            "Content-Type",
        ] {
            assert_eq!(check(&[(own, "1")]), Err(HeaderFault::Own(own.to_lowercase())), "{own}");
        }
        assert_eq!(check(&[("Authorization", "Bearer a b"), ("X-Serviced", "")]), Ok(()));
    }

    #[test]
    fn d13_headers_carry_no_line_breaks() {
        for name in ["", "a b", "a:", "a\r\nb", "é", "a\0"] {
            assert_eq!(check(&[(name, "1")]), Err(HeaderFault::NotAName), "{name:?}");
        }
        for value in ["a\r\nHost: b", "a\nb", "\0", "é", "\u{7f}"] {
            let refused = Err(HeaderFault::NotAValue("x-a".to_owned()));
            assert_eq!(check(&[("X-A", value)]), refused, "{value:?}");
        }
        assert_eq!(check(&[("x-a", "1"), ("X-A", "2")]), Err(HeaderFault::Twice("x-a".to_owned())));
    }

    /// A step has at most 32 extra headers, and 8 KiB in all.
    #[test]
    fn d13_extra_headers_have_limits() {
        let many = |count: usize| -> Vec<(String, String)> {
            (0..count).map(|number| (format!("x-{number}"), String::new())).collect()
        };
        assert_eq!(check_headers(&many(32)), Ok(()));
        assert_eq!(check_headers(&many(33)), Err(HeaderFault::TooMany));
        let long = |bytes: usize| [("x".to_owned(), "a".repeat(bytes - 1))];
        assert_eq!(check_headers(&long(8_192)), Ok(()));
        assert_eq!(check_headers(&long(8_193)), Err(HeaderFault::TooLarge));
    }

    #[test]
    fn d14_a_run_names_each_step_once() {
        let name = StepName { run_id: Uuid::from_u128(1), step_id: Uuid::from_u128(2) };
        let swapped = StepName { run_id: name.step_id, step_id: name.run_id };
        assert_eq!(name.delivery_id(), name.delivery_id());
        assert_ne!(name.delivery_id(), swapped.delivery_id());
        assert_eq!(
            name.idempotency_key(),
            "00000000-0000-0000-0000-000000000001:00000000-0000-0000-0000-000000000002"
        );
        assert_eq!("PUT".parse(), Ok(StepMethod::Put));
        assert_eq!("get".parse::<StepMethod>(), Err(()));
    }
}
