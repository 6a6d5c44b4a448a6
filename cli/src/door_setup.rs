//! The addresses and settings of the doors, from the command line and the limit of descriptors.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use door::{DoorSettings, TlsCertificate, TlsPaths, UrlScheme};
use service::{DoorAddresses, DoorPair, InternalAddr};

use crate::descriptors::DoorShares;
use crate::serve_args::ServeArgs;

/// The default address of the internal door, in a process with both doors.
const DEFAULT_INTERNAL_ADDR: InternalAddr =
    InternalAddr::Tcp(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8081));

/// The addresses of the doors of the role.
pub(crate) fn door_addresses(serve: &ServeArgs) -> DoorAddresses {
    let internal = serve.internal_addr.clone();
    if !serve.role().serves_callers() {
        return DoorAddresses { public: None, internal };
    }
    let internal = internal.unwrap_or(DEFAULT_INTERNAL_ADDR);
    DoorAddresses { public: Some(serve.addr), internal: Some(internal) }
}

/// The settings of both doors. Reads the certificates.
pub(crate) fn door_pair(
    serve: &ServeArgs,
    shares: DoorShares,
    base_url: &str,
) -> anyhow::Result<DoorPair> {
    let plain = DoorPair::without_certificates(base_url);
    let idle = Duration::from_secs(serve.idle_seconds);
    let per_peer = serve.connections_per_peer.unwrap_or(shares.public / 2);
    let public = DoorSettings {
        tls: read_certificate(serve.tls_cert.as_ref(), serve.tls_key.as_ref(), None)?,
        connections: shares.public,
        connections_per_peer: per_peer.clamp(1, shares.public),
        ..plain.public
    };
    let internal = DoorSettings {
        tls: read_certificate(
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
    let mut pair = DoorPair { public, internal, egress: serve.egress_bind.clone(), ..plain };
    pair.public.timeouts.idle = idle;
    pair.internal.timeouts.idle = idle;
    Ok(pair)
}

/// Reads the certificate of a door that has one.
fn read_certificate(
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
    if !serve.role().serves_callers() {
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
    fn a_remote_door_without_tls_is_noticed(
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
    fn a_door_has_its_urls_scheme(
        #[case] base_url: &str,
        #[case] console: &str,
        #[case] public: UrlScheme,
        #[case] internal: UrlScheme,
    ) {
        let mut serve = parsed("");
        serve.oidc.oidc_redirect_url = Some(console.to_owned());
        let pair = door_pair(&serve, DoorShares { public: 1, internal: 1 }, base_url).unwrap();
        assert_eq!((pair.public.scheme, pair.internal.scheme), (public, internal));
    }

    #[test]
    fn idle_time_and_connections_are_settings() {
        let shares = DoorShares { public: 100, internal: 10 };
        let usual = door_pair(&parsed(""), shares, "").unwrap();
        assert_eq!(usual.public.timeouts.idle, Duration::from_secs(75));
        assert_eq!(usual.public.connections_per_peer, 50);
        let serve = parsed("--idle-seconds 620 --connections-per-peer 80");
        let pair = door_pair(&serve, shares, "").unwrap();
        for door in [&pair.public, &pair.internal] {
            assert_eq!(door.timeouts.idle, Duration::from_secs(620));
        }
        assert_eq!((pair.public.connections, pair.public.connections_per_peer), (100, 80));
        assert_eq!((pair.internal.connections, pair.internal.connections_per_peer), (10, 10));
    }
}
