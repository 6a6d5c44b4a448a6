//! The address of a client (ruling 5). It is the socket's address. Behind trusted proxies it is the
//! right-most hop that is no trusted proxy. No other header is read (case B14).

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use axum::http::HeaderMap;
use axum::http::request::Parts;
use ipnet::IpNet;

use crate::service::Service;

const FORWARDED_FOR: &str = "x-forwarded-for";

/// Address of the socket of a request. The server of the router inserts it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerAddress(pub IpAddr);

/// The address of the client of a request at any door.
#[must_use]
pub fn client_address(service: &Service, parts: &Parts) -> IpAddr {
    client_behind_proxies(parts, &service.settings.trusted_proxies)
}

/// The address of the client of a request.
pub(crate) fn client_behind_proxies(parts: &Parts, trusted: &[IpNet]) -> IpAddr {
    // A router without sockets, as in tests, has one client.
    let peer =
        parts.extensions.get().map_or(Ipv4Addr::UNSPECIFIED.into(), |PeerAddress(peer)| *peer);
    first_untrusted(peer.to_canonical(), &parts.headers, trusted)
}

fn first_untrusted(peer: IpAddr, headers: &HeaderMap, trusted: &[IpNet]) -> IpAddr {
    let is_trusted = |address: &IpAddr| trusted.iter().any(|network| network.contains(address));
    let mut hops = noted_hops(headers);
    let mut address = peer;
    while is_trusted(&address)
        && let Some(Some(hop)) = hops.next()
    {
        address = hop;
    }
    address
}

/// Hops that proxies noted, last one first. A hop that is no address ends the search.
fn noted_hops(headers: &HeaderMap) -> impl Iterator<Item = Option<IpAddr>> {
    let lines: Vec<_> = headers.get_all(FORWARDED_FOR).iter().rev().collect();
    lines.into_iter().flat_map(|line| {
        let line = line.to_str().unwrap_or_default();
        line.rsplit(',').map(|hop| hop_address(hop.trim()))
    })
}

/// Some gateways note the port, too: `192.0.2.7:4711`, `[2001:db8::7]:4711`.
fn hop_address(hop: &str) -> Option<IpAddr> {
    let with_port = || hop.parse::<SocketAddr>().ok().map(|socket| socket.ip());
    Some(hop.parse().ok().or_else(with_port)?.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;
    use rstest::rstest;

    const PROXY: &str = "10.0.0.1";

    #[rstest]
    #[case::no_header(PROXY, &[], PROXY)]
    #[case::from_a_client("192.0.2.9", &["1.1.1.1"], "192.0.2.9")]
    #[case::behind_one(PROXY, &["192.0.2.7"], "192.0.2.7")]
    #[case::left_entries_are_the_clients_own(PROXY, &["1.1.1.1, 192.0.2.7"], "192.0.2.7")]
    #[case::behind_two(PROXY, &["1.1.1.1, 192.0.2.7, 10.0.0.2"], "192.0.2.7")]
    #[case::lines_are_one_list(PROXY, &["1.1.1.1", "192.0.2.7", "10.0.0.2"], "192.0.2.7")]
    #[case::all_trusted(PROXY, &["10.0.0.3,10.0.0.2"], "10.0.0.3")]
    #[case::no_address(PROXY, &["192.0.2.7, unknown"], PROXY)]
    #[case::mapped(PROXY, &["::ffff:192.0.2.7"], "192.0.2.7")]
    #[case::six(PROXY, &["2001:db8::7"], "2001:db8::7")]
    #[case::with_port(PROXY, &["192.0.2.7:4711"], "192.0.2.7")]
    #[case::six_with_port(PROXY, &["[2001:db8::7]:4711"], "2001:db8::7")]
    fn b14_the_right_most_untrusted_hop_counts(
        #[case] peer: &str,
        #[case] lines: &[&'static str],
        #[case] expected: &str,
    ) {
        let parsed = |text: &str| text.parse::<IpAddr>().unwrap();
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(FORWARDED_FOR, HeaderValue::from_static(line));
        }
        for other in ["forwarded", "x-real-ip", "client-ip", "x-client-ip"] {
            headers.append(other, HeaderValue::from_static("1.2.3.4"));
        }
        let trusted = ["10.0.0.0/8".parse().unwrap()];
        assert_eq!(first_untrusted(parsed(peer), &headers, &trusted), parsed(expected));
    }
}
