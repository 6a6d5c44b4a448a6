//! Limits in flight and fair turns between hosts and firms (ruling 34, pressure).
//!
//! Two limits protect receivers: one per firm and host, and one per host. They hold over all
//! processes, and each process keeps its share of them.
//!
//! The permits of a process protect hosts from each other, and firms from each other. A host or a
//! firm that holds its share gets further permits only from those that may be lent, and a quarter
//! of all permits is never lent. The share is a quarter of the permits, and smaller if more than
//! three have work; a firm's is at least a quarter of the free permits. So a host or a firm that
//! had no work finds a permit when work comes.
//!
//! A host that does not answer keeps few permits, and all such hosts together at most half
//! ([`host_health`]).
//!
//! A claim also takes no more than it can hold in memory.
//!
//! For a host that answers quickly, a claim may take more deliveries than the limit in flight
//! allows. The rest waits in the process for a moment until a slot is free.

pub mod choice;
pub mod flight;
pub mod host_health;
pub mod permits;

use std::collections::HashSet;
use std::hash::Hash;
use std::time::Duration;

use crate::activity::DOCUMENT_MAX_BYTES;

/// Limits in flight to hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostCaps {
    /// Largest number of deliveries in flight from one firm to one host.
    pub per_firm_and_host: usize,
    /// Largest number of deliveries in flight to one host.
    pub per_host: usize,
}

impl Default for HostCaps {
    fn default() -> Self {
        Self { per_firm_and_host: 32, per_host: 256 }
    }
}

/// Longest expected wait of a delivery that is claimed ahead, if its host keeps answering at this
/// pace.
pub const CLAIM_AHEAD_WINDOW: Duration = Duration::from_millis(50);

/// Largest number of deliveries claimed ahead, as a multiple of the limit in flight.
const CLAIM_AHEAD_TURNS_MAX: usize = 5;

impl HostCaps {
    /// The share of one of `senders` processes. Together the shares keep the limits. Each share
    /// allows at least one attempt, so that every process sends (ruling 34a, limits in flight).
    #[must_use]
    pub fn share_of(self, senders: usize) -> Self {
        let share = |limit: usize| (limit / senders.max(1)).max(1);
        Self { per_firm_and_host: share(self.per_firm_and_host), per_host: share(self.per_host) }
    }

    /// Number of deliveries that may be claimed ahead for a firm and a host. The host takes so many
    /// within `within`, if one answer takes `answers_in`.
    #[must_use]
    pub fn ahead_limit(self, within: Duration, answers_in: Duration) -> usize {
        let turns = within.as_micros() / answers_in.as_micros().max(1);
        let turns =
            usize::try_from(turns).unwrap_or(CLAIM_AHEAD_TURNS_MAX).min(CLAIM_AHEAD_TURNS_MAX);
        self.per_firm_and_host.saturating_mul(turns)
    }
}

/// Largest size of the documents that one claim holds at a time, in bytes (case F9).
pub const CLAIM_MAX_BYTES: usize = 16 * 1024 * 1024;

/// Number of deliveries that fit into `max_bytes` at any size.
#[must_use]
pub const fn always_within(max_bytes: usize) -> usize {
    max_bytes / DOCUMENT_MAX_BYTES
}

/// Number of leading deliveries that a claim takes, by the bytes of their sources. A shared source
/// counts once.
pub fn count_within<S: Eq + Hash>(
    max_bytes: usize,
    sources: impl IntoIterator<Item = (S, usize)>,
) -> usize {
    let mut held = HashSet::new();
    let mut bytes = 0_usize;
    let mut taken = 0;
    for (source, size) in sources {
        bytes += if held.insert(source) { size } else { 0 };
        if taken > 0 && bytes > max_bytes {
            break;
        }
        taken += 1;
    }
    taken
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each sender may send something.
    #[test]
    fn senders_share_limits_and_none_starves() {
        let shares = |senders| {
            let HostCaps { per_firm_and_host, per_host } = HostCaps::default().share_of(senders);
            (per_firm_and_host, per_host)
        };
        assert_eq!([0, 1, 3, 32, 64].map(shares), [(32, 256), (32, 256), (10, 85), (1, 8), (1, 4)]);
    }

    #[test]
    fn quicker_hosts_are_claimed_further_ahead() {
        let ahead = |millis| {
            HostCaps::default().ahead_limit(CLAIM_AHEAD_WINDOW, Duration::from_millis(millis))
        };
        assert_eq!(
            [0, 1, 10, 11, 25, 26, 50, 51, 10_000].map(ahead),
            [160, 160, 160, 128, 64, 32, 32, 0, 0]
        );
    }

    /// A source of several deliveries counts once.
    #[test]
    fn f9_a_claim_is_bounded_by_bytes() {
        let great = |count: usize| (0..count).map(|source| (source, DOCUMENT_MAX_BYTES));
        assert_eq!(always_within(CLAIM_MAX_BYTES), 32);
        assert_eq!(count_within(CLAIM_MAX_BYTES, great(32)), 32);
        assert_eq!(count_within(CLAIM_MAX_BYTES, great(33)), 32);
        assert_eq!(
            count_within(CLAIM_MAX_BYTES, (0..900).map(|_| ("one", DOCUMENT_MAX_BYTES))),
            900
        );
        assert_eq!(count_within(900, (0..900).map(|source| (source, 1))), 900);
        assert_eq!(
            count_within(10, [("a", 11), ("b", 1)]),
            1,
            "what is too great alone goes alone"
        );
        assert_eq!(count_within::<u8>(10, []), 0);
    }
}
