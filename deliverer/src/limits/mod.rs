//! Limits: the number of attempts that one process sends at once, to each host and for each firm
//! (ruling 34, limits in flight).
//!
//! - [`Permits`] count the attempts of the process, in all and by firm.
//! - [`InFlight`] counts attempts that are claimed and not answered, by lane, host and firm.
//! - [`HostHealths`] knows which hosts answer, and the limit of each host that follows from it.
//! - [`HostSlots`] count attempts that are being sent, by firm and host. For a host that answers
//!   quickly more attempts may be claimed, and they wait for their slots.
//! - [`SenderCount`] knows the number of sending processes. Each keeps its share of the limits per
//!   host, in memory.
//!
//! A reservation is made before its rows are leased, and lasts until the answer is handed over.
//! Attempts of a process that is gone do not count (ruling 42, living processes).

mod host_healths;
mod host_slots;
mod in_flight;
mod process_permits;
mod senders;
mod slot_table;

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use domain::delivery::pressure::HostCaps;
use domain::delivery::pressure::choice::choose_deliveries;
use domain::delivery::pressure::flight::{ClaimCandidate, FlightCounts};
use domain::delivery::pressure::host_health::HostStanding;
use domain::delivery::pressure::permits::{PermitUsage, StandingRoom, host_ceiling};
use uuid::Uuid;

use self::host_healths::HostHealths;
pub(crate) use self::host_slots::{HostSlot, HostSlots};
use self::in_flight::{InFlight, InFlightGuard};
use self::process_permits::{Permit, Permits};
pub use self::senders::{SenderCount, SenderMembership};
pub(crate) use self::slot_table::FirmAndHost;
use crate::settings::DelivererSettings;

/// The limits of a process.
pub struct SendLimits {
    settings: DelivererSettings,
    permits: Permits,
    in_flight: InFlight,
    pub(crate) host_slots: HostSlots,
    host_healths: HostHealths,
    senders: SenderCount,
    reserving: Mutex<()>,
}

/// Capacity for one attempt, held until it is dropped.
#[derive(Debug)]
pub(crate) struct SendReservation {
    _permit: Permit,
    _flying: InFlightGuard,
}

/// The limits that are reached. A claim leaves out their lanes.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct FullLimits {
    /// Firms that use their share of the permits.
    pub(crate) firms: Vec<Uuid>,
    /// Hosts at their limit, or at their share of the permits.
    pub(crate) hosts: Vec<String>,
    /// Hosts of these that do not answer promptly.
    pub(crate) unresponsive_hosts: Vec<String>,
    /// Pairs of firm and host at their limit.
    pub(crate) pairs: Vec<FirmAndHost>,
    /// Number of permits left for hosts that do not answer promptly.
    pub(crate) unresponsive_room: usize,
    /// Queues of hosts that did not answer promptly and do so again.
    pub(crate) recovered_queues: Vec<String>,
}

/// Reserved capacity, and the lanes that got none because of their host's standing.
#[derive(Debug, Default)]
pub(crate) struct Reservations {
    /// The deliveries that got capacity.
    pub(crate) deliveries: Vec<(Uuid, Arc<SendReservation>)>,
    /// Lanes whose hosts do not answer promptly, while such hosts use all of their permits.
    pub(crate) crowded_out: HashSet<Uuid>,
}

impl FullLimits {
    /// Whether no limit is reached.
    pub(crate) const fn is_empty(&self) -> bool {
        self.firms.is_empty()
            && self.hosts.is_empty()
            && self.pairs.is_empty()
            && self.unresponsive_room > 0
    }

    /// The firms and the hosts of the pairs, as two columns.
    pub(crate) fn pair_columns(&self) -> (Vec<Uuid>, Vec<&str>) {
        self.pairs.iter().map(|(firm_id, host)| (*firm_id, host.as_str())).unzip()
    }
}

impl SendLimits {
    /// The limits of a process with these settings, beside these other senders.
    #[must_use]
    pub fn new(settings: DelivererSettings, senders: SenderCount) -> Self {
        let each = settings.caps.share_of(senders.count()).per_firm_and_host;
        Self {
            settings,
            permits: Permits::new(settings.permits),
            in_flight: InFlight::default(),
            host_slots: HostSlots::new(each),
            host_healths: HostHealths::default(),
            senders,
            reserving: Mutex::default(),
        }
    }

