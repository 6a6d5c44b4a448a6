//! The seats of a door. When all are taken, one connection is evicted, by its [`EvictionRank`]. So
//! idle sockets, and callers that do not read their answers, never keep a good caller out (case
//! A22). A connection whose request is being answered, and whose caller reads, never leaves.
//!
//! The roster belongs to the accepting loop. It shares one number with each connection.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::task::{AbortHandle, Id};
use tokio::time::Instant;

/// Time behind the least rate of reading after which a connection is the first to be evicted.
const STALLED_AFTER: Duration = Duration::from_secs(1);

/// A peer with more than this share of all seats, and with more than so many, is a crowd.
const CROWD_SHARE_DIVISOR: usize = 16;
const CROWD_MIN: usize = 16;

/// Stalled connections that are evicted at once: this share of all seats. Each search looks at
/// every seat, so one search per new connection would be a burden of its own.
const STALLED_SHARE_DIVISOR: usize = 64;

/// States besides a time: no encoded time is 0 or the greatest number.
const SERVED: u64 = 0;
const EVICTED: u64 = u64::MAX;

/// The state of a connection, as the roster sees it.
#[derive(Debug, Clone)]
pub(crate) struct ConnectionState(Arc<AtomicU64>);

/// A state in which a connection may be evicted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EvictableState {
    /// No request is under way.
    Waiting,
    /// The caller takes nothing of its answer.
    Blocked,
}

/// A state in which a connection may be evicted, and the time since when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Evictable {
    state: EvictableState,
    since: u64,
}

impl Evictable {
    fn waiting_from_now() -> Self {
        Self { state: EvictableState::Waiting, since: nanoseconds_at(Instant::now()) }
    }

    /// Time in the upper bits, state in the lowest.
    fn to_bits(self) -> u64 {
        self.since << 1 | u64::from(self.state == EvictableState::Blocked)
    }

    fn from_bits(number: u64) -> Option<Self> {
        let state = if number & 1 == 1 { EvictableState::Blocked } else { EvictableState::Waiting };
        (number != SERVED && number != EVICTED).then_some(Self { state, since: number >> 1 })
    }
}

impl ConnectionState {
    pub(crate) fn waiting() -> Self {
        Self(Arc::new(AtomicU64::new(Evictable::waiting_from_now().to_bits())))
    }

    /// Notes that the connection waits, from now on.
    pub(crate) fn begin_waiting(&self) {
        self.set_state(Evictable::waiting_from_now().to_bits());
    }

    /// Notes that the connection has a request. Returns false if it was evicted before.
    pub(crate) fn begin_request(&self) -> bool {
        self.set_state(SERVED)
    }

    /// Notes that the caller takes nothing of its answer, and has been behind since then.
    pub(crate) fn mark_blocked(&self, since: Instant) {
        let blocked = Evictable { state: EvictableState::Blocked, since: nanoseconds_at(since) };
        self.set_state(blocked.to_bits());
    }

    /// Notes that the caller takes its answer again.
    pub(crate) fn mark_unblocked(&self) {
        self.set_state(SERVED);
    }

    /// Returns false if the connection is evicted: it stays evicted.
    fn set_state(&self, state: u64) -> bool {
        let sets = |before| (before != EVICTED).then_some(state);
        self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, sets).is_ok()
    }

    fn evictable(&self) -> Option<Evictable> {
        Evictable::from_bits(self.0.load(Ordering::Acquire))
    }

    /// Evicts the connection, unless this state has ended.
    fn try_evict(&self, from: Evictable) -> bool {
        let from = from.to_bits();
        self.0.compare_exchange(from, EVICTED, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}

/// Nanoseconds since the first call, at least 1.
fn nanoseconds_at(at: Instant) -> u64 {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    let nanoseconds = at.saturating_duration_since(*START).as_nanos();
    u64::try_from(nanoseconds)
        .map_or(EVICTED >> 2, |nanoseconds| nanoseconds.clamp(1, EVICTED >> 2))
}

/// The order of evictions. Within a rank the connection goes first that has been so longest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum EvictionRank {
    /// The caller has been reading too slowly for a while.
    Stalled,
    /// Without a request, of a crowd.
    CrowdWaiting,
    /// Blocked a moment ago, of a crowd: many callers at once that do not read.
    CrowdBlocked,
    /// Without a request.
    Waiting,
}

