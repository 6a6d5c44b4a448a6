//! Limits in flight and fair turns between firms (ruling 34, pressure).
//!
//! Two limits protect receivers: one per firm and host, and one per host. They hold over all
//! processes, and each process keeps its share of them.
//!
//! The permits of a process protect firms from each other. A firm that holds its share gets further
//! permits only from those that may be lent, and a quarter of all permits is never lent. The share
//! is a quarter of the permits, and smaller if more than three firms have work. So a firm
//! that had no work finds a permit when work comes.
//!
//! A claim also takes no more than it can hold in memory.
//!
//! For a host that answers quickly, a claim may take more deliveries than the limit in flight
//! allows. The rest waits in the process for a moment until a slot is free.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::time::Duration;

use uuid::Uuid;

use crate::document::DOCUMENT_MAX_BYTES;

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
    pub fn ahead(self, within: Duration, answers_in: Duration) -> usize {
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

/// Number of a process's permits that are never lent.
const fn reserved_permits(permits: usize) -> usize {
    let quarter = permits / 4;
    if quarter == 0 { 1 } else { quarter }
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
    pub fn of(permits: usize) -> Self {
        Self { permits, free: permits, held: HashMap::new() }
    }

    /// Number of permits that may be lent to firms that hold their share.
    #[must_use]
    pub fn lendable(&self) -> usize {
        self.free.saturating_sub(reserved_permits(self.permits))
    }

    /// The share of one of so many firms with work.
    fn share(&self, firms: usize) -> usize {
        reserved_permits(self.permits).min(self.permits / (firms + 1)).max(1)
    }

    /// The firms that get no permit now.
    #[must_use]
    pub fn firms_at_share(&self) -> Vec<Uuid> {
        if self.lendable() > 0 {
            return Vec::new();
        }
        let share = self.share(self.held.len());
        self.held.iter().filter(|(_, held)| **held >= share).map(|(firm, _)| *firm).collect()
    }
}

/// Attempts that a process has claimed and that are not answered yet.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FlightCounts {
    /// By lane.
    pub lanes: HashMap<Uuid, usize>,
    /// By firm and host.
    pub pairs: HashMap<(Uuid, String), usize>,
    /// By host. Each firm counts up to its limit in flight.
    pub hosts: HashMap<String, usize>,
    /// Number of deliveries that may be claimed ahead, by firm and host.
    pub ahead: HashMap<(Uuid, String), usize>,
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
}

/// Number of deliveries of a lane in one turn. Within a turn the oldest go first, so that lanes
/// advance evenly. Deliveries of one occurrence are then claimed together, and their body is built
/// once.
const DELIVERIES_PER_TURN: usize = 8;

/// Chooses the deliveries to send now, within the limits. Firms take turns, and within a firm its
/// lanes take turns.
#[must_use]
pub fn choose(
    due: Vec<ClaimCandidate>,
    room: &PermitUsage,
    mut flight: FlightCounts,
    caps: HostCaps,
) -> Vec<Uuid> {
    let by_lane =
        in_turn(due, |one| count_up(&mut flight.lanes, one.lane_id) / DELIVERIES_PER_TURN);
    let mut firms = HashMap::new();
    let by_firm = in_turn(by_lane, |one| count_up(&mut firms, one.firm_id));
    let mut held = room.held.clone();
    let mut fits: Vec<(usize, Uuid)> = by_firm
        .into_iter()
        .filter(|one| flight.takes(one, caps))
        .map(|one| (count_up(&mut held, one.firm_id), one.delivery_id))
        .collect();
    fits.sort_by_key(|(turn, _)| *turn);
    let share = room.share(held.len());
    let within = fits.partition_point(|(turn, _)| *turn < share).min(room.free);
    let lent = room.lendable().saturating_sub(within);
    fits.into_iter().take(within + lent).map(|(_, delivery_id)| delivery_id).collect()
}

impl FlightCounts {
    /// Counts the claimed attempts of a lane.
    pub fn count(
        &mut self,
        lane_id: Uuid,
        firm_id: Uuid,
        host: String,
        claimed: usize,
        caps: HostCaps,
    ) {
        self.lanes.insert(lane_id, claimed);
        let of_host = self.hosts.entry(host.clone()).or_default();
        let of_pair = self.pairs.entry((firm_id, host)).or_default();
        let before = caps.per_firm_and_host.min(*of_pair);
        *of_pair += claimed;
        *of_host += caps.per_firm_and_host.min(*of_pair) - before;
    }

