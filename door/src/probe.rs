//! One question to a door of this machine, as a supervisor asks it: `GET` of a path, answered by a
//! status.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, Error, SignatureScheme};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;

use crate::tls::{TlsError, TlsPaths};

/// Bytes of an answer that are read. Its status stands in the first twelve.
const ANSWER_BYTES_MAX: u64 = 64 * 1024;

/// The address of a door that is asked.
#[derive(Debug, Clone, Copy)]
pub enum ProbedDoor<'a> {
    /// TCP. The address of all interfaces stands for the loopback one.
    Tcp(SocketAddr),
    /// The path of a Unix socket.
    Unix(&'a Path),
}

/// Why a door gave no status.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// Nobody listens, or the connection broke.
    #[error(transparent)]
    Broken(#[from] io::Error),
    /// The certificate of a door with mutual TLS cannot be used.
    #[error(transparent)]
    Certificate(#[from] TlsError),
    /// The answer is not HTTP: a door with TLS was asked in clear.
    #[error("no HTTP answer")]
    NoStatus,
}

/// Asks a door for this path, and returns the status of its answer. The caller limits the time. A
/// door with mutual TLS is shown the door's own certificate, which must be of its roots.
pub async fn probe_door(
    door: ProbedDoor<'_>,
    tls: Option<&TlsPaths>,
    path: &str,
) -> Result<u16, ProbeError> {
    match (door, tls) {
        (ProbedDoor::Unix(socket), None) => {
            ask_status(UnixStream::connect(socket).await?, path).await
        }
        (ProbedDoor::Unix(socket), Some(tls)) => {
            ask_over_tls(UnixStream::connect(socket).await?, tls, path).await
        }
        (ProbedDoor::Tcp(addr), None) => {
            ask_status(TcpStream::connect(reachable_addr(addr)).await?, path).await
        }
        (ProbedDoor::Tcp(addr), Some(tls)) => {
            ask_over_tls(TcpStream::connect(reachable_addr(addr)).await?, tls, path).await
        }
    }
}

/// The address by which this machine reaches a door.
fn reachable_addr(addr: SocketAddr) -> SocketAddr {
    let ip = match addr.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, addr.port())
}

async fn ask_over_tls<S>(stream: S, tls: &TlsPaths, path: &str) -> Result<u16, ProbeError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let connector = TlsConnector::from(Arc::new(client_config(tls)?));
    let name = ServerName::IpAddress(Ipv4Addr::LOCALHOST.into());
    ask_status(connector.connect(name, stream).await?, path).await
}

async fn ask_status<S>(mut stream: S, path: &str) -> Result<u16, ProbeError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    // A door may end TLS without a farewell: the bytes before that count.
    let ended = stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer).await;
    match answer_status(&answer) {
        Some(status) => Ok(status),
        None => Err(ended.err().map_or(ProbeError::NoStatus, ProbeError::Broken)),
    }
}

/// The status of an HTTP/1.1 answer.
fn answer_status(answer: &[u8]) -> Option<u16> {
    let digits = answer.strip_prefix(b"HTTP/1.1 ")?.get(..3)?;
    std::str::from_utf8(digits).ok()?.parse().ok()
}

fn client_config(tls: &TlsPaths) -> Result<ClientConfig, ProbeError> {
    let provider = Arc::new(ring::default_provider());
    let unusable = |source| ProbeError::Certificate(tls.unusable_pair(source));
    let config = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(unusable)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyCertificate(provider)));
    if tls.client_roots.is_none() {
        return Ok(config.with_no_client_auth());
    }
    let (chain, key) = tls.read_pair()?;
    config.with_client_auth_cert(chain, key).map_err(unusable)
}

/// Takes every certificate. A probe sends no secret, and a renewed file is on the disk before the
/// door reads it.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, cert, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, cert, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_door_everywhere_is_asked_on_loopback() {
        for (bound, asked) in [
            ("0.0.0.0:8081", "127.0.0.1:8081"),
            ("[::]:8081", "[::1]:8081"),
            ("10.0.0.7:8081", "10.0.0.7:8081"),
        ] {
            assert_eq!(reachable_addr(bound.parse().unwrap()), asked.parse().unwrap());
        }
    }

    #[test]
    fn a_status_is_read_from_http_alone() {
        assert_eq!(answer_status(b"HTTP/1.1 503 Service Unavailable\r\n\r\n"), Some(503));
        for other in ["", "HTTP/1.1 2", "HTTP/1.1 abc", "\u{15}\u{3}\u{1}", "HTTP/2 200"] {
            assert_eq!(answer_status(other.as_bytes()), None, "{other:?}");
        }
    }
}
