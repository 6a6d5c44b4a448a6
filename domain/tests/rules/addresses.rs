//! The rule that says which addresses are public (ruling 16, cases C6–C8).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use domain::subscription::is_public_address;
use proptest::prelude::*;
use rstest::rstest;

/// First and last address of every IPv4 range that is not public. The source is the
/// special-purpose registry with ruling 16, and not the code under test.
const V4_NOT_PUBLIC: [(&str, &str); 16] = [
    ("0.0.0.0", "0.255.255.255"),
    ("10.0.0.0", "10.255.255.255"),
    ("100.64.0.0", "100.127.255.255"),
    ("127.0.0.0", "127.255.255.255"),
    ("168.63.129.16", "168.63.129.16"),
    ("169.254.0.0", "169.254.255.255"),
    ("172.16.0.0", "172.31.255.255"),
    ("192.0.0.0", "192.0.0.255"),
    ("192.0.2.0", "192.0.2.255"),
    ("192.88.99.0", "192.88.99.255"),
    ("192.168.0.0", "192.168.255.255"),
    ("198.18.0.0", "198.19.255.255"),
    ("198.51.100.0", "198.51.100.255"),
    ("203.0.113.0", "203.0.113.255"),
    ("224.0.0.0", "239.255.255.255"),
    ("240.0.0.0", "255.255.255.255"),
];

/// First and last address of every IPv6 range that is not public: below, inside and above 2000::/3.
const V6_NOT_PUBLIC: [(&str, &str); 6] = [
    ("::", "1fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
    ("2001::", "2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff"),
    ("2001:db8::", "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff"),
    ("2002::", "2002:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
    ("3fff::", "3fff:fff:ffff:ffff:ffff:ffff:ffff:ffff"),
    ("4000::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
];

fn v4(text: &str) -> u32 {
    text.parse::<Ipv4Addr>().unwrap().to_bits()
}

fn v6(text: &str) -> u128 {
    text.parse::<Ipv6Addr>().unwrap().to_bits()
}

fn v4_is_public(bits: u32) -> bool {
    is_public_address(Ipv4Addr::from_bits(bits).into())
}

fn v6_is_public(bits: u128) -> bool {
    is_public_address(Ipv6Addr::from_bits(bits).into())
}

fn v4_expected(bits: u32) -> bool {
    !V4_NOT_PUBLIC.iter().any(|(first, last)| (v4(first)..=v4(last)).contains(&bits))
}

fn v6_expected(bits: u128) -> bool {
    !V6_NOT_PUBLIC.iter().any(|(first, last)| (v6(first)..=v6(last)).contains(&bits))
}

#[test]
fn c7_every_ipv4_border_is_exact() {
    for (first, last) in V4_NOT_PUBLIC.map(|(first, last)| (v4(first), v4(last))) {
        assert!(!v4_is_public(first) && !v4_is_public(last));
        for outside in [first.checked_sub(1), last.checked_add(1)].into_iter().flatten() {
            assert_eq!(v4_is_public(outside), v4_expected(outside), "{outside:#x}");
        }
    }
}

#[test]
fn c7_every_ipv6_border_is_exact() {
    for (first, last) in V6_NOT_PUBLIC.map(|(first, last)| (v6(first), v6(last))) {
        assert!(!v6_is_public(first) && !v6_is_public(last));
        for outside in [first.checked_sub(1), last.checked_add(1)].into_iter().flatten() {
            assert_eq!(v6_is_public(outside), v6_expected(outside), "{outside:#x}");
        }
    }
}

/// Borders whose far side is public, by hand: the table above must not agree with itself only.
#[rstest]
#[case("1.0.0.0")]
#[case("9.255.255.255")]
#[case("11.0.0.0")]
#[case("100.63.255.255")]
#[case("100.128.0.0")]
#[case("126.255.255.255")]
#[case("128.0.0.0")]
#[case("168.63.129.15")]
#[case("168.63.129.17")]
#[case("172.15.255.255")]
#[case("172.32.0.0")]
#[case("192.0.1.0")]
#[case("198.17.255.255")]
#[case("198.20.0.0")]
#[case("223.255.255.255")]
#[case("2000::")]
#[case("2001:200::")]
#[case("2001:4860:4860::8888")]
#[case("2606:4700:4700::1111")]
#[case("3fff:1000::")]
fn c7_just_outside_is_public(#[case] ip: IpAddr) {
    assert!(is_public_address(ip));
}

#[rstest]
#[case("169.254.169.254")]
#[case("100.100.100.200")]
#[case("192.0.0.192")]
#[case("168.63.129.16")]
fn c8_metadata_addresses_are_not_public(#[case] ip: IpAddr) {
    assert!(!is_public_address(ip));
}

#[rstest]
fn c6_special_ipv6_is_not_public(
    #[values(
        "::",
        "::1",
        "::ffff:127.0.0.1",
        "::ffff:1.1.1.1",
        "::127.0.0.1",
        "::ffff:0:7f00:1",
        "::5efe:7f00:1",
        "64:ff9b::7f00:1",
        "64:ff9b:1::1",
        "2002:7f00:1::",
        "2001::1",
        "100::1",
        "2001:db8::1",
        "3fff::1",
        "5f00::1",
        "fc00::1",
        "fd00:ec2::254",
        "fe80::1",
        "fec0::1",
        "ff02::1"
    )]
    ip: IpAddr,
) {
    assert!(!is_public_address(ip));
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 20_000, failure_persistence: None, ..ProptestConfig::default()
    })]

    #[test]
    fn c7_any_ipv4_agrees_with_the_table(bits: u32) {
        prop_assert_eq!(v4_is_public(bits), v4_expected(bits));
    }

    #[test]
    fn c7_ipv4_near_borders_follows_the_table(
        row in 0..V4_NOT_PUBLIC.len(), at_end: bool, off in -300_i32..300,
    ) {
        let (first, last) = V4_NOT_PUBLIC[row];
        let bits = v4(if at_end { last } else { first }).wrapping_add_signed(off);
        prop_assert_eq!(v4_is_public(bits), v4_expected(bits));
    }

    #[test]
    fn c7_any_ipv6_agrees_with_the_table(bits: u128) {
        prop_assert_eq!(v6_is_public(bits), v6_expected(bits));
    }

    #[test]
    fn c7_no_ipv4_inside_ipv6_is_public(bits: u32) {
        let ip = Ipv4Addr::from_bits(bits);
        prop_assert!(!is_public_address(ip.to_ipv6_mapped().into()));
        prop_assert!(!is_public_address(ip.to_ipv6_compatible().into()));
    }
}
