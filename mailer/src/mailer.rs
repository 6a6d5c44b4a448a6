//! The mailer: the one way out for mail, and the possible results.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;

use crate::files::MailFolder;
use crate::mail::Mail;
use crate::smtp::SmtpRelay;
use crate::smtp_url::SmtpUrl;

/// The longest that one [`Mailer::send`] takes (ruling 11).
const SEND_TIME_MAX: Duration = Duration::from_secs(20);

/// Hands mail over. A clone is cheap, and clones share their connections.
#[derive(Clone, Debug)]
pub struct Mailer(MailRoute);

#[derive(Clone, Debug)]
enum MailRoute {
    Smtp(Arc<SmtpRelay>),
    Files(Arc<MailFolder>),
    Held,
}

/// The result of handing a mail over (ruling 11).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MailOutcome {
    /// The server accepted the mail.
    Accepted,
    /// The server refuses this recipient for good: a bounce.
    Refused {
        /// The server's reply code; `None` if no command can name the address.
        code: Option<u16>,
    },
    /// Any other failure, in a few words without personal data. A server that took the whole mail
    /// and did not answer may have accepted it. Then the next attempt has the same bytes and
    /// Message-ID.
    Failed(String),
}

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

impl Mailer {
    /// A mailer for a server. Does not contact the server yet.
    ///
    /// # Errors
    /// [`MailerError`]: the roots cannot be read.
    pub fn smtp(url: &SmtpUrl, settings: &SmtpSettings) -> Result<Self, MailerError> {
        Ok(Self(MailRoute::Smtp(Arc::new(SmtpRelay::new(url, settings)?))))
    }

    /// A mailer that writes one `<email_id>.eml` per mail into a folder, for development. Makes the
    /// folder if it is missing.
    #[must_use]
    pub fn files(folder: impl Into<PathBuf>) -> Self {
        Self(MailRoute::Files(Arc::new(MailFolder::new(folder.into()))))
    }

    /// A mailer that reports a failure for every mail.
    #[must_use]
    pub const fn held() -> Self {
        Self(MailRoute::Held)
    }

    /// Hands one mail over. If the future is dropped midway, the mail may or may not have been
    /// sent.
    pub async fn send(&self, mail: &Mail) -> MailOutcome {
        match &self.0 {
            MailRoute::Smtp(relay) => relay.send(mail).await,
            MailRoute::Files(folder) => folder.write(mail).await,
            MailRoute::Held => MailOutcome::Failed("nothing is sent by this process".to_owned()),
        }
    }
}
