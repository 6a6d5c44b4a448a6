//! The permits of a process, and the shares of firms and hosts in them (ruling 34, pressure).

use std::collections::HashMap;

use uuid::Uuid;

use super::flight::FlightCounts;
use super::host_health::HostStanding;

/// Number of a process's permits that are never lent.
pub(super) const fn reserved_permits(permits: usize) -> usize {
    let quarter = permits / 4;
    if quarter == 0 { 1 } else { quarter }
}

/// Number of a process's permits that only hosts with few attempts in flight get. Hosts that have
/// answered until now may all fall silent at once, and their attempts end after the time limit.
pub(super) const fn last_permits(permits: usize) -> usize {
    permits / 8
}

/// Largest number of a process's permits that one host may hold.
#[must_use]
pub const fn host_ceiling(permits: usize) -> usize {
    let ceiling = permits.saturating_sub(reserved_permits(permits));
    if ceiling == 0 { 1 } else { ceiling }
}

/// The permits of a process.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PermitUsage {
    /// Number of permits in all.
    pub permits: usize,
    /// Number of free permits.
    pub free: usize,
    /// Number of permits that each firm holds.
    pub held: HashMap<Uuid, usize>,
}

impl PermitUsage {
    /// All permits are free.
    #[must_use]
    pub fn new(permits: usize) -> Self {
        Self { permits, free: permits, held: HashMap::new() }
    }

    /// Number of permits that may be lent to firms and hosts that hold their share.
    #[must_use]
    pub fn lendable_permits(&self) -> usize {
        self.free.saturating_sub(reserved_permits(self.permits))
    }

    /// The share of one of so many firms, or of one of so many hosts, with work.
    pub(super) fn permit_share(&self, sharers: usize) -> usize {
        reserved_permits(self.permits).min(self.permits / (sharers + 1)).max(1)
    }

    /// The share of one of so many firms with work, or a quarter of the free permits if that is
    /// more. With the fixed share alone, a firm beside 300 firms at a silent host would send its
    /// deliveries one after the other, while 64 permits stay free.
    pub(super) fn firm_share(&self, firms: usize) -> usize {
        self.permit_share(firms).max(self.free / 4)
    }

    /// The share of the last permits of one of so many hosts with work.
    pub(super) fn last_share(&self, hosts: usize) -> usize {
        (last_permits(self.permits) / (hosts + 1)).max(1)
    }

    /// The firms that get no permit now.
    #[must_use]
    pub fn firms_at_share(&self) -> Vec<Uuid> {
        if self.lendable_permits() > 0 {
            return Vec::new();
        }
        holders_at(&self.held, self.firm_share(self.held.len()))
    }

    /// The hosts that get no permit now.
    #[must_use]
    pub fn hosts_at_share(&self, flight: &FlightCounts) -> Vec<String> {
        if self.lendable_permits() > 0 {
            return Vec::new();
        }
        let hosts = flight.permits.len();
        let are_last_left = self.free <= last_permits(self.permits);
        let share = if are_last_left { self.last_share(hosts) } else { self.permit_share(hosts) };
        holders_at(&flight.permits, share)
    }
}

/// The holders of at least so many permits.
fn holders_at<K: Clone>(held: &HashMap<K, usize>, share: usize) -> Vec<K> {
    held.iter().filter(|(_, held)| **held >= share).map(|(holder, _)| holder.clone()).collect()
}

/// The permits that may still be given to hosts of each standing. Hosts that do not answer
/// promptly hold at most half of all permits together. With unknown hosts they hold at most three
/// quarters, and seven eighths if each further unknown host holds one. So a host that answers
/// always finds a permit, and so does a new host while few hosts hold many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StandingRoom {
    unresponsive: usize,
    not_responsive: usize,
    /// For unknown hosts without an attempt in flight.
    first_attempts: usize,
}

impl StandingRoom {
    /// The room beside the attempts in flight.
    #[must_use]
    pub fn beside_flight(flight: &FlightCounts, permits: usize) -> Self {
        let held = |standing: HostStanding| -> usize {
            let of_standing =
                flight.permits.iter().filter(|(host, _)| flight.standing(host) == standing);
            of_standing.map(|(_, held)| held).sum()
        };
        let unresponsive = held(HostStanding::Unresponsive);
        let not_responsive = unresponsive + held(HostStanding::Unknown);
        Self {
            unresponsive: (permits / 2).max(1).saturating_sub(unresponsive),
            not_responsive: host_ceiling(permits).saturating_sub(not_responsive),
            first_attempts: (permits - permits / 8).saturating_sub(not_responsive),
        }
    }

    /// Number of permits left for hosts of this standing. `None` if only the process's permits
    /// bound it.
    #[must_use]
    pub fn left_for(self, standing: HostStanding) -> Option<usize> {
        match standing {
            HostStanding::Responsive => None,
            HostStanding::Unknown => Some(self.not_responsive),
            HostStanding::Unresponsive => Some(self.unresponsive.min(self.not_responsive)),
        }
    }

    /// Takes a permit for a host of this standing, which is its permit number `host_turn`, if one
    /// is left.
    pub(super) fn take_permit(&mut self, standing: HostStanding, host_turn: usize) -> bool {
        let is_first = standing == HostStanding::Unknown && host_turn == 0;
        let left = if is_first { Some(self.first_attempts) } else { self.left_for(standing) };
        if left == Some(0) {
            return false;
        }
        let taken = usize::from(standing != HostStanding::Responsive);
        self.unresponsive -= usize::from(standing == HostStanding::Unresponsive);
        self.not_responsive = self.not_responsive.saturating_sub(taken);
        self.first_attempts = self.first_attempts.saturating_sub(taken);
        true
    }
}
