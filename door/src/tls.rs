//! TLS with a certificate and a key from PEM files. Both files can be read again while the door is
//! served.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

/// A certificate and its key. Clones share the content, so a reload reaches all of them.
#[derive(Clone)]
pub struct TlsCertificate(Arc<CertificateFiles>);

struct CertificateFiles {
    certificate: PathBuf,
    key: PathBuf,
    config: RwLock<Arc<ServerConfig>>,
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
}

impl TlsCertificate {
    /// Reads a certificate with its chain, and its key.
    pub fn load(
        certificate: impl Into<PathBuf>,
        key: impl Into<PathBuf>,
    ) -> Result<Self, TlsError> {
        let certificate = certificate.into();
        let key = key.into();
        let config = RwLock::new(read(&certificate, &key)?);
        Ok(Self(Arc::new(CertificateFiles { certificate, key, config })))
    }

    /// Reads both files again for new connections. After an error the old content stays.
    pub fn reload(&self) -> Result<(), TlsError> {
        let config = read(&self.0.certificate, &self.0.key)?;
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
        let CertificateFiles { certificate, key, .. } = &*self.0;
        f.debug_struct("Tls")
            .field("certificate", certificate)
            .field("key", key)
            .finish_non_exhaustive()
    }
}

fn read(certificate: &Path, key: &Path) -> Result<Arc<ServerConfig>, TlsError> {
    let unreadable = |path: &Path, source| TlsError::Unreadable { path: path.into(), source };
    let chain = CertificateDer::pem_file_iter(certificate)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| unreadable(certificate, error))?;
    if chain.is_empty() {
        return Err(TlsError::NoCertificate(certificate.into()));
    }
    let private = PrivateKeyDer::from_pem_file(key).map_err(|error| unreadable(key, error))?;
    config(chain, private).map(Arc::new).map_err(|source| TlsError::Unusable {
        certificate: certificate.into(),
        key: key.into(),
        source,
    })
}

/// Names the provider, so that no provider installed in the process matters.
fn config(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
) -> Result<ServerConfig, rustls::Error> {
    let provider = Arc::new(ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}
