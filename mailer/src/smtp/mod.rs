//! One mail server: the connections to it, and the commands of one mail at a time.
//!
//! - `server` connects, encrypts and signs in.
//! - `session` sends the commands of one mail, and knows the command that failed.
//! - `trouble` judges a failure, and decides which answers are about the recipient.
//! - `guarded` is the plain connection before STARTTLS.
//!
//! Once the mail itself is on its way, no command is repeated.

mod guarded;
mod server;
mod session;
mod trouble;

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::timeout;
use tracing::instrument::WithSubscriber;
use tracing::subscriber::NoSubscriber;

use crate::mail::Mail;
use crate::mailer::{MailOutcome, MailerError, SmtpSettings};
use crate::smtp_url::SmtpUrl;
use server::MailServer;
use session::{Envelope, SmtpSession};
use trouble::SmtpFailure;

/// The most connections that are kept for later mails.
const KEPT_SESSIONS_MAX: usize = 4;

/// The most mails at a time. Servers limit the connections of a client (RFC 5321, section 4.5.4.1
/// leaves the number to them), and refuse more.
const PARALLEL_MAILS_MAX: usize = 16;

/// A server and the connections to it.
pub(crate) struct SmtpRelay {
    server: MailServer,
    budget: Duration,
    kept: Mutex<Vec<SmtpSession>>,
    talks: Semaphore,
}

impl SmtpRelay {
    pub(crate) fn new(url: &SmtpUrl, settings: &SmtpSettings) -> Result<Self, MailerError> {
        let server = MailServer::new(url, settings)?;
        Ok(Self {
            server,
            budget: settings.budget,
            kept: Mutex::default(),
            talks: Semaphore::new(PARALLEL_MAILS_MAX),
        })
    }

    /// Sends a mail within the budget. lettre's logs are dropped: they hold passwords, addresses
    /// and mails.
    pub(crate) async fn send(&self, mail: &Mail) -> MailOutcome {
        let envelope = match Envelope::new(mail) {
            Ok(envelope) => envelope,
            Err(sent) => return sent,
        };
        let work = self.in_turn(&envelope).with_subscriber(NoSubscriber::default());
        match timeout(self.budget, work).await {
            Ok(Ok(())) => MailOutcome::Accepted,
            Ok(Err(trouble)) => trouble.into(),
            Err(_) => MailOutcome::Failed("no answer in time".to_owned()),
        }
    }

    async fn in_turn(&self, envelope: &Envelope<'_>) -> Result<(), SmtpFailure> {
        // The semaphore is never closed, so the permit always comes.
        let _turn = self.talks.acquire().await;
        self.hand_over(envelope).await
    }

    /// Sends on a kept connection, or on a new one. If a kept connection ended before it heard of
    /// the mail, the next one is used. If a connection is no longer open, all that have rested
    /// longer are dropped too.
    async fn hand_over(&self, envelope: &Envelope<'_>) -> Result<(), SmtpFailure> {
        while let Some(mut kept) = self.take() {
            if !kept.is_still_open(self.budget / 4).await {
                self.kept().clear();
                continue;
            }
            match self.say(kept, envelope).await {
                Err(trouble) if trouble.is_farewell() => {}
                said => return said,
            }
        }
        let session = SmtpSession::new(self.server.connect().await?);
        self.say(session, envelope).await
    }

    /// Sends a mail. Keeps a connection on which every command was answered.
    async fn say(
        &self,
        mut session: SmtpSession,
        envelope: &Envelope<'_>,
    ) -> Result<(), SmtpFailure> {
        let said = session.say(envelope).await;
        if said.as_ref().err().is_none_or(SmtpFailure::leaves_connection) {
            self.keep(session);
        }
        said
    }

    fn take(&self) -> Option<SmtpSession> {
        self.kept().pop()
    }

    fn keep(&self, session: SmtpSession) {
        let mut kept = self.kept();
        if kept.len() < KEPT_SESSIONS_MAX {
            kept.push(session);
        }
    }

    fn kept(&self) -> MutexGuard<'_, Vec<SmtpSession>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for SmtpRelay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Relay").field("server", &self.server).finish_non_exhaustive()
    }
}
