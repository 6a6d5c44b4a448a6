//! The settings of both doors, and their certificates.

use std::net::IpAddr;
use std::time::Duration;

use door::{DoorSettings, DoorTimeouts, TlsCertificate, UrlScheme};
use tokio_util::sync::CancellationToken;

/// The longest answer of the internal door: an export of a firm's audit log.
const INTERNAL_ANSWER_MAX: Duration = Duration::from_secs(3_600);

/// A batch of 8 MiB may take a minute to arrive. Ten seconds longer than a call of the internal API
/// may take.
const INTERNAL_REQUEST_MAX: Duration = Duration::from_secs(105);

/// The settings of both doors.
pub struct DoorPair {
    /// The public API's URL for integrators, ending in `/api/v1`.
    pub base_url: String,
    /// The addresses that deliveries leave from, for the documents.
    pub egress: Vec<IpAddr>,
    /// The public door.
    pub public: DoorSettings,
    /// The internal door.
    pub internal: DoorSettings,
}

impl DoorPair {
    /// Doors without certificates, and with the default limits.
    #[must_use]
    pub fn without_certificates(base_url: &str) -> Self {
        let timeouts = DoorTimeouts {
            request: INTERNAL_REQUEST_MAX,
            answer: INTERNAL_ANSWER_MAX,
            ..DoorTimeouts::default()
        };
        Self {
            base_url: base_url.to_owned(),
            egress: Vec::new(),
            public: DoorSettings {
                name: "public",
                scheme: UrlScheme::of_url(base_url),
                ..DoorSettings::default()
            },
            internal: DoorSettings { name: "internal", timeouts, ..DoorSettings::default() },
        }
    }

    /// The certificates of both doors.
    pub(crate) fn certificates(&self) -> Vec<TlsCertificate> {
        [&self.public, &self.internal].into_iter().filter_map(|door| door.tls.clone()).collect()
    }
}

/// Reads the certificates again at each SIGHUP. After an error the old one stays in use.
pub(crate) async fn reload_on_sighup(certificates: Vec<TlsCertificate>, stop: CancellationToken) {
    use tokio::signal::unix::{SignalKind, signal};
    let Ok(mut hangup) = signal(SignalKind::hangup()) else {
        tracing::error!("SIGHUP cannot be heard: a new certificate needs a restart");
        return stop.cancelled().await;
    };
    while stop.run_until_cancelled(hangup.recv()).await.is_some() {
        for tls in &certificates {
            match tls.reload() {
                Ok(()) => tracing::info!(?tls, "a new certificate"),
                Err(error) => tracing::error!(%error, "the old certificate stays"),
            }
        }
    }
}