impl EvictionRank {
    /// The word of this eviction in the metric of refusals.
    pub(crate) const fn metric_reason(self) -> &'static str {
        match self {
            Self::Stalled | Self::CrowdBlocked => "evicted_unread",
            Self::CrowdWaiting | Self::Waiting => "evicted_idle",
        }
    }
}

/// The share of a peer in the seats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PeerShare {
    Few,
    Crowd,
}

/// The rank of a connection at this time. `None` if it stays.
fn eviction_rank(found: Evictable, share: PeerShare, now: u64) -> Option<EvictionRank> {
    let stalled = u64::try_from(STALLED_AFTER.as_nanos()).unwrap_or(u64::MAX);
    match (found.state, share) {
        (EvictableState::Blocked, _) if now.saturating_sub(found.since) >= stalled => {
            Some(EvictionRank::Stalled)
        }
        (EvictableState::Waiting, PeerShare::Crowd) => Some(EvictionRank::CrowdWaiting),
        (EvictableState::Blocked, PeerShare::Crowd) => Some(EvictionRank::CrowdBlocked),
        (EvictableState::Waiting, PeerShare::Few) => Some(EvictionRank::Waiting),
        (EvictableState::Blocked, PeerShare::Few) => None,
    }
}

/// A connection that may be evicted.
struct EvictionCandidate {
    rank: EvictionRank,
    found: Evictable,
    id: Id,
}

impl EvictionCandidate {
    fn eviction_order(&self) -> (EvictionRank, u64) {
        (self.rank, self.found.since)
    }
}

/// Connections of one rank that were evicted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Evictions {
    pub(crate) rank: EvictionRank,
    /// At least one.
    pub(crate) count: usize,
}

/// A seat for a new connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RoomMade {
    /// A seat is free.
    Free,
    /// A seat is free because connections were evicted.
    Evicted(Evictions),
    /// Every connection is being served.
    None,
}

struct Seat {
    peer: IpAddr,
    state: ConnectionState,
    task: AbortHandle,
}

/// The seats of a door.
pub(crate) struct Roster {
    seats: HashMap<Id, Seat>,
    per_peer: HashMap<IpAddr, usize>,
    most: usize,
    most_per_peer: usize,
}

impl Roster {
    pub(crate) fn new(most: usize, most_per_peer: usize) -> Self {
        Self { seats: HashMap::new(), per_peer: HashMap::new(), most, most_per_peer }
    }

    /// Frees a seat for one more connection of an address. An address with too many connections
    /// loses one of its own.
    pub(crate) fn make_room(&mut self, peer: IpAddr) -> RoomMade {
        let peer = peer_network(peer);
        let of_peer = self.per_peer.get(&peer).copied().unwrap_or(0);
        let evicted = if of_peer >= self.most_per_peer {
            self.evict_among(|seat| seat.peer == peer)
        } else if self.seats.len() >= self.most {
            self.evict_first()
        } else {
            return RoomMade::Free;
        };
        evicted.map_or(RoomMade::None, RoomMade::Evicted)
    }

    pub(crate) fn add_seat(&mut self, peer: IpAddr, turn: ConnectionState, task: AbortHandle) {
        let peer = peer_network(peer);
        *self.per_peer.entry(peer).or_default() += 1;
        self.seats.insert(task.id(), Seat { peer, state: turn, task });
    }

    pub(crate) fn remove_seat(&mut self, id: Id) {
        // An evicted connection has lost its seat already.
        let Some(seat) = self.seats.remove(&id) else {
            return;
        };
        if let Some(count) = self.per_peer.get_mut(&seat.peer) {
            *count -= 1;
            if *count == 0 {
                self.per_peer.remove(&seat.peer);
            }
        }
    }

    /// Evicts the first connection of all, if one may be evicted. Evicts more stalled ones beside a
    /// stalled one.
    pub(crate) fn evict_first(&mut self) -> Option<Evictions> {
        self.evict_among(|_| true)
    }

    /// Evicts the first connection among some. Looks again if its state has just ended.
    fn evict_among(&mut self, is_among: impl Fn(&Seat) -> bool) -> Option<Evictions> {
        let at_once = (self.most / STALLED_SHARE_DIVISOR).max(1);
        loop {
            let mut candidates = self.eviction_candidates(&is_among);
            if candidates.len() > at_once {
                candidates.select_nth_unstable_by_key(at_once, EvictionCandidate::eviction_order);
                candidates.truncate(at_once);
            }
            candidates.sort_unstable_by_key(EvictionCandidate::eviction_order);
            let rank = candidates.first()?.rank;
            if rank == EvictionRank::Stalled {
                candidates.retain(|candidate| candidate.rank == EvictionRank::Stalled);
            } else {
                candidates.truncate(1);
            }
            let count = candidates.iter().filter(|one| self.evict_candidate(one)).count();
            if count > 0 {
                return Some(Evictions { rank, count });
            }
        }
    }

