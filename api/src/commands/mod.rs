//! Commands: what a call changes, by appending to the log. Handlers of both doors come here.

pub(crate) mod hooks;
pub(crate) mod invites;
pub mod keys;
pub mod pauses;
pub mod readings;
pub mod reissue;
pub mod replays;
pub mod secrets;
pub(crate) mod steps;
pub mod tokens;

use domain::replay::REASON_MAX_CHARS;
use projector::firms;
use uuid::Uuid;

use crate::Service;
use crate::error::Error;

/// Why a caller who was let in may not act any more: the firm was suspended or closed in between,
/// or the key was revoked.
async fn no_longer_active(service: &Service, firm_id: Uuid) -> Error {
    match firms::is_active(service.store.pool(), firm_id).await {
        Ok(Some(false)) => Error::FirmInactive,
        Ok(Some(true) | None) => Error::Unauthorized,
        Err(error) => error.into(),
    }
}

/// Why an operator does something, as the log keeps it.
fn reason(text: &str) -> Result<String, Error> {
    let reason = text.trim();
    if (1..=REASON_MAX_CHARS).contains(&reason.chars().count()) {
        return Ok(reason.to_owned());
    }
    Err(Error::invalid("`reason` must have 1 to 200 characters"))
}
