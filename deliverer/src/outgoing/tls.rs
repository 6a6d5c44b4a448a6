//! TLS: receivers prove their identity by the platform's root certificates and by configured ones.
//! There is no switch that skips the proof (case C22).

use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::{ClientConfig, RootCertStore};

/// The TLS configuration. Clients share its verifier and its session cache.
///
/// # Errors
/// None in practice: ring speaks both versions.
pub(super) fn config(extra: &[CertificateDer<'static>]) -> Result<ClientConfig, rustls::Error> {
    let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(root_store(extra))
        .with_no_client_auth();
    // HTTP/1.1 only (case D15).
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

/// Without any root certificate every handshake fails, and the process goes on.
fn root_store(extra: &[CertificateDer<'static>]) -> RootCertStore {
    let platform = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(platform.certs);
    if roots.is_empty() {
        tracing::warn!(errors = ?platform.errors, "the platform has no root certificates");
    }
    roots.add_parsable_certificates(extra.iter().cloned());
    roots
}