    /// The limits of a process that sends alone.
    #[must_use]
    pub fn alone(settings: DelivererSettings) -> Self {
        Self::new(settings, SenderCount::alone())
    }

    /// The process's share of the limits per host. One host holds fewer than all permits.
    fn host_caps(&self) -> HostCaps {
        let caps = self.settings.caps.share_of(self.senders.count());
        self.host_slots.resize(caps.per_firm_and_host);
        HostCaps { per_host: caps.per_host.min(host_ceiling(self.settings.permits)), ..caps }
    }

    /// Notes that the host answered an attempt.
    pub fn note_answer(&self, host: &str, began_at: Instant, ended_at: Instant) {
        self.host_healths.note_answer(host, began_at, ended_at, self.host_caps());
    }

    /// Notes that an attempt to the host got no answer.
    pub fn note_silence(&self, host: &str, began_at: Instant, ended_at: Instant) {
        self.host_healths.note_silence(host, began_at, ended_at, self.host_caps());
    }

    /// Attempts that may be in flight from one firm to one host.
    pub(crate) fn per_firm_and_host(&self) -> usize {
        self.host_caps().per_firm_and_host
    }

    /// Whether this process may send. A process that has just joined others waits until they have
    /// come down to their shares.
    pub(crate) fn may_send(&self) -> bool {
        self.senders.may_send()
    }

    /// Waits until there is a free permit.
    pub(crate) async fn any_permit(&self) {
        self.permits.wait_until_free().await;
    }

    /// The free permits, and the permits that each firm uses.
    pub(crate) fn permit_usage(&self) -> PermitUsage {
        self.permits.permit_usage()
    }

    /// Notes that a claim has asked for these queues of recovered hosts, and that some were empty.
    pub(crate) fn note_asked(&self, asked: &[String], drained: &[String]) {
        self.host_healths.note_asked(asked, drained);
    }

    /// Notes queues that a claim has visited. Hosts that answer do not wait for the next visit.
    pub(crate) fn note_visited(&self, queues: &[String]) {
        self.host_healths.note_visited(queues);
    }

    /// Attempts in flight, and the health of their hosts.
    fn flight_counts(&self, caps: HostCaps) -> FlightCounts {
        let mut flight = self.in_flight.flight_counts(caps);
        let hosts = flight.permits.keys();
        flight.health = self.host_healths.known_healths(hosts.map(String::as_str));
        flight
    }

    /// The limits that are reached now.
    pub(crate) fn full_limits(&self) -> FullLimits {
        let caps = self.host_caps();
        let usage = self.permit_usage();
        let flight = self.flight_counts(caps);
        let mut hosts: HashSet<String> = usage.hosts_at_share(&flight).into_iter().collect();
        let at_limit = flight.hosts.iter().filter(|(host, n)| **n >= flight.host_limit(host, caps));
        hosts.extend(at_limit.map(|(host, _)| host.clone()));
        let is_unresponsive = |host: &&String| flight.standing(host) == HostStanding::Unresponsive;
        let room = StandingRoom::beside_flight(&flight, usage.permits);
        let unresponsive_hosts = hosts.iter().filter(is_unresponsive).cloned().collect();
        let unresponsive_room = room.left_for(HostStanding::Unresponsive).unwrap_or(usage.free);
        let is_full = |pair: &FirmAndHost, count: usize| {
            count
                >= caps.per_firm_and_host.saturating_add(self.ahead_limit(pair, caps).unwrap_or(0))
        };
        FullLimits {
            firms: usage.firms_at_share(),
            hosts: hosts.into_iter().collect(),
            unresponsive_hosts,
            pairs: flight
                .pairs
                .into_iter()
                .filter(|(pair, n)| is_full(pair, *n))
                .map(|(p, _)| p)
                .collect(),
            unresponsive_room: unresponsive_room.min(usage.free),
            recovered_queues: self.host_healths.recovered_queues(),
        }
    }

