//! TLS: the certificate, its reading anew, and callers that speak something else.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use door::{DoorSettings, DoorTimeouts, TlsCertificate, TlsPaths};
use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::helper::{Caller, HELLO, SHORT, Served, serve};

/// A folder with a certificate and its key.
struct Papers(TempDir);

impl Papers {
    fn new() -> (Self, CertificateDer<'static>) {
        let papers = Self(tempfile::tempdir().unwrap());
        let certificate = papers.renew();
        (papers, certificate)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn renew(&self) -> CertificateDer<'static> {
        let CertifiedKey { cert, signing_key } =
            generate_simple_self_signed(["door.example".to_owned()]).unwrap();
        fs::write(self.path("cert.pem"), cert.pem()).unwrap();
        fs::write(self.path("key.pem"), signing_key.serialize_pem()).unwrap();
        cert.der().clone()
    }

    fn load(&self) -> TlsCertificate {
        TlsCertificate::load(self.paths()).unwrap()
    }

    fn paths(&self) -> TlsPaths {
        let certificate = self.path("cert.pem");
        TlsPaths { certificate, key: self.path("key.pem"), client_roots: None }
    }

    /// A door for callers with a certificate of these papers.
    fn load_mutual(&self, clients: &Papers) -> TlsCertificate {
        let client_roots = Some(clients.path("cert.pem"));
        TlsCertificate::load(TlsPaths { client_roots, ..self.paths() }).unwrap()
    }
}

async fn serve_tls(tls: &TlsCertificate) -> Served {
    serve(DoorSettings { tls: Some(tls.clone()), ..DoorSettings::default() }).await
}

