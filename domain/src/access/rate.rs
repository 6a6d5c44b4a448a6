//! Calls per minute (contract, section Limits; rulings 3 to 5): a sliding window of 60 seconds over
//! the calls that were admitted. A refused call is not counted.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv6Addr};

use chrono::TimeDelta;
use sha2::{Digest, Sha256};

use crate::values::Timestamp;

/// Length of the window, in seconds (ruling 4).
pub const WINDOW_SECONDS: u32 = 60;

/// Calls of one key within a window, over every server (contract, section Limits).
pub const CALLS_PER_KEY: i32 = 120;

/// The key's limit in the header `RateLimit-Policy` (ruling 39).
pub const KEY_RATE_POLICY: &str = r#""key";q=120;w=60"#;

/// Calls with a wrong key from one address within a window (contract, section Limits).
pub const WRONG_KEYS_PER_ADDRESS: i32 = 20;

/// Number of counters for wrong keys. Addresses share counters, so that calls from millions of
/// addresses fill no table (case B14).
pub const ADDRESS_COUNTERS: u32 = 1 << 17;

/// Whole seconds, at least 1, after which one call passes. By then the oldest call of a full window
/// has left the window (ruling 4).
#[must_use]
pub fn retry_after_seconds(oldest: Timestamp, now: Timestamp) -> u64 {
    let free = oldest.get() + TimeDelta::seconds(WINDOW_SECONDS.into());
    let wait = (free - now.get()).num_milliseconds().max(1);
    wait.cast_unsigned().div_ceil(1_000)
}

/// The rest of a key's rate after a call (ruling 39).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyRate {
    /// Calls that pass now.
    pub left: u32,
    /// Seconds until one more passes.
    pub seconds: u64,
}

impl KeyRate {
    /// The value of the header `RateLimit` (draft-ietf-httpapi-ratelimit-headers).
    #[must_use]
    pub fn header_value(self) -> String {
        format!(r#""key";r={};t={}"#, self.left, self.seconds)
    }
}

/// Counter of an address. Each IPv4 address and each IPv6 /64 has one (ruling 5). The number does
/// not reveal the address.
#[must_use]
pub fn address_counter(address: IpAddr) -> i32 {
    let hash = Sha256::digest(counted_network(address).octets());
    let number = u32::from_be_bytes([hash[0], hash[1], hash[2], hash[3]]) % ADDRESS_COUNTERS;
    number.cast_signed()
}

/// The network that counts as one caller (ruling 5): IPv4 as mapped IPv6, and IPv6 cut to its
/// network of 64 bits.
#[must_use]
pub fn counted_network(address: IpAddr) -> Ipv6Addr {
    match address.to_canonical() {
        IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() >> 64 << 64),
    }
}

/// Whether a call still counts. A call from more than a window ahead was counted by a clock that
/// was set back since.
fn is_in_window(call: Timestamp, now: Timestamp) -> bool {
    let window = TimeDelta::seconds(WINDOW_SECONDS.into());
    call.get() > now.get() - window && call.get() <= now.get() + window
}

/// The admitted calls of one counter within a window.
#[derive(Clone, Debug, Default)]
pub struct RateWindow {
    /// The calls, the oldest first.
    calls: VecDeque<Timestamp>,
    /// The oldest call of a window that is full elsewhere.
    full_since: Option<Timestamp>,
}

impl RateWindow {
    /// Whole seconds until one call passes. `None` if one passes now.
    pub fn seconds_to_wait(&mut self, limit: usize, now: Timestamp) -> Option<u64> {
        self.full_since = self.full_since.filter(|oldest| is_in_window(*oldest, now));
        if let Some(oldest) = self.full_since {
            return Some(retry_after_seconds(oldest, now));
        }
        self.calls.retain(|call| is_in_window(*call, now));
        // Racing calls may have raised the count above the limit.
        let in_the_way = self.calls.len().checked_sub(limit)?;
        self.calls.get(in_the_way).map(|call| retry_after_seconds(*call, now))
    }

    /// Counts an admitted call.
    pub fn count_call(&mut self, now: Timestamp) {
        self.calls.push_back(now);
    }

