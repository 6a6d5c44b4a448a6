//! TLS with a certificate and a key from PEM files, and mutual TLS with the roots of callers'
//! certificates. The files can be read again while the door is served.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use rustls::crypto::ring;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{VerifierBuilderError, WebPkiClientVerifier};
use rustls::{RootCertStore, ServerConfig};
use tokio_rustls::TlsAcceptor;

/// A certificate and its key. Clones share the content, so a reload reaches all of them.
#[derive(Clone)]
pub struct TlsCertificate(Arc<CertificateFiles>);

struct CertificateFiles {
    paths: TlsPaths,
    config: RwLock<Arc<ServerConfig>>,
}

/// The PEM files of a door.
#[derive(Debug, Clone)]
pub struct TlsPaths {
    /// The door's certificate with its chain.
    pub certificate: PathBuf,
    /// The private key of that certificate.
    pub key: PathBuf,
    /// The roots of callers' certificates. With them, a caller without such a certificate is
    /// refused (mutual TLS).
    pub client_roots: Option<PathBuf>,
}

/// Why a certificate cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The file cannot be read, or is not PEM.
    #[error("{}: {source}", .path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: pem::Error,
    },
    /// The file has no certificate.
    #[error("{} holds no certificate (PEM)", .0.display())]
    NoCertificate(PathBuf),
    /// Both files can be read, but do not belong together.
    #[error("{} with {}: {source}", .certificate.display(), .key.display())]
    Unusable {
        /// The certificate's file.
        certificate: PathBuf,
        /// The key's file.
        key: PathBuf,
        /// The cause.
        source: rustls::Error,
    },
    /// The roots of callers' certificates cannot be used.
    #[error("{}: {source}", .path.display())]
    UnusableRoots {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: VerifierBuilderError,
    },
}

impl TlsPaths {
    /// The certificate with its chain, and the private key.
    pub(crate) fn read_pair(
        &self,
    ) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), TlsError> {
        let chain = read_certificates(&self.certificate)?;
        let key = PrivateKeyDer::from_pem_file(&self.key);
        Ok((chain, key.map_err(|error| unreadable_file(&self.key, error))?))
    }

    /// The error of a pair that does not belong together.
    pub(crate) fn unusable_pair(&self, source: rustls::Error) -> TlsError {
        TlsError::Unusable { certificate: self.certificate.clone(), key: self.key.clone(), source }
    }
}

impl TlsCertificate {
    /// Reads the files.
    pub fn load(paths: TlsPaths) -> Result<Self, TlsError> {
        let config = RwLock::new(read_config(&paths)?);
        Ok(Self(Arc::new(CertificateFiles { paths, config })))
    }

    /// Reads the files again for new connections. After an error the old content stays.
    pub fn reload(&self) -> Result<(), TlsError> {
        let config = read_config(&self.0.paths)?;
        *self.0.config.write().unwrap_or_else(PoisonError::into_inner) = config;
        Ok(())
    }

    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        let config = self.0.config.read().unwrap_or_else(PoisonError::into_inner);
        TlsAcceptor::from(Arc::clone(&config))
    }
}

impl fmt::Debug for TlsCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TlsCertificate").field(&self.0.paths).finish()
    }
}

fn read_config(paths: &TlsPaths) -> Result<Arc<ServerConfig>, TlsError> {
    let (chain, key) = paths.read_pair()?;
    let clients = match &paths.client_roots {
        Some(roots) => client_verifier(roots)?,
        None => WebPkiClientVerifier::no_client_auth(),
    };
    server_config(clients, chain, key).map(Arc::new).map_err(|source| paths.unusable_pair(source))
}

fn read_certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let certificates = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| unreadable_file(path, error))?;
    if certificates.is_empty() {
        return Err(TlsError::NoCertificate(path.into()));
    }
    Ok(certificates)
}

fn unreadable_file(path: &Path, source: pem::Error) -> TlsError {
    TlsError::Unreadable { path: path.into(), source }
}

fn client_verifier(path: &Path) -> Result<Arc<dyn ClientCertVerifier>, TlsError> {
    let mut roots = RootCertStore::empty();
    let (added, _) = roots.add_parsable_certificates(read_certificates(path)?);
    if added == 0 {
        return Err(TlsError::NoCertificate(path.into()));
    }
    let provider = Arc::new(ring::default_provider());
    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
        .build()
        .map_err(|source| TlsError::UnusableRoots { path: path.into(), source })
}

/// Names the provider, so that no provider installed in the process matters.
fn server_config(
    clients: Arc<dyn ClientCertVerifier>,
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
) -> Result<ServerConfig, rustls::Error> {
    let provider = Arc::new(ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_client_cert_verifier(clients)
        .with_single_cert(chain, key)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}
