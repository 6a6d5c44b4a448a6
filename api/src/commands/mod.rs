//! Commands: changes that append to the log. Handlers of both APIs and the terminal call them.
//!
//! - [`keys`], [`secrets`] and [`tokens`] make and revoke credentials.
//! - `hooks` and `invites` serve the public API.
//! - `steps` queues webhooks of the workflow engine.
//! - [`hook_tests`] sends a sample to a target.
//! - [`pauses`], [`replays`] and [`reissue`] are the operators' commands about deliveries.
//! - [`readings`] records that somebody reads a firm's data, [`targets`] shows whole targets, and
//!   [`contents`] bodies and answers.
//! - [`checkpoint_series`] records that a new series of signed checkpoints begins. [`late_entries`]
//!   adds missing entries of the audit log.

pub mod checkpoint_series;
pub mod contents;
pub mod hook_tests;
pub(crate) mod hooks;
pub(crate) mod invites;
pub mod keys;
pub mod late_entries;
pub mod pauses;
pub mod readings;
pub mod reissue;
pub mod replays;
pub mod secrets;
pub(crate) mod steps;
pub mod targets;
pub mod tokens;

use domain::delivery::replay::REASON_MAX_CHARS;
use domain::values::trimmed_label;
use projector::firms;
use uuid::Uuid;

use crate::Service;
use crate::error::Error;

/// The reason why an admitted caller may not act any more. The firm was suspended or closed in
/// between, or the key was revoked.
async fn no_longer_active(service: &Service, firm_id: Uuid) -> Error {
    match firms::is_active(service.store.pool(), firm_id).await {
        Ok(Some(false)) => Error::FirmInactive,
        Ok(Some(true) | None) => Error::Unauthorized,
        Err(error) => error.into(),
    }
}

/// An operator's reason, trimmed as the log keeps it.
pub(crate) fn parse_reason(text: &str) -> Result<String, Error> {
    match trimmed_label(text, REASON_MAX_CHARS) {
        Some(reason) => Ok(reason.to_owned()),
        None => {
            Err(Error::invalid("`reason` must have 1 to 200 characters, none a control character"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The space around a reason is cut. A reason is not empty.
    #[test]
    fn a_reason_has_200_characters_at_most() {
        assert_eq!(parse_reason(" a stolen laptop\n"), Ok("a stolen laptop".to_owned()));
        assert!(parse_reason(&"é".repeat(200)).is_ok());
        for other in ["", " \t", "a\nb", "\u{1b}[31m", &"é".repeat(201)] {
            assert!(parse_reason(other).is_err(), "{other}");
        }
    }
}
