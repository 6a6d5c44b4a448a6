//! The one door through which mail leaves, and what can come of it.

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

/// Hands mail over. Cheap to clone; clones share their connections.
#[derive(Clone, Debug)]
pub struct Mailer(MailRoute);

#[derive(Clone, Debug)]
enum MailRoute {
    Smtp(Arc<SmtpRelay>),
    Files(Arc<MailFolder>),
    Held,
}

/// What became of a mail that was to be handed over (ruling 11).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MailOutcome {
    /// It is in the hands of the server.
    Accepted,
    /// The server refuses this recipient, and will tomorrow too: a bounce.
    Refused {
        /// What the server answered; none when its address cannot even be asked for.
        code: Option<u16>,
    },
    /// Anything else, in a few words that say nothing of the person. Where the server took the
    /// whole mail and did not answer it may have it all the same: sent again as the same bytes, it
    /// is the same Message-ID.
    Failed(String),
}

/// How a server is spoken to.
#[derive(Clone, Debug)]
pub struct SmtpSettings {
    /// Certificates, in PEM, of roots to trust beside the platform's.
    pub extra_roots: Option<Vec<u8>>,
    /// The longest that one send takes, whatever the server does.
    pub budget: Duration,
}

impl Default for SmtpSettings {
    fn default() -> Self {
        Self { extra_roots: None, budget: SEND_TIME_MAX }
    }
}

/// A mailer could not be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum MailerError {
    /// The roots to trust are not certificates in PEM.
    #[error("the extra roots of the mail server are not certificates in PEM")]
    Roots,
}

impl Mailer {
    /// Hands mail to a server. Nothing is asked of the server yet.
    ///
    /// # Errors
    /// [`MailerError`]: the roots cannot be read.
    pub fn smtp(url: &SmtpUrl, settings: &SmtpSettings) -> Result<Self, MailerError> {
        Ok(Self(MailRoute::Smtp(Arc::new(SmtpRelay::new(url, settings)?))))
    }

    /// Writes mail into a folder, one `<email_id>.eml` each, for development. The folder is made
    /// when it is missing.
    #[must_use]
    pub fn files(folder: impl Into<PathBuf>) -> Self {
        Self(MailRoute::Files(Arc::new(MailFolder::new(folder.into()))))
    }

    /// Hands nothing over: of every mail it says that it could not be sent.
    #[must_use]
    pub const fn held() -> Self {
        Self(MailRoute::Held)
    }

    /// Hands one mail over. Dropped midway, it may or may not have been.
    pub async fn send(&self, mail: &Mail) -> MailOutcome {
        match &self.0 {
            MailRoute::Smtp(relay) => relay.send(mail).await,
            MailRoute::Files(folder) => folder.write(mail).await,
            MailRoute::Held => MailOutcome::Failed("nothing is sent by this process".to_owned()),
        }
    }
}