    fn eviction_candidates(&self, is_among: &impl Fn(&Seat) -> bool) -> Vec<EvictionCandidate> {
        let crowds = self.crowd_peers();
        let now = nanoseconds_at(Instant::now());
        let among = self.seats.iter().filter(|(_, seat)| is_among(seat));
        let evictable = among.filter_map(|(id, seat)| {
            let found = seat.state.evictable()?;
            let is_crowd = crowds.contains(&seat.peer);
            let share = if is_crowd { PeerShare::Crowd } else { PeerShare::Few };
            Some(EvictionCandidate { rank: eviction_rank(found, share, now)?, found, id: *id })
        });
        evictable.collect()
    }

    /// Returns false if the connection's state has just ended.
    fn evict_candidate(&mut self, candidate: &EvictionCandidate) -> bool {
        let Some(seat) = self.seats.get(&candidate.id) else {
            return false;
        };
        let is_evicted = seat.state.try_evict(candidate.found);
        if is_evicted {
            seat.task.abort();
            self.remove_seat(candidate.id);
        }
        is_evicted
    }

    /// The peers that are crowds, fewer than [`CROWD_SHARE_DIVISOR`].
    fn crowd_peers(&self) -> Vec<IpAddr> {
        let most = (self.most / CROWD_SHARE_DIVISOR).max(CROWD_MIN);
        self.per_peer.iter().filter(|(_, count)| **count > most).map(|(peer, _)| *peer).collect()
    }
}

