//! The end of a verification that does not find everything intact.

use crate::error::AuditError;
use crate::flaw::{Flaw, FlawLocation};

/// Why a verification stopped.
#[derive(Debug)]
pub(crate) enum VerifyStop {
    /// The verification found a flaw.
    Broken(Flaw),
    /// The verification lacks data, and cannot decide.
    Unknown(String),
    /// The verification failed.
    Failed(AuditError),
}

impl<E: Into<AuditError>> From<E> for VerifyStop {
    fn from(error: E) -> Self {
        match error.into() {
            AuditError::Flawed(flaw) => Self::Broken(flaw),
            error => Self::Failed(error),
        }
    }
}

pub(crate) fn broken_at<T>(place: FlawLocation, why: impl Into<String>) -> Result<T, VerifyStop> {
    Err(VerifyStop::Broken(Flaw { location: place, why: why.into() }))
}