    /// Attempts that may be claimed beyond the limit of a pair whose host answers quickly.
    fn ahead_limit(&self, pair: &FirmAndHost, caps: HostCaps) -> Option<usize> {
        Some(caps.ahead_limit(self.settings.ahead, self.host_slots.answers_in(pair)?))
    }

    /// Reserves capacity for as many candidates as the limits allow. Hosts, firms and lanes take
    /// turns.
    pub(crate) fn reserve_capacity(&self, due: Vec<ClaimCandidate>) -> Reservations {
        if due.is_empty() {
            return Reservations::default();
        }
        let _alone = self.reserving.lock().unwrap_or_else(PoisonError::into_inner);
        let caps = self.host_caps();
        let mut flight = self.flight_counts(caps);
        flight
            .health
            .extend(self.host_healths.known_healths(due.iter().map(|one| one.host.as_str())));
        let pairs: HashSet<FirmAndHost> =
            due.iter().map(|one| (one.firm_id, one.host.clone())).collect();
        flight.ahead = pairs
            .into_iter()
            .filter_map(|pair| Some((pair.clone(), self.ahead_limit(&pair, caps)?)))
            .collect();
        let candidates: HashMap<Uuid, ClaimCandidate> =
            due.iter().map(|one| (one.delivery_id, one.clone())).collect();
        let choice = choose_deliveries(due, &self.permit_usage(), flight, caps);
        let reserve = |delivery_id| {
            let one: &ClaimCandidate = candidates.get(&delivery_id)?;
            let permit = self.permits.take_permit(one.firm_id)?;
            if one.is_retry {
                self.host_healths.note_retry(&one.host, caps);
            }
            let flying = self.in_flight.count_attempt(one.lane_id, (one.firm_id, one.host.clone()));
            Some((delivery_id, Arc::new(SendReservation { _permit: permit, _flying: flying })))
        };
        Reservations {
            deliveries: choice.deliveries.into_iter().filter_map(reserve).collect(),
            crowded_out: choice.crowded_out,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CAPS: HostCaps = HostCaps { per_firm_and_host: 4, per_host: 6 };

    fn limits(permits: usize) -> SendLimits {
        SendLimits::alone(DelivererSettings { permits, caps: CAPS, ..DelivererSettings::default() })
    }

    /// A process whose host has answered often enough for all of its limits.
    fn known(permits: usize) -> SendLimits {
        let limits = limits(permits);
        let now = Instant::now();
        (0..9).for_each(|_| limits.note_answer("a.example", now, now));
        limits
    }

    fn reserved(limits: &SendLimits, firm: u128) -> Vec<(Uuid, Arc<SendReservation>)> {
        limits.reserve_capacity(due(firm, 9)).deliveries
    }

    fn due(firm: u128, count: u128) -> Vec<ClaimCandidate> {
        let one = |number| ClaimCandidate {
            delivery_id: Uuid::from_u128(firm * 100 + number),
            lane_id: Uuid::from_u128(firm),
            firm_id: Uuid::from_u128(firm),
            host: "a.example".into(),
            is_retry: false,
        };
        (0..count).map(one).collect()
    }

    #[test]
    fn a_reservation_counts_until_its_drop() {
        let limits = known(64);
        assert!(limits.full_limits().is_empty());
        let first = reserved(&limits, 1);
        assert_eq!(first.len(), CAPS.per_firm_and_host);
        assert_eq!(limits.full_limits().pairs, [(Uuid::from_u128(1), "a.example".to_owned())]);
        assert!(reserved(&limits, 1).is_empty());
        let second = reserved(&limits, 2);
        assert_eq!(second.len(), CAPS.per_host - CAPS.per_firm_and_host);
        assert_eq!(limits.full_limits().hosts, ["a.example"]);
        drop(first);
        assert_eq!(reserved(&limits, 1).len(), CAPS.per_firm_and_host);
    }

    #[test]
    fn nothing_is_reserved_without_a_permit() {
        let limits = known(2);
        let held = reserved(&limits, 1);
        assert_eq!(held.len(), 1, "a quarter of the permits, one at least, is never lent");
        assert_eq!(limits.full_limits().firms, [Uuid::from_u128(1)]);
    }
}