    /// Counts the candidate if its host has a slot, or if it may be claimed ahead. A delivery
    /// claimed ahead waits for a slot of its firm and uses none of its host.
    fn takes(&mut self, one: &ClaimCandidate, caps: HostCaps) -> bool {
        let key = (one.firm_id, one.host.clone());
        let ahead = self.ahead.get(&key).copied().unwrap_or(0);
        let pair = self.pairs.entry(key).or_default();
        let host = self.hosts.entry(one.host.clone()).or_default();
        if *pair >= caps.per_firm_and_host {
            let fits = *pair < caps.per_firm_and_host.saturating_add(ahead);
            *pair += usize::from(fits);
            return fits;
        }
        let fits = *host < caps.per_host;
        *pair += usize::from(fits);
        *host += usize::from(fits);
        fits
    }
}

/// Sorts the candidates by turn and keeps their order within a turn.
fn in_turn(
    due: Vec<ClaimCandidate>,
    mut turn: impl FnMut(&ClaimCandidate) -> usize,
) -> Vec<ClaimCandidate> {
    let mut turns: Vec<(usize, ClaimCandidate)> =
        due.into_iter().map(|one| (turn(&one), one)).collect();
    turns.sort_by_key(|(turn, _)| *turn);
    turns.into_iter().map(|(_, one)| one).collect()
}

