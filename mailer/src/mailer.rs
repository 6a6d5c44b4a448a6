//! The mailer: the one way out for mail.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;
use uuid::Uuid;

use crate::files::MailFolder;
use crate::mail::Mail;
use crate::outcome::MailOutcome;
use crate::smtp::{MailerError, RelayTurn, SmtpRelay, SmtpSettings};
use crate::smtp_url::SmtpUrl;

/// Hands mail over. A clone is cheap, and clones share their connections.
#[derive(Clone, Debug)]
pub struct Mailer(MailRoute);

#[derive(Clone, Debug)]
enum MailRoute {
    Smtp(Arc<SmtpRelay>),
    Files(Arc<MailFolder>),
    Off,
}

/// The right to hand over one mail now.
#[derive(Debug)]
pub struct MailTurn(TurnRoute);

#[derive(Debug)]
enum TurnRoute {
    Smtp(Arc<SmtpRelay>, RelayTurn),
    Files(Arc<MailFolder>),
}

/// Why no mail can be handed over now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NoTurn {
    /// This process sends no mail.
    #[error("this process sends no mail")]
    Off,
    /// The mail server is busy with other mails, perhaps of the same firm.
    #[error("the mail server is busy with other mails")]
    Busy,
}

impl Mailer {
    /// A mailer for a server. Does not contact the server yet.
    ///
    /// # Errors
    /// [`MailerError`]: the roots cannot be read.
    pub fn over_smtp(url: &SmtpUrl, settings: &SmtpSettings) -> Result<Self, MailerError> {
        Ok(Self(MailRoute::Smtp(Arc::new(SmtpRelay::new(url, settings)?))))
    }

    /// A mailer that writes one `<email_id>.eml` per mail into a folder, for development. Makes the
    /// folder if it is missing.
    #[must_use]
    pub fn into_folder(folder: impl Into<PathBuf>) -> Self {
        Self(MailRoute::Files(Arc::new(MailFolder::new(folder.into()))))
    }

    /// A mailer that sends nothing: for a process without a mail server, and for commands.
    #[must_use]
    pub const fn switched_off() -> Self {
        Self(MailRoute::Off)
    }

    /// A turn for one mail of this firm. The wait for a turn is no part of the time for a mail.
    ///
    /// # Errors
    /// [`NoTurn`]; with a wait of zero also if no turn is free now.
    pub async fn take_turn(&self, firm_id: Uuid, wait_max: Duration) -> Result<MailTurn, NoTurn> {
        match &self.0 {
            MailRoute::Smtp(relay) => {
                let turn = relay.take_turn(firm_id, wait_max).await.ok_or(NoTurn::Busy)?;
                Ok(MailTurn(TurnRoute::Smtp(Arc::clone(relay), turn)))
            }
            MailRoute::Files(folder) => Ok(MailTurn(TurnRoute::Files(Arc::clone(folder)))),
            MailRoute::Off => Err(NoTurn::Off),
        }
    }
}

impl MailTurn {
    /// Hands one mail over. If the future is dropped midway, the mail may or may not have been
    /// sent.
    pub async fn send_mail(self, mail: &Mail) -> MailOutcome {
        match &self.0 {
            TurnRoute::Smtp(relay, turn) => relay.send_mail(mail, turn).await,
            TurnRoute::Files(folder) => folder.write_mail(mail).await,
        }
    }
}
