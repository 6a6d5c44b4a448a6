//! Attempts in flight and due deliveries, which limits of lane, firm and host count.

use std::collections::HashMap;

use uuid::Uuid;

use super::HostCaps;
use super::host_health::{HostHealth, HostStanding};

/// Attempts that a process has claimed and that are not answered yet.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FlightCounts {
    /// By lane.
    pub lanes: HashMap<Uuid, usize>,
    /// By firm and host.
    pub pairs: HashMap<(Uuid, String), usize>,
    /// By host. Each firm counts up to its limit in flight.
    pub hosts: HashMap<String, usize>,
    /// By host. Each attempt holds a permit.
    pub permits: HashMap<String, usize>,
    /// Number of deliveries that may be claimed ahead, by firm and host.
    pub ahead: HashMap<(Uuid, String), usize>,
    /// The health of hosts with attempts in flight or with candidates. The others are unknown.
    pub health: HashMap<String, HostHealth>,
}

/// A due delivery. The candidates of a lane are in the order of their due times.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimCandidate {
    /// The delivery.
    pub delivery_id: Uuid,
    /// The lane of the delivery.
    pub lane_id: Uuid,
    /// The firm of the delivery.
    pub firm_id: Uuid,
    /// The host of the target.
    pub host: String,
    /// Whether the delivery was attempted before.
    pub is_retry: bool,
}

impl FlightCounts {
    /// Counts the claimed attempts of a lane.
    pub fn count_lane(
        &mut self,
        lane_id: Uuid,
        firm_id: Uuid,
        host: String,
        claimed: usize,
        caps: HostCaps,
    ) {
        self.lanes.insert(lane_id, claimed);
        *self.permits.entry(host.clone()).or_default() += claimed;
        let of_host = self.hosts.entry(host.clone()).or_default();
        let of_pair = self.pairs.entry((firm_id, host)).or_default();
        let before = caps.per_firm_and_host.min(*of_pair);
        *of_pair += claimed;
        *of_host += caps.per_firm_and_host.min(*of_pair) - before;
    }

    /// The standing of a host.
    #[must_use]
    pub fn standing(&self, host: &str) -> HostStanding {
        self.health.get(host).map_or(HostStanding::Unknown, |health| health.standing)
    }

    /// Largest number of attempts in flight to a host.
    #[must_use]
    pub fn host_limit(&self, host: &str, caps: HostCaps) -> usize {
        let limit = self.health.get(host).map_or(caps.per_firm_and_host, |health| health.limit);
        limit.min(caps.per_host)
    }

    /// The standing that a candidate counts with. A retry to an unknown host is unresponsive.
    pub(super) fn standing_of(&self, one: &ClaimCandidate) -> HostStanding {
        let mut health = self.health.get(&one.host).copied().unwrap_or(HostHealth::unknown(0));
        if one.is_retry {
            health.note_retry();
        }
        health.standing
    }

    /// Counts the candidate if its host has a slot, or if it may be claimed ahead. A delivery
    /// claimed ahead waits for a slot of its firm and uses none of its host.
    pub(super) fn count_if_room(&mut self, one: &ClaimCandidate, caps: HostCaps) -> bool {
        let key = (one.firm_id, one.host.clone());
        let ahead = self.ahead.get(&key).copied().unwrap_or(0);
        let host_limit = self.host_limit(&one.host, caps);
        let pair = self.pairs.entry(key).or_default();
        let host = self.hosts.entry(one.host.clone()).or_default();
        if *pair >= caps.per_firm_and_host {
            let fits = *pair < caps.per_firm_and_host.saturating_add(ahead);
            *pair += usize::from(fits);
            return fits;
        }
        let fits = *host < host_limit;
        *pair += usize::from(fits);
        *host += usize::from(fits);
        fits
    }
}
