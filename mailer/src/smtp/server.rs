//! Connects to a server, encrypts and signs in. Mails are unknown here.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use lettre::transport::smtp::authentication::{Credentials, Mechanism};
use lettre::transport::smtp::client::{AsyncSmtpConnection, AsyncTokioStream};
use lettre::transport::smtp::extension::ClientId;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore, crypto::ring};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::settings::{MailerError, SmtpSettings};
use super::starttls::request_tls;
use super::stream::{BoundedStream, open_tcp};
use super::trouble::{SmtpFailure, SmtpStep};
use crate::smtp_url::{SmtpEncryption, SmtpUrl};

/// The time for one address of the server. It leaves time for the next address and for the mail.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// A server, and the way to sign in.
pub(super) struct MailServer {
    url: SmtpUrl,
    ehlo: ClientId,
    tls: TlsConnector,
    credentials: Option<Credentials>,
}

impl MailServer {
    pub(super) fn new(url: &SmtpUrl, settings: &SmtpSettings) -> Result<Self, MailerError> {
        let login = url.login.as_ref();
        Ok(Self {
            ehlo: url.ehlo.clone().map_or_else(ClientId::default, ClientId::Domain),
            tls: Arc::new(tls_config(settings.extra_roots.as_deref())?).into(),
            credentials: login
                .map(|login| Credentials::new(login.user.clone(), login.password.clone())),
            url: url.clone(),
        })
    }

    /// A connection that is ready for mail.
    pub(super) async fn connect(&self) -> Result<AsyncSmtpConnection, SmtpFailure> {
        let tcp = open_tcp(&self.url.host, self.url.port, CONNECT_TIMEOUT).await;
        let tcp = tcp.map_err(|error| SmtpFailure::broken(SmtpStep::Connect, &error))?;
        let stream: Box<dyn AsyncTokioStream> = match self.url.encryption {
            SmtpEncryption::StartTls => Box::new(self.upgrade_to_tls(tcp).await?),
            SmtpEncryption::Implicit => {
                Box::new(self.encrypt_stream(tcp, SmtpStep::Connect).await?)
            }
            SmtpEncryption::None => Box::new(bound_stream(tcp)?),
        };
        let greeted = AsyncSmtpConnection::connect_with_transport(stream, &self.ehlo).await;
        let mut connection = greeted.map_err(|error| self.greeting_refusal(&error))?;
        if let Some(credentials) = &self.credentials {
            let ways = [Mechanism::Plain, Mechanism::Login];
            let signed_in = connection.auth(&ways, credentials).await;
            signed_in.map_err(|error| SmtpFailure::new(SmtpStep::SignIn, &error))?;
        }
        Ok(connection)
    }

    /// An encrypted connection whose server has greeted in plain text. The client waits for a
    /// greeting, so it gets one here.
    async fn upgrade_to_tls(
        &self,
        tcp: TcpStream,
    ) -> Result<BoundedStream<TlsStream<TcpStream>>, SmtpFailure> {
        let mut plain = bound_stream(tcp)?;
        request_tls(&mut plain, &self.ehlo).await?;
        let encrypted = self.encrypt_stream(plain.into_inner(), SmtpStep::Encrypt).await?;
        Ok(encrypted.with_preface(b"220 encrypted\r\n"))
    }

    async fn encrypt_stream(
        &self,
        tcp: TcpStream,
        step: SmtpStep,
    ) -> Result<BoundedStream<TlsStream<TcpStream>>, SmtpFailure> {
        let name = ServerName::try_from(self.url.host.clone());
        let name = name.map_err(|error| SmtpFailure::broken(step, &error))?;
        let peer = tcp.peer_addr().map_err(|error| SmtpFailure::broken(step, &error))?;
        let encrypted = self.tls.connect(name, tcp).await;
        let encrypted = encrypted.map_err(|error| SmtpFailure::broken(step, &error))?;
        Ok(BoundedStream::new(encrypted, peer))
    }

    /// The refusal of the greeting or of the first EHLO that the client sent.
    fn greeting_refusal(&self, error: &lettre::transport::smtp::Error) -> SmtpFailure {
        let step = match self.url.encryption {
            SmtpEncryption::StartTls => SmtpStep::Encrypt,
            SmtpEncryption::Implicit | SmtpEncryption::None => SmtpStep::Connect,
        };
        SmtpFailure::new(step, error)
    }
}

fn bound_stream(tcp: TcpStream) -> Result<BoundedStream<TcpStream>, SmtpFailure> {
    let peer = tcp.peer_addr();
    let peer = peer.map_err(|error| SmtpFailure::broken(SmtpStep::Connect, &error))?;
    Ok(BoundedStream::new(tcp, peer))
}

/// The server proves its name by the platform's roots, or by the extra roots.
fn tls_config(extra_roots: Option<&[u8]>) -> Result<ClientConfig, MailerError> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if let Some(pem) = extra_roots {
        for root in read_roots(pem)? {
            roots.add(root).map_err(|_| MailerError::Roots)?;
        }
    }
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|_| MailerError::Roots)?;
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}

fn read_roots(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, MailerError> {
    let roots: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    roots.ok().filter(|roots| !roots.is_empty()).ok_or(MailerError::Roots)
}

impl fmt::Debug for MailServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.url.fmt(f)
    }
}
