//! The commands of one mail on one connection (RFC 5321, section 3.3). Each waits for its answer,
//! so that a refusal belongs to its command.

use std::time::Duration;

use lettre::Address;
use lettre::transport::smtp::Error;
use lettre::transport::smtp::client::AsyncSmtpConnection;
use lettre::transport::smtp::commands::{Data, Mail as MailFrom, Rcpt, Rset};
use lettre::transport::smtp::response::Severity;
use tokio::time::{Instant, timeout};

use super::trouble::{SmtpFailure, SmtpStep};
use crate::mail::Mail;
use crate::outcome::MailOutcome;

/// The longest rest of a kept connection. Servers may hang up after five minutes without a command
/// (RFC 5321, section 4.5.3.2.7). Devices on the way do so earlier and silently.
const IDLE_MAX: Duration = Duration::from_secs(60);

/// A mail in the form that the commands need.
pub(super) struct Envelope<'a> {
    from: Address,
    to: Address,
    content: &'a [u8],
}

impl<'a> Envelope<'a> {
    /// The envelope. A recipient beyond the limits of RFC 5321, section 4.5.3.1, is refused.
    pub(super) fn new(mail: &'a Mail) -> Result<Self, MailOutcome> {
        let from = mail.from.parse().map_err(|_| MailOutcome::Failed("not a sender".to_owned()))?;
        let to = mail.to.parse().map_err(|_| MailOutcome::Refused { code: None })?;
        // lettre ends the content with its own line break.
        let content = mail.bytes.strip_suffix(b"\r\n").unwrap_or(&mail.bytes);
        Ok(Self { from, to, content })
    }
}

/// A connection for several mails, one after another.
pub(super) struct SmtpSession {
    connection: AsyncSmtpConnection,
    used: Instant,
}

impl SmtpSession {
    pub(super) fn new(connection: AsyncSmtpConnection) -> Self {
        Self { connection, used: Instant::now() }
    }

    /// After a rest: whether the server still answers. Resets the session.
    pub(super) async fn is_still_open(&mut self, patience: Duration) -> bool {
        self.used.elapsed() < IDLE_MAX
            && matches!(timeout(patience, self.connection.command(Rset)).await, Ok(Ok(_)))
    }

    /// Sends one mail.
    pub(super) async fn send_mail(&mut self, envelope: &Envelope<'_>) -> Result<(), SmtpFailure> {
        let said = self.say_all(envelope).await;
        self.used = Instant::now();
        said
    }

    async fn say_all(&mut self, envelope: &Envelope<'_>) -> Result<(), SmtpFailure> {
        let server = &mut self.connection;
        let at = |step| move |error: Error| SmtpFailure::new(step, &error);
        let from = MailFrom::new(Some(envelope.from.clone()), Vec::new());
        server.command(from).await.map_err(at(SmtpStep::Sender))?;
        let to = Rcpt::new(envelope.to.clone(), Vec::new());
        server.command(to).await.map_err(at(SmtpStep::Recipient))?;
        server.command(Data).await.map_err(at(SmtpStep::Data))?;
        let taken = server.message(envelope.content).await.map_err(at(SmtpStep::Content))?;
        // Any 2xx means that the server has the mail.
        match taken.code().severity {
            Severity::PositiveCompletion => Ok(()),
            _ => Err(SmtpFailure::unreadable_answer(SmtpStep::Content)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::values::EmailAddress;
    use proptest::prelude::*;

    proptest! {
        /// Only an address beyond the limits is refused without asking the server.
        #[test]
        fn a15_every_allowed_address_is_writable(
            local in "[!#-'*+/-9=?A-Z^-~-]{1,31}(\\.[a-z0-9]{1,31})?",
            domain in "([a-z0-9]([a-z0-9-]{0,9}[a-z0-9])?\\.){1,20}[a-z][a-z0-9]{0,9}",
        ) {
            if let Ok(address) = format!("{local}@{domain}").parse::<EmailAddress>() {
                prop_assert!(address.to_string().parse::<Address>().is_ok(), "{address}");
            }
        }
    }
}