/// Number of earlier items with this key.
fn count_up<K: Eq + Hash>(counts: &mut HashMap<K, usize>, key: K) -> usize {
    let count = counts.entry(key).or_default();
    *count += 1;
    *count - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    const CAPS: HostCaps = HostCaps { per_firm_and_host: 3, per_host: 5 };

    /// So many deliveries of a firm, in one lane, to one host.
    fn due(firm: u128, host: &str, count: u128) -> Vec<ClaimCandidate> {
        let lane = firm * 1_000 + host.len() as u128;
        (0..count)
            .map(|number| ClaimCandidate {
                delivery_id: Uuid::from_u128(lane * 1_000 + number),
                lane_id: Uuid::from_u128(lane),
                firm_id: Uuid::from_u128(firm),
                host: host.to_owned(),
            })
            .collect()
    }

    fn firms(chosen: &[Uuid]) -> Vec<u128> {
        chosen.iter().map(|id| id.as_u128() / 1_000_000).collect()
    }

    fn ample() -> PermitUsage {
        PermitUsage::of(1_000)
    }

    #[test]
    fn a_firm_and_a_host_have_their_limits() {
        let all: Vec<_> = (1..=3).flat_map(|firm| due(firm, "a.example", 9)).collect();
        let chosen = choose(all, &ample(), FlightCounts::default(), CAPS);
        assert_eq!(chosen.len(), 5, "per host");
        let chosen = choose(due(1, "a.example", 9), &ample(), FlightCounts::default(), CAPS);
        assert_eq!(chosen.len(), 3, "per firm and host");
        let flight = FlightCounts {
            pairs: HashMap::from([((Uuid::from_u128(1), "a.example".to_owned()), 2)]),
            hosts: HashMap::from([("a.example".to_owned(), 4)]),
            ..FlightCounts::default()
        };
        let all: Vec<_> = (1..=3).flat_map(|firm| due(firm, "a.example", 9)).collect();
        assert_eq!(choose(all, &ample(), flight, CAPS).len(), 1, "what is in flight counts");
    }

    fn to_a(firm: u128) -> (Uuid, String) {
        (Uuid::from_u128(firm), "a.example".to_owned())
    }

    #[test]
    fn senders_share_the_limits_and_each_may_send_something() {
        let shares = |senders| {
            let HostCaps { per_firm_and_host, per_host } = HostCaps::default().share_of(senders);
            (per_firm_and_host, per_host)
        };
        assert_eq!([0, 1, 3, 32, 64].map(shares), [(32, 256), (32, 256), (10, 85), (1, 8), (1, 4)]);
    }

    #[test]
    fn the_quicker_a_host_answers_the_more_is_claimed_ahead() {
        let ahead =
            |millis| HostCaps::default().ahead(CLAIM_AHEAD_WINDOW, Duration::from_millis(millis));
        assert_eq!(
            [0, 1, 10, 11, 25, 26, 50, 51, 10_000].map(ahead),
            [160, 160, 160, 128, 64, 32, 32, 0, 0]
        );
    }

    #[test]
    fn what_is_claimed_ahead_takes_no_place_of_its_host() {
        let flight =
            FlightCounts { ahead: HashMap::from([(to_a(1), 4)]), ..FlightCounts::default() };
        let hog = due(1, "a.example", 9);
        assert_eq!(choose(hog.clone(), &ample(), flight.clone(), CAPS).len(), 3 + 4);
        let mut all = hog;
        all.extend(due(2, "a.example", 9));
        let chosen = firms(&choose(all, &ample(), flight, CAPS));
        assert_eq!(chosen.iter().filter(|firm| **firm == 2).count(), 2, "five to the host");
        let mut flight = FlightCounts::default();
        let (firm_id, host) = to_a(1);
        flight.count(Uuid::from_u128(7), firm_id, host.clone(), 2, CAPS);
        flight.count(Uuid::from_u128(8), firm_id, host, 5, CAPS);
        assert_eq!((flight.pairs[&to_a(1)], flight.hosts["a.example"]), (7, 3));
        assert_eq!(choose(due(2, "a.example", 9), &ample(), flight, CAPS).len(), 2);
    }

    #[test]
    fn lanes_take_turns_of_eight_and_each_begins_with_its_oldest() {
        let mut all = due(1, "a", 20);
        all.extend(due(1, "bb", 20));
        let caps = HostCaps { per_firm_and_host: 99, per_host: 99 };
        let room = PermitUsage { permits: 64, free: 64, ..PermitUsage::default() };
        let chosen = choose(all.clone(), &room, FlightCounts::default(), caps);
        let turns = (0..8).chain(20..28).chain(8..16).chain(28..36);
        let expected: Vec<_> = turns.map(|index| all[index].delivery_id).collect();
        assert_eq!(chosen[..32], expected);
    }

    #[test]
    fn a_lane_that_is_behind_catches_up_within_a_turn() {
        let (ahead, behind) = (due(1, "a", 4), due(1, "bb", 4));
        let flight = FlightCounts {
            lanes: HashMap::from([(behind[0].lane_id, 3)]),
            ..FlightCounts::default()
        };
        let room = PermitUsage { permits: 16, free: 4, ..PermitUsage::default() };
        let oldest_first = behind.iter().chain(&ahead).cloned().collect();
        let chosen = choose(oldest_first, &room, flight, HostCaps::default());
        assert_eq!(chosen, behind.iter().map(|one| one.delivery_id).collect::<Vec<_>>());
    }

    #[test]
    fn f3_a_firm_over_its_share_leaves_a_quarter_to_the_others() {
        let caps = HostCaps { per_firm_and_host: 1_000, per_host: 1_000 };
        let hog = due(1, "a", 40);
        let room = PermitUsage::of(16);
        assert_eq!(choose(hog.clone(), &room, FlightCounts::default(), caps).len(), 12);
        let held = HashMap::from([(Uuid::from_u128(1), 12)]);
        let full = PermitUsage { permits: 16, free: 4, held };
        assert!(choose(hog.clone(), &full, FlightCounts::default(), caps).is_empty());
        assert_eq!(full.firms_at_share(), [Uuid::from_u128(1)]);
        let mut both = hog;
        both.extend(due(2, "b", 40));
        let chosen = choose(both, &full, FlightCounts::default(), caps);
        assert_eq!(firms(&chosen), [2; 4]);
    }

    #[test]
    fn f3_many_firms_at_their_share_leave_something_for_one_more() {
        let held: HashMap<Uuid, usize> = (1..=4).map(|firm| (Uuid::from_u128(firm), 63)).collect();
        let room = PermitUsage { permits: 256, free: 4, held };
        let mut sated = room.firms_at_share();
        sated.sort();
        assert_eq!(sated, [1, 2, 3, 4].map(Uuid::from_u128));
        let one_each = (1..=200).map(|firm| (Uuid::from_u128(firm), 1)).collect();
        let busy = PermitUsage { permits: 256, free: 56, held: one_each };
        assert_eq!(busy.firms_at_share().len(), 200, "the rest is for those who have none");
    }

    #[test]
    fn f3_ten_firms_that_begin_together_leave_something_for_one_more() {
        let caps = HostCaps { per_firm_and_host: 1_000, per_host: 10_000 };
        let all: Vec<_> = (1..=10).flat_map(|firm| due(firm, "a", 100)).collect();
        let chosen = choose(all, &PermitUsage::of(256), FlightCounts::default(), caps);
        assert_eq!(chosen.len(), 230);
        assert!(
            (1..=10).all(|firm| firms(&chosen).iter().filter(|one| **one == firm).count() == 23)
        );
    }

    #[test]
    fn firms_take_turns() {
        let caps = HostCaps { per_firm_and_host: 1_000, per_host: 1_000 };
        let mut all = due(1, "a", 9);
        all.extend(due(2, "bb", 2));
        let chosen = choose(all, &PermitUsage::of(64), FlightCounts::default(), caps);
        assert_eq!(firms(&chosen)[..4], [1, 2, 1, 2]);
        assert_eq!(chosen.len(), 11);
    }

    #[test]
    fn f9_a_claim_takes_as_many_as_their_bytes_allow_and_holds_a_source_once() {
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

    #[test]
    fn nothing_is_chosen_without_room() {
        let none = PermitUsage { permits: 16, ..PermitUsage::default() };
        assert!(
            choose(due(1, "a", 9), &none, FlightCounts::default(), HostCaps::default()).is_empty()
        );
        assert_eq!((reserved_permits(0), reserved_permits(3), reserved_permits(256)), (1, 1, 64));
    }
}
