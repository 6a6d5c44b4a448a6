//! One mail server: the connections to it, and the commands of one mail at a time.
//!
//! - `server` connects, encrypts and signs in.
//! - `session` sends the commands of one mail, and knows the command that failed.
//! - `turns` shares the server among the firms.
//! - `trouble` judges a failure, and decides which answers are about the recipient.
//! - `starttls` is the talk in plain text before TLS.
//! - `stream` is the connection, and bounds each answer.
//!
//! Once the mail itself is on its way, no command is repeated.

mod server;
mod session;
mod settings;
mod starttls;
mod stream;
mod trouble;
mod turns;

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::timeout;
use tracing::instrument::WithSubscriber;
use tracing::subscriber::NoSubscriber;
use uuid::Uuid;

use crate::mail::Mail;
use crate::outcome::MailOutcome;
use crate::smtp_url::SmtpUrl;
use server::MailServer;
use session::{Envelope, SmtpSession};
use trouble::SmtpFailure;
use turns::MailTurns;

pub use settings::{MailerError, SmtpSettings};
pub(crate) use turns::RelayTurn;

/// The most connections that are kept for later mails.
const KEPT_SESSIONS_MAX: usize = 4;

/// A server and the connections to it.
pub(crate) struct SmtpRelay {
    server: MailServer,
    budget: Duration,
    kept: Mutex<Vec<SmtpSession>>,
    turns: MailTurns,
}

impl SmtpRelay {
    pub(crate) fn new(url: &SmtpUrl, settings: &SmtpSettings) -> Result<Self, MailerError> {
        let server = MailServer::new(url, settings)?;
        Ok(Self {
            server,
            budget: settings.budget,
            kept: Mutex::default(),
            turns: MailTurns::default(),
        })
    }

    /// A turn for a mail of this firm; `None` if none is free in time.
    pub(crate) async fn take_turn(&self, firm_id: Uuid, wait_max: Duration) -> Option<RelayTurn> {
        self.turns.take_turn(firm_id, wait_max).await
    }

    /// Sends a mail within the budget. lettre's logs are dropped: they hold passwords, addresses
    /// and mails.
    pub(crate) async fn send_mail(&self, mail: &Mail, _turn: &RelayTurn) -> MailOutcome {
        let envelope = match Envelope::new(mail) {
            Ok(envelope) => envelope,
            Err(sent) => return sent,
        };
        let work = self.hand_over(&envelope).with_subscriber(NoSubscriber::default());
        match timeout(self.budget, work).await {
            Ok(Ok(())) => MailOutcome::Accepted,
            Ok(Err(trouble)) => trouble.into(),
            Err(_) => MailOutcome::Failed("no answer in time".to_owned()),
        }
    }

    /// Sends on a kept connection, or on a new one. If a kept connection ended before it heard of
    /// the mail, the next one is used. If a connection is no longer open, all that have rested
    /// longer are dropped too.
    async fn hand_over(&self, envelope: &Envelope<'_>) -> Result<(), SmtpFailure> {
        while let Some(mut kept) = self.take_kept() {
            if !kept.is_still_open(self.budget / 4).await {
                self.kept_sessions().clear();
                continue;
            }
            match self.send_in_session(kept, envelope).await {
                Err(trouble) if trouble.is_farewell() => {}
                said => return said,
            }
        }
        let session = SmtpSession::new(self.server.connect().await?);
        self.send_in_session(session, envelope).await
    }

    /// Sends a mail. Keeps a connection on which every command was answered.
    async fn send_in_session(
        &self,
        mut session: SmtpSession,
        envelope: &Envelope<'_>,
    ) -> Result<(), SmtpFailure> {
        let said = session.send_mail(envelope).await;
        if said.as_ref().err().is_none_or(SmtpFailure::leaves_connection) {
            self.keep_session(session);
        }
        said
    }

    fn take_kept(&self) -> Option<SmtpSession> {
        self.kept_sessions().pop()
    }

    fn keep_session(&self, session: SmtpSession) {
        let mut kept = self.kept_sessions();
        if kept.len() < KEPT_SESSIONS_MAX {
            kept.push(session);
        }
    }

    fn kept_sessions(&self) -> MutexGuard<'_, Vec<SmtpSession>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for SmtpRelay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Relay").field("server", &self.server).finish_non_exhaustive()
    }
}
