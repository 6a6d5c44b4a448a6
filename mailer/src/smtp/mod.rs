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
use crate::mailer::{MailerError, Sent, SmtpSettings};
use crate::smtp_url::SmtpUrl;
use server::Server;
use session::{Envelope, Session};
use trouble::Trouble;

/// Connections that are kept for the next mail, at most.
const KEPT_MAX: usize = 4;

/// Mails that are handed over at a time: servers bound the connections of a client (RFC 5321,
/// section 4.5.4.1 leaves it to them), and refuse what is beyond.
const TALKS_MAX: usize = 16;

/// A server and the connections to it.
pub(crate) struct Relay {
    server: Server,
    budget: Duration,
    kept: Mutex<Vec<Session>>,
    talks: Semaphore,
}

impl Relay {
    pub(crate) fn new(url: &SmtpUrl, settings: &SmtpSettings) -> Result<Self, MailerError> {
        let server = Server::new(url, settings)?;
        Ok(Self {
            server,
            budget: settings.budget,
            kept: Mutex::default(),
            talks: Semaphore::new(TALKS_MAX),
        })
    }

    /// Ends within the budget. What lettre would log is dropped: it writes down passwords,
    /// addresses and mails.
    pub(crate) async fn send(&self, mail: &Mail) -> Sent {
        let envelope = match Envelope::new(mail) {
            Ok(envelope) => envelope,
            Err(sent) => return sent,
        };
        let work = self.in_turn(&envelope).with_subscriber(NoSubscriber::default());
        match timeout(self.budget, work).await {
            Ok(Ok(())) => Sent::Accepted,
            Ok(Err(trouble)) => trouble.into(),
            Err(_) => Sent::Failed("no answer in time".to_owned()),
        }
    }

    async fn in_turn(&self, envelope: &Envelope<'_>) -> Result<(), Trouble> {
        // Never closed: the permit always comes.
        let _turn = self.talks.acquire().await;
        self.hand_over(envelope).await
    }

    /// A kept connection that ends before it heard of the mail is replaced by a new one; where
    /// one is gone, so are those that rested longer.
    async fn hand_over(&self, envelope: &Envelope<'_>) -> Result<(), Trouble> {
        while let Some(mut kept) = self.take() {
            if !kept.wakes(self.budget / 4).await {
                self.kept().clear();
                continue;
            }
            match self.say(kept, envelope).await {
                Err(trouble) if trouble.is_farewell() => {}
                said => return said,
            }
        }
        let session = Session::new(self.server.connect().await?);
        self.say(session, envelope).await
    }

    /// A connection on which every command was answered is kept for the next mail.
    async fn say(&self, mut session: Session, envelope: &Envelope<'_>) -> Result<(), Trouble> {
        let said = session.say(envelope).await;
        if said.as_ref().err().is_none_or(Trouble::leaves_connection) {
            self.keep(session);
        }
        said
    }

    fn take(&self) -> Option<Session> {
        self.kept().pop()
    }

    fn keep(&self, session: Session) {
        let mut kept = self.kept();
        if kept.len() < KEPT_MAX {
            kept.push(session);
        }
    }

    fn kept(&self) -> MutexGuard<'_, Vec<Session>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Relay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Relay").field("server", &self.server).finish_non_exhaustive()
    }
}