/// The addresses that count as one peer: for IPv6 a /64 (ruling 5).
fn peer_network(peer: IpAddr) -> IpAddr {
    match peer {
        IpAddr::V4(_) => peer,
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() >> 64 << 64)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;
    use std::future::pending;

    const ONE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));
    const OTHER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 2));

    /// A caller that comes and waits, if there is room.
    fn come(
        roster: &mut Roster,
        peer: IpAddr,
    ) -> Option<(ConnectionState, tokio::task::JoinHandle<()>)> {
        if roster.make_room(peer) == RoomMade::None {
            return None;
        }
        let (turn, task) = (ConnectionState::waiting(), tokio::spawn(pending()));
        roster.add_seat(peer, turn.clone(), task.abort_handle());
        Some((turn, task))
    }

    async fn was_evicted(task: tokio::task::JoinHandle<()>) -> bool {
        task.await.unwrap_err().is_cancelled()
    }

    #[tokio::test]
    async fn a22_the_longest_waiting_makes_room() {
        let mut roster = Roster::new(2, 2);
        let (first, _first_task) = come(&mut roster, ONE).unwrap();
        let (_, second) = come(&mut roster, OTHER).unwrap();
        first.begin_waiting();
        come(&mut roster, OTHER).unwrap();
        assert!(was_evicted(second).await);
        assert_eq!(roster.seats.len(), 2);
        assert!(first.begin_request());
    }

    #[tokio::test]
    async fn a22_a_crowded_address_evicts_its_own() {
        let mut roster = Roster::new(3, 2);
        let (others, _task) = come(&mut roster, OTHER).unwrap();
        let (_, own) = come(&mut roster, ONE).unwrap();
        come(&mut roster, ONE).unwrap();
        come(&mut roster, ONE).unwrap();
        assert!(was_evicted(own).await);
        assert!(others.begin_request());
    }

    #[tokio::test]
    async fn a_served_caller_stays() {
        let mut roster = Roster::new(1, 1);
        let (turn, task) = come(&mut roster, ONE).unwrap();
        assert!(turn.begin_request());
        assert!(come(&mut roster, OTHER).is_none());
        turn.begin_waiting();
        come(&mut roster, OTHER).unwrap();
        assert!(was_evicted(task).await);
        assert!(!turn.begin_request(), "who was told to leave begins nothing");
    }

    #[tokio::test]
    async fn a_leaving_caller_makes_room() {
        let mut roster = Roster::new(1, 1);
        let (turn, task) = come(&mut roster, ONE).unwrap();
        assert!(turn.begin_request());
        roster.remove_seat(task.id());
        roster.remove_seat(task.id());
        assert!(roster.seats.is_empty() && roster.per_peer.is_empty());
        assert!(come(&mut roster, ONE).is_some());
    }

    #[rstest]
    #[case(EvictableState::Waiting, 0, PeerShare::Few, Some(EvictionRank::Waiting))]
    #[case(EvictableState::Waiting, 0, PeerShare::Crowd, Some(EvictionRank::CrowdWaiting))]
    #[case(EvictableState::Blocked, 999, PeerShare::Few, None)]
    #[case(EvictableState::Blocked, 999, PeerShare::Crowd, Some(EvictionRank::CrowdBlocked))]
    #[case(EvictableState::Blocked, 1_000, PeerShare::Few, Some(EvictionRank::Stalled))]
    #[case(EvictableState::Blocked, 1_000, PeerShare::Crowd, Some(EvictionRank::Stalled))]
    fn a_connection_has_a_rank(
        #[case] state: EvictableState,
        #[case] milliseconds: u64,
        #[case] share: PeerShare,
        #[case] expected: Option<EvictionRank>,
    ) {
        let since = 1_000_000_000;
        let now = since + milliseconds * 1_000_000;
        assert_eq!(eviction_rank(Evictable { state, since }, share, now), expected);
    }

    /// A stalled caller leaves before a caller that has waited longer.
    #[tokio::test(start_paused = true)]
    async fn a22_a_stalled_caller_leaves_first() {
        let mut roster = Roster::new(2, 2);
        let (_waiting, _task) = come(&mut roster, ONE).unwrap();
        let (unread, task) = come(&mut roster, OTHER).unwrap();
        assert!(unread.begin_request());
        unread.mark_blocked(Instant::now());
        tokio::time::advance(STALLED_AFTER).await;
        let room = roster.make_room(OTHER);
        assert_eq!(room, RoomMade::Evicted(Evictions { rank: EvictionRank::Stalled, count: 1 }));
        assert!(was_evicted(task).await);
    }

    #[tokio::test]
    async fn a_caller_that_reads_again_stays() {
        let mut roster = Roster::new(1, 1);
        let (state, _task) = come(&mut roster, ONE).unwrap();
        assert!(state.begin_request());
        state.mark_blocked(Instant::now());
        state.mark_unblocked();
        assert_eq!(roster.make_room(OTHER), RoomMade::None);
    }

    /// One address came with many at once: it makes room, and a caller that waits elsewhere stays.
    #[tokio::test]
    async fn a22_a_crowd_makes_room_before_others() {
        let mut roster = Roster::new(32, 32);
        let (few, _task) = come(&mut roster, ONE).unwrap();
        let mut crowd = Vec::new();
        for _ in 0..31 {
            let (state, task) = come(&mut roster, OTHER).unwrap();
            assert!(state.begin_request());
            state.mark_blocked(Instant::now());
            crowd.push(task);
        }
        assert_eq!(
            roster.make_room(ONE),
            RoomMade::Evicted(Evictions { rank: EvictionRank::CrowdBlocked, count: 1 })
        );
        assert!(was_evicted(crowd.remove(0)).await);
        assert!(few.begin_request());
    }

    /// One search makes room for more than one.
    /// Idle connections leave one by one.
    #[tokio::test(start_paused = true)]
    async fn stalled_connections_leave_together() {
        let mut roster = Roster::new(256, 256);
        for number in 0..256 {
            let (state, _task) = come(&mut roster, ONE).unwrap();
            if number < 3 {
                state.begin_waiting();
            } else if number < 6 {
                state.mark_blocked(Instant::now());
            } else {
                assert!(state.begin_request());
            }
        }
        tokio::time::advance(STALLED_AFTER).await;
        assert_eq!(roster.evict_first(), Some(Evictions { rank: EvictionRank::Stalled, count: 3 }));
        let idle = Evictions { rank: EvictionRank::CrowdWaiting, count: 1 };
        assert_eq!(
            [roster.evict_first(), roster.evict_first(), roster.evict_first()],
            [Some(idle); 3]
        );
        assert_eq!(roster.evict_first(), None);
        assert_eq!(roster.seats.len(), 250);
    }

    #[test]
    fn an_ipv6_network_is_one_address() {
        let network = |text: &str| peer_network(text.parse().unwrap());
        assert_eq!(network("2001:db8::1"), network("2001:db8::ffff:0:0:1"));
        assert_ne!(network("2001:db8::1"), network("2001:db8:0:1::1"));
        assert_ne!(network("192.0.2.1"), network("192.0.2.2"));
    }
}