    /// Notes that the calls of all servers fill the window, and the oldest of them. No call passes
    /// before that one has left the window.
    pub fn refuse_since(&mut self, oldest: Timestamp) {
        self.full_since = Some(oldest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    fn at(millis: i64) -> Timestamp {
        chrono::DateTime::from_timestamp_millis(millis).unwrap().into()
    }

    /// The window slides: a call leaves it after 60 seconds.
    #[test]
    fn b13_only_admitted_calls_fill_the_window() {
        let mut window = RateWindow::default();
        for call in 0..20 {
            assert_eq!(window.seconds_to_wait(20, at(call * 100)), None);
            window.count_call(at(call * 100));
        }
        assert_eq!(window.seconds_to_wait(20, at(2_000)), Some(58));
        assert_eq!(window.seconds_to_wait(20, at(59_999)), Some(1));
        assert_eq!(window.seconds_to_wait(20, at(60_000)), None);
        window.count_call(at(60_000));
        assert_eq!(window.seconds_to_wait(20, at(60_000)), Some(1));
        assert_eq!(window.seconds_to_wait(20, at(60_100)), None);
    }

    /// Racing calls can overfill a window.
    #[test]
    fn an_overfilled_window_waits_for_room() {
        let mut window = RateWindow::default();
        (0..25).for_each(|call| window.count_call(at(call * 1_000)));
        assert_eq!(window.seconds_to_wait(20, at(25_000)), Some(40));
        assert_eq!(window.seconds_to_wait(20, at(64_999)), Some(1));
        assert_eq!(window.seconds_to_wait(20, at(65_000)), None);
    }

    /// The oldest call can be one of another server.
    #[test]
    fn refusals_last_until_the_oldest_call_leaves() {
        let mut window = RateWindow::default();
        window.refuse_since(at(10_000));
        assert_eq!(window.seconds_to_wait(20, at(20_000)), Some(50));
        assert_eq!(window.seconds_to_wait(20, at(69_999)), Some(1));
        assert_eq!(window.seconds_to_wait(20, at(70_000)), None);
        assert_eq!(window.seconds_to_wait(20, at(60_000)), None);
    }

    /// A clock that was put back leaves such calls.
    #[test]
    fn calls_ahead_of_now_do_not_count() {
        let mut window = RateWindow::default();
        (0..20).for_each(|_| window.count_call(at(3_600_000)));
        assert_eq!(window.seconds_to_wait(20, at(3_600_000)), Some(60));
        assert_eq!(window.seconds_to_wait(20, at(0)), None);
    }

    #[test]
    fn a_keys_headers_show_limit_and_rest() {
        assert_eq!(KEY_RATE_POLICY, format!(r#""key";q={CALLS_PER_KEY};w={WINDOW_SECONDS}"#));
        assert_eq!(KeyRate { left: 119, seconds: 60 }.header_value(), r#""key";r=119;t=60"#);
    }

    /// After so many seconds the oldest call has left the window, and one call passes.
    #[rstest]
    #[case(0, 0, 60)]
    #[case(0, 1, 60)]
    #[case(0, 1_000, 59)]
    #[case(0, 59_000, 1)]
    #[case(0, 59_999, 1)]
    #[case(0, 70_000, 1)]
    fn b11_retry_after_waits_for_the_oldest(#[case] oldest: i64, #[case] now: i64, #[case] s: u64) {
        assert_eq!(retry_after_seconds(at(oldest), at(now)), s);
    }

    #[rstest]
    #[case("192.0.2.1", "::ffff:192.0.2.1", true)]
    #[case("192.0.2.1", "192.0.2.2", false)]
    #[case("2001:db8::1", "2001:db8::ffff:ffff:ffff:ffff", true)]
    #[case("2001:db8::1", "2001:db8:0:1::1", false)]
    fn b14_an_address_has_a_counter(#[case] one: IpAddr, #[case] two: IpAddr, #[case] same: bool) {
        assert_eq!(address_counter(one) == address_counter(two), same);
        assert!((0..ADDRESS_COUNTERS.cast_signed()).contains(&address_counter(one)));
    }
}
