//! The settings of the connections to a server.

use std::time::Duration;

use thiserror::Error;

/// The longest that the hand-over of one mail takes (ruling 11).
const SEND_TIME_MAX: Duration = Duration::from_secs(20);

/// The settings of a connection to a server.
#[derive(Clone, Debug)]
pub struct SmtpSettings {
    /// Certificates, in PEM, of roots to trust beside the platform's.
    pub extra_roots: Option<Vec<u8>>,
    /// The longest time for one send.
    pub budget: Duration,
}

impl Default for SmtpSettings {
    fn default() -> Self {
        Self { extra_roots: None, budget: SEND_TIME_MAX }
    }
}

/// Why a mailer could not be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum MailerError {
    /// The roots to trust are not certificates in PEM.
    #[error("the extra roots of the mail server are not certificates in PEM")]
    Roots,
}
