//! The choice of the deliveries to send now: hosts take turns, and within a host firms take turns
//! (ruling 34, pressure).

use std::collections::{HashMap, HashSet};
use std::hash::Hash;

use uuid::Uuid;

use super::HostCaps;
use super::flight::{ClaimCandidate, FlightCounts};
use super::host_health::HostStanding;
use super::permits::{PermitUsage, StandingRoom, last_permits};

/// The deliveries to send now, and the lanes that wait because of their host's standing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClaimChoice {
    /// The deliveries to send.
    pub deliveries: Vec<Uuid>,
    /// Lanes without a chosen delivery whose hosts have no room left for their standing.
    pub crowded_out: HashSet<Uuid>,
}

/// Number of deliveries of a lane in one turn. Within a turn the oldest go first, so that lanes
/// advance evenly. Deliveries of one occurrence are then claimed together, and their body is built
/// once.
const DELIVERIES_PER_TURN: usize = 8;

/// A candidate that its host has a slot for.
struct TurnOfCandidate {
    candidate: ClaimCandidate,
    standing: HostStanding,
    host_turn: usize,
    firm_turn: usize,
}

/// Chooses the deliveries to send now, within the limits. Hosts take turns, within a host its
/// firms take turns, and within a firm its lanes.
///
/// A candidate within the shares of its host and its firm gets any free permit but the last ones,
/// which have shares of their own. Other candidates get permits that may be lent.
#[must_use]
pub fn choose_deliveries(
    due: Vec<ClaimCandidate>,
    room: &PermitUsage,
    mut flight: FlightCounts,
    caps: HostCaps,
) -> ClaimChoice {
    let mut standings = StandingRoom::beside_flight(&flight, room.permits);
    let candidates = take_turns(due, room, &mut flight, caps);
    let firms: HashSet<Uuid> = room
        .held
        .keys()
        .copied()
        .chain(candidates.iter().map(|one| one.candidate.firm_id))
        .collect();
    let hosts: HashSet<&str> = flight.permits.keys().map(String::as_str).collect();
    let firm_share = room.firm_share(firms.len());
    let host_share = room.permit_share(hosts.len());
    let last_share = room.last_share(hosts.len());
    let (within, beyond): (Vec<_>, Vec<_>) = candidates
        .into_iter()
        .partition(|one| one.firm_turn < firm_share && one.host_turn < host_share);
    let mut choice = ClaimChoice::default();
    let mut served = HashSet::new();
    let mut give = |candidates: Vec<TurnOfCandidate>, permits: usize, last: usize| {
        let mut left = permits;
        for TurnOfCandidate { candidate, standing, host_turn, .. } in candidates {
            if left == 0 {
                break;
            }
            if left <= last && host_turn >= last_share {
                continue;
            }
            if standings.take_permit(standing, host_turn) {
                left -= 1;
                served.insert(candidate.lane_id);
                choice.deliveries.push(candidate.delivery_id);
            } else {
                choice.crowded_out.insert(candidate.lane_id);
            }
        }
        permits - left
    };
    let given = give(within, room.free, last_permits(room.permits));
    give(beyond, room.lendable_permits().saturating_sub(given), 0);
    choice.crowded_out.retain(|lane_id| !served.contains(lane_id));
    choice
}

