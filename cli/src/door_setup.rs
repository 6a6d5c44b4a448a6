//! The settings of the doors, from the command line and the limit of descriptors.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use door::{DoorSettings, DoorTimeouts, TlsCertificate, TlsPaths, UrlScheme};
use tokio_util::sync::CancellationToken;

use crate::args::ServeArgs;
use crate::descriptors::DoorShares;

/// The longest answer of the internal door: an export of a firm's audit log.
const INTERNAL_ANSWER_MAX: Duration = Duration::from_secs(3_600);

/// A batch of 8 MiB may take a minute to arrive. Ten seconds longer than a call of the internal API
/// may take.
const INTERNAL_REQUEST_MAX: Duration = Duration::from_secs(105);

/// The settings of both doors.
pub(crate) struct DoorPair {
    /// The public API's URL for integrators, ending in `/api/v1`.
    pub(crate) base_url: String,
    /// The addresses that deliveries leave from, for the documents.
    pub(crate) egress: Vec<IpAddr>,
    pub(crate) public: DoorSettings,
    pub(crate) internal: DoorSettings,
}

impl DoorPair {
    /// Reads the certificates.
    pub(crate) fn of(
        serve: &ServeArgs,
        shares: DoorShares,
        base_url: &str,
    ) -> anyhow::Result<Self> {
        let plain = Self::plain(base_url);
        let idle = Duration::from_secs(serve.idle_seconds);
        let per_peer = serve.connections_per_peer.unwrap_or(shares.public / 2);
        let public = DoorSettings {
            tls: certificate(serve.tls_cert.as_ref(), serve.tls_key.as_ref(), None)?,
            connections: shares.public,
            connections_per_peer: per_peer.clamp(1, shares.public),
            ..plain.public
        };
        let internal = DoorSettings {
            tls: certificate(
                serve.internal_tls_cert.as_ref(),
                serve.internal_tls_key.as_ref(),
                serve.internal_tls_client_ca.as_ref(),
            )?,
            connections: shares.internal,
            connections_per_peer: shares.internal,
            ..plain.internal
        };
        let console = serve.oidc.oidc_redirect_url.as_deref().unwrap_or_default();
        let internal = DoorSettings {
            scheme: match internal.tls {
                Some(_) => UrlScheme::Https,
                None => UrlScheme::of_url(console),
            },
            ..internal
        };
        let mut pair = Self { public, internal, egress: serve.egress_bind.clone(), ..plain };
        pair.public.timeouts.idle = idle;
        pair.internal.timeouts.idle = idle;
        Ok(pair)
    }

