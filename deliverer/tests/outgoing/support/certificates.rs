//! A certificate authority of the tests' own.

use deliverer::outgoing::{OutgoingClient, OutgoingConfig};
use rcgen::{CertificateParams, CertifiedIssuer, IsCa, KeyPair, date_time_ymd};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::ServerConfig;

use super::config;

/// Signs the certificates that a test asks for.
pub(crate) struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    /// A server that these names belong to.
    pub(crate) fn server(&self, names: &[&str]) -> ServerConfig {
        self.signed(&params(names))
    }

    /// A server whose certificate has run out.
    pub(crate) fn expired(&self, names: &[&str]) -> ServerConfig {
        let mut params = params(names);
        params.not_before = date_time_ymd(2019, 1, 1);
        params.not_after = date_time_ymd(2020, 1, 1);
        self.signed(&params)
    }

    fn signed(&self, params: &CertificateParams) -> ServerConfig {
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        server(certificate.der().clone(), &key)
    }

    /// The client's configuration with this authority beside the platform's.
    pub(crate) fn trusted(&self) -> OutgoingConfig {
        OutgoingConfig { extra_roots: vec![self.0.der().clone()], ..config() }
    }

    /// A client that trusts this authority.
    pub(crate) fn client(&self) -> OutgoingClient {
        OutgoingClient::new(self.trusted()).unwrap()
    }
}

/// A server that nobody signed for but itself.
pub(crate) fn self_signed(names: &[&str]) -> ServerConfig {
    let key = KeyPair::generate().unwrap();
    let certificate = params(names).self_signed(&key).unwrap();
    server(certificate.der().clone(), &key)
}

fn params(names: &[&str]) -> CertificateParams {
    let names: Vec<_> = names.iter().map(|&name| name.to_owned()).collect();
    CertificateParams::new(names).unwrap()
}

fn server(certificate: CertificateDer<'static>, key: &KeyPair) -> ServerConfig {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    ServerConfig::builder().with_no_client_auth().with_single_cert(vec![certificate], key).unwrap()
}
