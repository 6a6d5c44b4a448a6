//! Connects to a server, encrypts and signs in. Mails are unknown here.

use std::fmt;
use std::time::Duration;

use lettre::transport::smtp::authentication::{Credentials, Mechanism};
use lettre::transport::smtp::client::{AsyncSmtpConnection, Certificate, TlsParameters};
use lettre::transport::smtp::extension::ClientId;

use super::guarded::PreTlsStream;
use super::trouble::{SmtpFailure, SmtpStep};
use crate::mailer::{MailerError, SmtpSettings};
use crate::smtp_url::{SmtpEncryption, SmtpUrl};

/// The time for one address of the server. It leaves time for the next address and for the mail.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// A server, and the way to sign in.
pub(super) struct MailServer {
    url: SmtpUrl,
    ehlo: ClientId,
    tls: TlsParameters,
    credentials: Option<Credentials>,
}

impl MailServer {
    pub(super) fn new(url: &SmtpUrl, settings: &SmtpSettings) -> Result<Self, MailerError> {
        let login = url.login.as_ref();
        Ok(Self {
            ehlo: url.ehlo.clone().map_or_else(ClientId::default, ClientId::Domain),
            tls: tls(&url.host, settings.extra_roots.as_deref())?,
            credentials: login
                .map(|login| Credentials::new(login.user.clone(), login.password.clone())),
            url: url.clone(),
        })
    }

    /// A connection that is ready for mail.
    pub(super) async fn connect(&self) -> Result<AsyncSmtpConnection, SmtpFailure> {
        let mut connection = match self.url.encryption {
            SmtpEncryption::StartTls => self.upgraded().await?,
            SmtpEncryption::Implicit => self.direct(Some(self.tls.clone())).await?,
            SmtpEncryption::None => self.direct(None).await?,
        };
        if let Some(credentials) = &self.credentials {
            let ways = [Mechanism::Plain, Mechanism::Login];
            let signed_in = connection.auth(&ways, credentials).await;
            signed_in.map_err(|error| SmtpFailure::new(SmtpStep::SignIn, &error))?;
        }
        Ok(connection)
    }

    async fn direct(&self, tls: Option<TlsParameters>) -> Result<AsyncSmtpConnection, SmtpFailure> {
        let at = (self.url.host.as_str(), self.url.port);
        AsyncSmtpConnection::connect_tokio1(at, Some(CONNECT_TIMEOUT), &self.ehlo, tls, None)
            .await
            .map_err(|error| SmtpFailure::new(SmtpStep::Connect, &error))
    }

    /// Only EHLO and STARTTLS are sent before the connection is encrypted (RFC 3207).
    async fn upgraded(&self) -> Result<AsyncSmtpConnection, SmtpFailure> {
        let tcp = PreTlsStream::connect(&self.url.host, self.url.port, CONNECT_TIMEOUT)
            .await
            .map_err(|error| SmtpFailure::unreachable(&error))?;
        let plain = AsyncSmtpConnection::connect_with_transport(Box::new(tcp), &self.ehlo).await;
        let mut connection = plain.map_err(|error| SmtpFailure::new(SmtpStep::Connect, &error))?;
        let encrypted = connection.starttls(self.tls.clone(), &self.ehlo).await;
        encrypted.map_err(|error| SmtpFailure::new(SmtpStep::Encrypt, &error))?;
        Ok(connection)
    }
}

/// The server proves its name by the platform's roots, or by the extra roots.
fn tls(host: &str, extra_roots: Option<&[u8]>) -> Result<TlsParameters, MailerError> {
    let mut builder = TlsParameters::builder(host.to_owned());
    if let Some(pem) = extra_roots {
        builder = builder.add_root_certificate(roots(pem).ok_or(MailerError::Roots)?);
    }
    builder.build().map_err(|_| MailerError::Roots)
}

/// Checks the PEM text, because lettre reads any text as zero certificates.
fn roots(pem: &[u8]) -> Option<Certificate> {
    let holds_any = str::from_utf8(pem).ok()?.contains("-----BEGIN CERTIFICATE-----");
    Certificate::from_pem(pem).ok().filter(|_| holds_any)
}

impl fmt::Debug for MailServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.url.fmt(f)
    }
}
