//! Addresses that a delivery may be sent to (rulings 16 and 20).
//!
//! This module has the last word on every address that the service dials, whether the target's text
//! or DNS gave the address. It knows addresses only. [`super::Target`] checks names, and the
//! deliverer resolves them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

/// IPv4 ranges that are not the public internet (ruling 16).
const V4_PRIVATE: [Ipv4Net; 16] = [
    ipv4_net([0, 0, 0, 0], 8),
    ipv4_net([10, 0, 0, 0], 8),
    ipv4_net([100, 64, 0, 0], 10),
    ipv4_net([127, 0, 0, 0], 8),
    ipv4_net([169, 254, 0, 0], 16),
    ipv4_net([172, 16, 0, 0], 12),
    ipv4_net([192, 0, 0, 0], 24),
    ipv4_net([192, 0, 2, 0], 24),
    ipv4_net([192, 88, 99, 0], 24),
    ipv4_net([192, 168, 0, 0], 16),
    ipv4_net([198, 18, 0, 0], 15),
    ipv4_net([198, 51, 100, 0], 24),
    ipv4_net([203, 0, 113, 0], 24),
    ipv4_net([224, 0, 0, 0], 4),
    ipv4_net([240, 0, 0, 0], 4),
    // Public address of a cloud provider's metadata service.
    ipv4_net([168, 63, 129, 16], 32),
];

/// The only IPv6 range that is assigned to the public internet (ruling 16). IPv4 addresses written
/// as IPv6 (`::ffff:…`, `64:ff9b::…`) lie outside and are never public.
const V6_GLOBAL: Ipv6Net = ipv6_net([0x2000, 0], 3);

/// Ranges inside [`V6_GLOBAL`] that are not public (ruling 16).
const V6_PRIVATE: [Ipv6Net; 4] = [
    ipv6_net([0x2001, 0], 23),
    ipv6_net([0x2001, 0xdb8], 32),
    ipv6_net([0x2002, 0], 16),
    ipv6_net([0x3fff, 0], 20),
];

const fn ipv4_net(octets: [u8; 4], prefix: u8) -> Ipv4Net {
    let [a, b, c, d] = octets;
    Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, d), prefix)
}

const fn ipv6_net(head: [u16; 2], prefix: u8) -> Ipv6Net {
    Ipv6Net::new_assert(Ipv6Addr::new(head[0], head[1], 0, 0, 0, 0, 0, 0), prefix)
}

/// Whether the address is on the public internet, in every form it can be written in.
#[must_use]
pub fn is_public_address(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => !V4_PRIVATE.iter().any(|net| net.contains(&ip)),
        IpAddr::V6(ip) => {
            V6_GLOBAL.contains(&ip) && !V6_PRIVATE.iter().any(|net| net.contains(&ip))
        }
    }
}

/// Targets that development and tests may use beside public https targets (ruling 20). The default
/// allows none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllowedTargets {
    cidrs: Vec<IpNet>,
    http: bool,
}

impl AllowedTargets {
    /// Allows these ranges, by https only.
    #[must_use]
    pub fn new(cidrs: Vec<IpNet>) -> Self {
        Self { cidrs, http: false }
    }

    /// Allows plain `http` too.
    #[must_use]
    pub fn with_http(self) -> Self {
        Self { http: true, ..self }
    }

    /// Whether this address may be dialled, because it is public or in an allowed range. For the
    /// allowed ranges an IPv4-mapped IPv6 address counts as its IPv4 address.
    #[must_use]
    pub fn permits(&self, ip: IpAddr) -> bool {
        is_public_address(ip) || self.is_in_range(ip.to_canonical())
    }

    /// Whether `http` targets are accepted beside `https`.
    #[must_use]
    pub fn allows_http(&self) -> bool {
        self.http
    }

    /// Whether anything beside public https targets is allowed. `serve` warns while it is.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.http || !self.cidrs.is_empty()
    }

    /// Whether names of this machine may be targets, because its loopback address is allowed.
    pub(crate) fn opens_loopback(&self) -> bool {
        self.is_in_range(Ipv4Addr::LOCALHOST.into()) || self.is_in_range(Ipv6Addr::LOCALHOST.into())
    }

    fn is_in_range(&self, ip: IpAddr) -> bool {
        self.cidrs.iter().any(|net| net.contains(&ip))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn opened(cidr: &str) -> AllowedTargets {
        AllowedTargets::new(vec![cidr.parse().unwrap()])
    }

    #[test]
    fn by_default_nothing_private_is_permitted() {
        let allowed = AllowedTargets::default();
        assert!(!allowed.is_open() && !allowed.allows_http() && !allowed.opens_loopback());
        assert!(allowed.permits(ip("1.1.1.1")));
        assert!(!allowed.permits(ip("127.0.0.1")));
        assert!(!allowed.permits(ip("::1")));
    }

    #[test]
    fn an_opened_range_permits_only_its_addresses() {
        let allowed = opened("127.0.0.0/8");
        assert!(allowed.is_open() && allowed.opens_loopback());
        assert!(allowed.permits(ip("127.9.9.9")));
        assert!(!allowed.permits(ip("10.0.0.1")));
        assert!(!allowed.permits(ip("::1")));
        assert!(opened("::1/128").opens_loopback());
        assert!(!opened("10.0.0.0/8").opens_loopback());
    }

    #[test]
    fn mapped_addresses_fold_for_opened_ranges_only() {
        assert!(opened("127.0.0.0/8").permits(ip("::ffff:127.0.0.1")));
        assert!(!AllowedTargets::default().permits(ip("::ffff:1.1.1.1")));
    }

    #[test]
    fn http_alone_is_an_opening_too() {
        let allowed = AllowedTargets::new(Vec::new()).with_http();
        assert!(allowed.allows_http() && allowed.is_open());
        assert!(!allowed.permits(ip("127.0.0.1")));
    }
}