/// The candidates that their hosts have slots for, in the order of their turns.
fn take_turns(
    due: Vec<ClaimCandidate>,
    room: &PermitUsage,
    flight: &mut FlightCounts,
    caps: HostCaps,
) -> Vec<TurnOfCandidate> {
    let by_lane =
        in_turn(due, |one| count_up(&mut flight.lanes, one.lane_id) / DELIVERIES_PER_TURN);
    let mut pairs = HashMap::new();
    let by_firm = in_turn(by_lane, |one| count_up(&mut pairs, (one.firm_id, one.host.clone())));
    let mut held = room.held.clone();
    let mut candidates = Vec::new();
    for candidate in by_firm {
        if flight.count_if_room(&candidate, caps) {
            candidates.push(TurnOfCandidate {
                standing: flight.standing_of(&candidate),
                host_turn: count_up(&mut flight.permits, candidate.host.clone()),
                firm_turn: count_up(&mut held, candidate.firm_id),
                candidate,
            });
        }
    }
    candidates.sort_by_key(|one| (one.host_turn, one.firm_turn));
    candidates
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
    use std::time::{Duration, Instant};

    use super::*;
    use crate::delivery::pressure::host_health::HostHealth;
    use crate::delivery::pressure::permits::{host_ceiling, reserved_permits};

    const CAPS: HostCaps = HostCaps { per_firm_and_host: 3, per_host: 5 };

    const HOSTS: &[&str] = &["a", "b", "bb", "a.example"];

    /// So many deliveries of a firm, in one lane, to one host.
    fn due(firm: u128, host: &str, count: u128) -> Vec<ClaimCandidate> {
        let lane = firm * 1_000 + host.len() as u128;
        (0..count)
            .map(|number| ClaimCandidate {
                delivery_id: Uuid::from_u128(lane * 1_000 + number),
                lane_id: Uuid::from_u128(lane),
                firm_id: Uuid::from_u128(firm),
                host: host.to_owned(),
                is_retry: false,
            })
            .collect()
    }

    /// A moment before all attempts of a test.
    fn earlier() -> Instant {
        Instant::now().checked_sub(Duration::from_secs(1)).unwrap()
    }

    /// Hosts that answer, with a limit that no test reaches.
    fn responsive(hosts: &[&str]) -> FlightCounts {
        let mut answering = HostHealth::unknown(10_000);
        answering.note_answer(earlier(), earlier(), 10_000);
        let health = hosts.iter().map(|host| ((*host).to_owned(), answering)).collect();
        FlightCounts { health, ..FlightCounts::default() }
    }

    fn chosen(
        due: Vec<ClaimCandidate>,
        room: &PermitUsage,
        flight: FlightCounts,
        caps: HostCaps,
    ) -> Vec<Uuid> {
        choose_deliveries(due, room, flight, caps).deliveries
    }

    /// Another lane to the host `a`.
    fn at_a(mut due: Vec<ClaimCandidate>) -> Vec<ClaimCandidate> {
        due.iter_mut().for_each(|one| "a".clone_into(&mut one.host));
        due
    }

    fn firms(chosen: &[Uuid]) -> Vec<u128> {
        chosen.iter().map(|id| id.as_u128() / 1_000_000).collect()
    }

    fn ample() -> PermitUsage {
        PermitUsage::new(1_000)
    }

    #[test]
    fn a_firm_and_host_have_limits() {
        let all: Vec<_> = (1..=3).flat_map(|firm| due(firm, "a.example", 9)).collect();
        let sent = chosen(all, &ample(), responsive(HOSTS), CAPS);
        assert_eq!(sent.len(), 5, "per host");
        let sent = chosen(due(1, "a.example", 9), &ample(), responsive(HOSTS), CAPS);
        assert_eq!(sent.len(), 3, "per firm and host");
        let flight = FlightCounts {
            pairs: HashMap::from([((Uuid::from_u128(1), "a.example".to_owned()), 2)]),
            hosts: HashMap::from([("a.example".to_owned(), 4)]),
            ..responsive(HOSTS)
        };
        let all: Vec<_> = (1..=3).flat_map(|firm| due(firm, "a.example", 9)).collect();
        assert_eq!(chosen(all, &ample(), flight, CAPS).len(), 1, "what is in flight counts");
    }

    fn to_a(firm: u128) -> (Uuid, String) {
        (Uuid::from_u128(firm), "a.example".to_owned())
    }

    #[test]
    fn a_claim_ahead_takes_no_host_slot() {
        let flight = FlightCounts { ahead: HashMap::from([(to_a(1), 4)]), ..responsive(HOSTS) };
        let hog = due(1, "a.example", 9);
        assert_eq!(chosen(hog.clone(), &ample(), flight.clone(), CAPS).len(), 3 + 4);
        let mut all = hog;
        all.extend(due(2, "a.example", 9));
        let sent = firms(&chosen(all, &ample(), flight, CAPS));
        assert_eq!(sent.iter().filter(|firm| **firm == 2).count(), 2, "five to the host");
        let mut flight = responsive(HOSTS);
        let (firm_id, host) = to_a(1);
        flight.count_lane(Uuid::from_u128(7), firm_id, host.clone(), 2, CAPS);
        flight.count_lane(Uuid::from_u128(8), firm_id, host, 5, CAPS);
        assert_eq!((flight.pairs[&to_a(1)], flight.hosts["a.example"]), (7, 3));
        assert_eq!(chosen(due(2, "a.example", 9), &ample(), flight, CAPS).len(), 2);
    }

    #[test]
    fn lanes_take_turns_of_eight_oldest_first() {
        let mut all = due(1, "a", 20);
        all.extend(at_a(due(1, "bb", 20)));
        let caps = HostCaps { per_firm_and_host: 99, per_host: 99 };
        let room = PermitUsage { permits: 64, free: 64, ..PermitUsage::default() };
        let sent = chosen(all.clone(), &room, responsive(HOSTS), caps);
        let turns = (0..8).chain(20..28).chain(8..16).chain(28..36);
        let expected: Vec<_> = turns.map(|index| all[index].delivery_id).collect();
        assert_eq!(sent[..32], expected);
    }

    #[test]
    fn a_lane_behind_catches_up_in_turn() {
        let (ahead, behind) = (due(1, "a", 4), at_a(due(1, "bb", 4)));
        let flight =
            FlightCounts { lanes: HashMap::from([(behind[0].lane_id, 3)]), ..responsive(HOSTS) };
        let room = PermitUsage { permits: 16, free: 6, ..PermitUsage::default() };
        let oldest_first = behind.iter().chain(&ahead).cloned().collect();
        let sent = chosen(oldest_first, &room, flight, HostCaps::default());
        assert_eq!(sent, behind.iter().map(|one| one.delivery_id).collect::<Vec<_>>());
    }

    #[test]
    fn f3_a_firm_leaves_others_a_quarter() {
        let caps = HostCaps { per_firm_and_host: 1_000, per_host: 1_000 };
        let hog = due(1, "a", 40);
        let room = PermitUsage::new(16);
        assert_eq!(chosen(hog.clone(), &room, responsive(HOSTS), caps).len(), 12);
        let held = HashMap::from([(Uuid::from_u128(1), 12)]);
        let full = PermitUsage { permits: 16, free: 4, held };
        assert!(chosen(hog.clone(), &full, responsive(HOSTS), caps).is_empty());
        assert_eq!(full.firms_at_share(), [Uuid::from_u128(1)]);
        let mut both = hog;
        both.extend(due(2, "b", 40));
        let sent = chosen(both, &full, responsive(HOSTS), caps);
        assert_eq!(firms(&sent), [2; 2], "the last two are for other hosts");
    }

    #[test]
    fn f3_many_firms_leave_permits_for_another() {
        let held: HashMap<Uuid, usize> = (1..=4).map(|firm| (Uuid::from_u128(firm), 63)).collect();
        let room = PermitUsage { permits: 256, free: 4, held };
        let mut sated = room.firms_at_share();
        sated.sort();
        assert_eq!(sated, [1, 2, 3, 4].map(Uuid::from_u128));
        let one_each = (1..=200).map(|firm| (Uuid::from_u128(firm), 1)).collect();
        let busy = PermitUsage { permits: 256, free: 7, held: one_each };
        assert_eq!(busy.firms_at_share().len(), 200, "the rest is for those who have none");
    }

    /// 300 firms with permits at one silent host left another firm one permit at a time.
    #[test]
    fn a_firm_gets_several_beside_many_firms() {
        let mut flight = responsive(HOSTS);
        flight.permits.insert("a".to_owned(), 192);
        let held = (1..=192).map(|firm| (Uuid::from_u128(firm), 1)).collect();
        let room = PermitUsage { permits: 256, free: 64, held };
        let sent = chosen(due(301, "b", 30), &room, flight, HostCaps::default());
        assert_eq!(sent.len(), 16, "a quarter of the free permits");
    }

    #[test]
    fn f3_ten_firms_at_once_leave_permits() {
        let caps = HostCaps { per_firm_and_host: 1_000, per_host: 10_000 };
        let hosts: Vec<String> = (1..=10).map(|host| format!("{host}.example")).collect();
        let hosts: Vec<&str> = hosts.iter().map(String::as_str).collect();
        let all: Vec<_> =
            (1..=10).flat_map(|firm| due(firm, hosts[firm as usize - 1], 100)).collect();
        let sent = chosen(all, &PermitUsage::new(256), responsive(&hosts), caps);
        assert_eq!(sent.len(), 224);
        assert!((1..=10).all(|firm| firms(&sent).iter().filter(|one| **one == firm).count() >= 22));
    }

    #[test]
    fn firms_take_turns() {
        let caps = HostCaps { per_firm_and_host: 1_000, per_host: 1_000 };
        let mut all = due(1, "a", 9);
        all.extend(due(2, "bb", 2));
        let sent = chosen(all, &PermitUsage::new(64), responsive(HOSTS), caps);
        assert_eq!(firms(&sent)[..4], [1, 2, 1, 2]);
        assert_eq!(sent.len(), 11);
    }

    #[test]
    fn nothing_is_chosen_without_room() {
        let none = PermitUsage { permits: 16, ..PermitUsage::default() };
        assert!(chosen(due(1, "a", 9), &none, responsive(HOSTS), HostCaps::default()).is_empty());
        assert_eq!((reserved_permits(0), reserved_permits(3), reserved_permits(256)), (1, 1, 64));
    }

    /// 300 firms at one host held all permits, each within its share.
    #[test]
    fn many_firms_at_one_host_leave_permits() {
        let all: Vec<_> = (1..=300).flat_map(|firm| due(firm, "a", 15)).collect();
        let room = PermitUsage::new(256);
        let sent = chosen(all, &room, responsive(HOSTS), HostCaps::default());
        assert_eq!(sent.len(), host_ceiling(256));
        let mut flight = responsive(HOSTS);
        flight.permits.insert("a".to_owned(), 192);
        let full = PermitUsage { permits: 256, free: 64, ..PermitUsage::default() };
        assert_eq!(full.hosts_at_share(&flight), ["a"]);
        assert_eq!(chosen(due(301, "b", 9), &full, flight, HostCaps::default()).len(), 9);
    }

    /// Two hosts that fell silent together held all permits until the time limit.
    #[test]
    fn two_hosts_leave_an_eighth_to_another() {
        let mut flight = responsive(HOSTS);
        flight.permits.insert("a".to_owned(), host_ceiling(256));
        let room = PermitUsage { permits: 256, free: 64, ..PermitUsage::default() };
        let at_b: Vec<_> = (1..=300).flat_map(|firm| due(firm, "b", 15)).collect();
        let sent = chosen(at_b, &room, flight.clone(), HostCaps::default());
        assert_eq!(sent.len(), 32);
        flight.permits.insert("b".to_owned(), 32);
        let full = PermitUsage { permits: 256, free: 32, ..PermitUsage::default() };
        let mut at_share = full.hosts_at_share(&flight);
        at_share.sort();
        assert_eq!(at_share, ["a", "b"]);
        let due = [due(302, "b", 9), due(301, "bb", 9)].concat();
        assert_eq!(firms(&chosen(due, &full, flight, HostCaps::default())), [301; 8]);
    }

    #[test]
    fn hosts_take_turns_before_firms() {
        let mut all: Vec<_> = (1..=30).flat_map(|firm| due(firm, "a", 1)).collect();
        all.extend(due(31, "bb", 3));
        let sent = chosen(all, &PermitUsage::new(64), responsive(HOSTS), HostCaps::default());
        assert_eq!(firms(&sent)[..4], [1, 31, 2, 31]);
    }

    fn silent(hosts: &[&str]) -> FlightCounts {
        let (begin, late) = (Instant::now(), Duration::from_secs(10));
        let mut flight = responsive(hosts);
        flight.health.values_mut().for_each(|health| health.note_silence(begin, begin + late));
        flight
    }

    #[test]
    fn silent_hosts_share_half_of_the_permits() {
        let all: Vec<_> = HOSTS.iter().flat_map(|host| due(1, host, 30)).collect();
        let caps = HostCaps { per_firm_and_host: 99, per_host: 99 };
        let choice = choose_deliveries(all.clone(), &PermitUsage::new(64), silent(HOSTS), caps);
        assert_eq!(choice.deliveries.len(), 32);
        assert!(choice.crowded_out.is_empty(), "each lane has some");
        let mut flight = silent(HOSTS);
        flight.permits.insert("b".to_owned(), 32);
        let room = PermitUsage { permits: 64, free: 32, ..PermitUsage::default() };
        let choice = choose_deliveries(due(1, "a", 30), &room, flight.clone(), caps);
        assert_eq!(
            choice,
            ClaimChoice { deliveries: Vec::new(), crowded_out: HashSet::from([all[0].lane_id]) }
        );
        flight.health.remove("a");
        assert_eq!(chosen(due(1, "a", 30), &room, flight.clone(), caps).len(), 16, "unknown");
        let mut retries = due(1, "a", 30);
        retries.iter_mut().for_each(|one| one.is_retry = true);
        assert!(chosen(retries, &room, flight, caps).is_empty(), "a retry to an unknown host");
    }

    #[test]
    fn unknown_hosts_leave_responsive_ones_an_eighth() {
        let hosts: Vec<String> = (1..=300).map(|host| format!("{host}.example")).collect();
        let all: Vec<_> = (1..).zip(&hosts).flat_map(|(firm, host)| due(firm, host, 1)).collect();
        let room = PermitUsage::new(256);
        let choice = choose_deliveries(all, &room, responsive(&["a"]), HostCaps::default());
        assert_eq!((choice.deliveries.len(), choice.crowded_out.len()), (224, 76));
        let mut flight = responsive(&["a"]);
        flight.permits.extend(hosts.into_iter().take(224).map(|host| (host, 1)));
        let room = PermitUsage { permits: 256, free: 32, ..PermitUsage::default() };
        assert_eq!(chosen(due(400, "a", 9), &room, flight, HostCaps::default()).len(), 1);
    }
}