    /// Doors without certificates, and with the default limits.
    pub(crate) fn plain(base_url: &str) -> Self {
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

/// Reads the certificate of a door that has one.
fn certificate(
    certificate: Option<&PathBuf>,
    key: Option<&PathBuf>,
    client_roots: Option<&PathBuf>,
) -> anyhow::Result<Option<TlsCertificate>> {
    let (Some(certificate), Some(key)) = (certificate, key) else {
        return Ok(None);
    };
    let paths = TlsPaths {
        certificate: certificate.clone(),
        key: key.clone(),
        client_roots: client_roots.cloned(),
    };
    Ok(Some(TlsCertificate::load(paths)?))
}

/// Warns of doors that other machines reach without encryption.
pub(crate) fn warn_of_clear_text(serve: &ServeArgs) {
    if !serve.serves_callers() {
        return;
    }
    if is_internal_clear(serve) {
        tracing::warn!(
            "THE INTERNAL DOOR IS OPEN WITHOUT TLS: tokens, keys and secrets pass in clear; see \
             --internal-tls-cert"
        );
    }
    if is_public_clear(serve) {
        tracing::warn!(
            "THE PUBLIC DOOR IS OPEN WITHOUT TLS: keys pass in clear; see --tls-cert and \
             --trusted-proxies"
        );
    }
}

fn is_internal_clear(serve: &ServeArgs) -> bool {
    let addr = serve.internal_addr.as_ref();
    addr.is_some_and(|addr| addr.is_beyond_this_machine()) && serve.internal_tls_cert.is_none()
}

/// A trusted proxy is taken to end TLS.
fn is_public_clear(serve: &ServeArgs) -> bool {
    !serve.addr.ip().to_canonical().is_loopback()
        && serve.tls_cert.is_none()
        && serve.trusted_proxies.is_empty()
}

/// Reads the certificates again at each SIGHUP. After an error the old one stays in use.
pub(crate) async fn reload(certificates: Vec<TlsCertificate>, stop: CancellationToken) {
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

#[cfg(test)]
mod tests {
    use clap::Parser;
    use rstest::rstest;

    use super::*;

    /// The settings of `serve` as a parser of their own.
    #[derive(Parser)]
    struct ServeOnly {
        #[command(flatten)]
        serve: ServeArgs,
    }

    fn parsed(arguments: &str) -> ServeArgs {
        let arguments = std::iter::once("serve").chain(arguments.split_whitespace());
        ServeOnly::try_parse_from(arguments).unwrap().serve
    }

    #[rstest]
    #[case("", false, false)]
    #[case("--internal-addr 127.0.0.2:1 --addr [::1]:1", false, false)]
    #[case("--internal-addr 0.0.0.0:1", true, false)]
    #[case("--internal-addr [::]:1 --internal-tls-cert a --internal-tls-key b", false, false)]
    #[case("--internal-addr unix:/a/b", false, false)]
    #[case("--addr 0.0.0.0:1", false, true)]
    #[case("--addr 0.0.0.0:1 --tls-cert a --tls-key b", false, false)]
    #[case("--addr 0.0.0.0:1 --trusted-proxies 10.0.0.0/8", false, false)]
    fn doors17_a_door_beyond_this_machine_without_tls_is_noticed(
        #[case] arguments: &str,
        #[case] internal: bool,
        #[case] public: bool,
    ) {
        let serve = parsed(arguments);
        assert_eq!((is_internal_clear(&serve), is_public_clear(&serve)), (internal, public));
    }

    #[rstest]
    #[case("http://localhost:8080", "", UrlScheme::Http, UrlScheme::Http)]
    #[case("https://forms.example.com", "", UrlScheme::Https, UrlScheme::Http)]
    #[case("", "http://localhost:8081/console/sign-in/return", UrlScheme::Http, UrlScheme::Http)]
    #[case("", "https://ops.example.com/console/sign-in/return", UrlScheme::Http, UrlScheme::Https)]
    fn a_door_has_the_scheme_of_its_url(
        #[case] base_url: &str,
        #[case] console: &str,
        #[case] public: UrlScheme,
        #[case] internal: UrlScheme,
    ) {
        let mut serve = parsed("");
        serve.oidc.oidc_redirect_url = Some(console.to_owned());
        let pair = DoorPair::of(&serve, DoorShares { public: 1, internal: 1 }, base_url).unwrap();
        assert_eq!((pair.public.scheme, pair.internal.scheme), (public, internal));
    }

    #[test]
    fn doors15_idle_time_and_connections_are_settings() {
        let shares = DoorShares { public: 100, internal: 10 };
        let usual = DoorPair::of(&parsed(""), shares, "").unwrap();
        assert_eq!(usual.public.timeouts.idle, Duration::from_secs(75));
        assert_eq!(usual.public.connections_per_peer, 50);
        let serve = parsed("--idle-seconds 620 --connections-per-peer 80");
        let pair = DoorPair::of(&serve, shares, "").unwrap();
        for door in [&pair.public, &pair.internal] {
            assert_eq!(door.timeouts.idle, Duration::from_secs(620));
        }
        assert_eq!((pair.public.connections, pair.public.connections_per_peer), (100, 80));
        assert_eq!((pair.internal.connections, pair.internal.connections_per_peer), (10, 10));
    }
}
