//! One mail server: connections to it, and what it says to one mail at a time.
//!
//! The cast: `server` connects, encrypts and signs in; `session` says the commands of one mail and
//! knows at which of them it ended; `trouble` says what that means, and which answers are about
//! the recipient; `guarded` is the plain connection before STARTTLS.
//!
//! It must not say anything twice once the mail itself is on its way.

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

/// Connections that are kept for the next mail, at most.
const KEPT_SESSIONS_MAX: usize = 4;

/// Mails that are handed over at a time: servers bound the connections of a client (RFC 5321,
/// section 4.5.4.1 leaves it to them), and refuse what is beyond.
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

    /// Ends within the budget. What lettre would log is dropped: it writes down passwords,
    /// addresses and mails.
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
        // Never closed: the permit always comes.
        let _turn = self.talks.acquire().await;
        self.hand_over(envelope).await
    }

    /// A kept connection that ends before it heard of the mail is replaced by a new one; where
    /// one is gone, so are those that rested longer.
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

    /// A connection on which every command was answered is kept for the next mail.
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