/// A caller that trusts one certificate.
async fn connect(
    served: &Served,
    trusted: &CertificateDer<'static>,
    protocols: &[&str],
) -> std::io::Result<Caller<TlsStream<TcpStream>>> {
    let mut roots = RootCertStore::empty();
    roots.add(trusted.clone()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    let stream = TcpStream::connect(served.addr).await?;
    let name = "door.example".try_into().unwrap();
    Ok(Caller(TlsConnector::from(Arc::new(config)).connect(name, stream).await?))
}

#[tokio::test]
async fn tls_requests_are_answered_or_refused() {
    let (papers, certificate) = Papers::new();
    let served = serve_tls(&papers.load()).await;
    let mut caller = connect(&served, &certificate, &["h2", "http/1.1"]).await.unwrap();
    assert_eq!(caller.0.get_ref().1.alpn_protocol(), Some(&b"http/1.1"[..]));
    caller.send(HELLO.repeat(2)).await;
    caller.answer().await.assert_is(200, "hello");
    caller.answer().await.assert_is(200, "hello");
    caller.send("GET / HTTP/1.1\n\n").await;
    caller.answer().await.assert_refusal(400);
    caller.assert_closed().await;
}

/// The caller sends a large body before it reads.
#[tokio::test]
async fn a7_no_answer_over_tls_is_lost() {
    let (papers, certificate) = Papers::new();
    let served = serve_tls(&papers.load()).await;
    let mut caller = connect(&served, &certificate, &[]).await.unwrap();
    caller.send("POST /early HTTP/1.1\r\nHost: a\r\nContent-Length: 4194304\r\n\r\n").await;
    caller.send(vec![b'x'; 4 << 20]).await;
    caller.answer().await.assert_is(413, "too large");
    caller.assert_closed().await;
}

#[tokio::test]
async fn a_new_certificate_is_for_new_connections() {
    let (papers, old) = Papers::new();
    let tls = papers.load();
    let served = serve_tls(&tls).await;
    let mut before = connect(&served, &old, &[]).await.unwrap();

    let new = papers.renew();
    connect(&served, &old, &[]).await.unwrap();
    tls.reload().unwrap();
    connect(&served, &old, &[]).await.err().unwrap();
    let mut after = connect(&served, &new, &[]).await.unwrap();
    for caller in [&mut before, &mut after] {
        caller.send(HELLO).await;
        caller.answer().await.assert_is(200, "hello");
    }
}

/// The error names the file.
#[tokio::test]
async fn an_unreadable_certificate_changes_nothing() {
    let (papers, certificate) = Papers::new();
    let tls = papers.load();
    let served = serve_tls(&tls).await;
    let spoilt = |name: &str, text: &str| {
        let path = papers.path(name);
        let good = fs::read(&path).unwrap();
        fs::write(&path, text).unwrap();
        let error = tls.reload().unwrap_err().to_string();
        fs::write(&path, good).unwrap();
        assert!(error.contains(path.to_str().unwrap()), "{error}");
    };
    spoilt("cert.pem", "nonsense");
    spoilt("cert.pem", "-----BEGIN CERTIFICATE-----\n%%%\n-----END CERTIFICATE-----\n");
    spoilt("cert.pem", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
    spoilt("key.pem", "nonsense");
    let (other, _) = Papers::new();
    spoilt("key.pem", &fs::read_to_string(other.path("key.pem")).unwrap());
    connect(&served, &certificate, &[]).await.unwrap();
}

#[test]
fn a_missing_file_is_named() {
    let (papers, _) = Papers::new();
    let missing = || PathBuf::from("/nowhere/it.pem");
    for paths in [
        TlsPaths { key: missing(), ..papers.paths() },
        TlsPaths { client_roots: Some(missing()), ..papers.paths() },
    ] {
        let error = TlsCertificate::load(paths).unwrap_err().to_string();
        assert!(error.contains("/nowhere/it.pem"), "{error}");
    }
    let no_certificate = TlsPaths { client_roots: Some(papers.path("key.pem")), ..papers.paths() };
    let error = TlsCertificate::load(no_certificate).unwrap_err().to_string();
    assert!(error.contains("key.pem holds no certificate"), "{error}");
    assert!(format!("{:?}", papers.load()).contains("cert.pem"));
}

#[tokio::test]
async fn plain_and_http_2_callers_are_closed() {
    let (papers, certificate) = Papers::new();
    let served = serve_tls(&papers.load()).await;
    let mut plain = served.caller().await;
    plain.send(HELLO).await;
    let mut said = Vec::new();
    let _ = tokio::io::AsyncReadExt::read_to_end(&mut plain.0, &mut said).await;
    assert!(!said.starts_with(b"HTTP"), "{said:?}");
    connect(&served, &certificate, &["h2"]).await.err().unwrap();
    connect(&served, &certificate, &[]).await.unwrap();
}

#[tokio::test]
async fn a22_an_absent_handshake_is_given_up() {
    let (papers, _) = Papers::new();
    let timeouts = DoorTimeouts { handshake: SHORT, ..DoorTimeouts::default() };
    let tls = Some(papers.load());
    let served = serve(DoorSettings { tls, timeouts, ..DoorSettings::default() }).await;
    served.caller().await.assert_closed().await;
}

#[tokio::test]
async fn a_handshake_does_not_hold_the_stop() {
    let (papers, _) = Papers::new();
    let served = serve_tls(&papers.load()).await;
    let mut caller = served.caller().await;
    caller.send([22, 3, 1]).await;
    served.stop.cancel();
    served.ended().await;
}

/// A caller that trusts the door, and shows a certificate of these papers.
async fn connect_as(
    served: &Served,
    trusted: &CertificateDer<'static>,
    own: &Papers,
) -> Caller<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    roots.add(trusted.clone()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let certificate = CertificateDer::from_pem_file(own.path("cert.pem")).unwrap();
    let key = PrivateKeyDer::from_pem_file(own.path("key.pem")).unwrap();
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_client_auth_cert(vec![certificate], key)
        .unwrap();
    let stream = TcpStream::connect(served.addr).await.unwrap();
    let name = "door.example".try_into().unwrap();
    Caller(TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap())
}

/// With TLS 1.3 the handshake ends at the caller before the door has looked at its certificate.
async fn is_refused(mut caller: Caller<TlsStream<TcpStream>>) -> bool {
    let _ = tokio::io::AsyncWriteExt::write_all(&mut caller.0, HELLO.as_bytes()).await;
    let mut said = Vec::new();
    let read = tokio::io::AsyncReadExt::read_to_end(&mut caller.0, &mut said).await;
    read.is_err() && said.is_empty()
}

/// A door with roots for callers refuses a caller without a certificate of these roots.
#[tokio::test]
async fn mutual_tls_needs_a_callers_certificate() {
    let (papers, certificate) = Papers::new();
    let (clients, _) = Papers::new();
    let (strangers, _) = Papers::new();
    let served = serve_tls(&papers.load_mutual(&clients)).await;
    let mut caller = connect_as(&served, &certificate, &clients).await;
    caller.send(HELLO).await;
    caller.answer().await.assert_is(200, "hello");
    assert!(is_refused(connect_as(&served, &certificate, &strangers).await).await);
    assert!(is_refused(connect(&served, &certificate, &[]).await.unwrap()).await);
}
