//! The seats of a door. When all are taken, the connection leaves that has waited longest without a
//! request. So idle sockets, however many, never keep a good caller out (case A22). A connection
//! with a request under way never leaves.
//!
//! The roster belongs to the accepting loop. It shares one number with each connection.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::task::{AbortHandle, Id};
use tokio::time::Instant;

/// States besides a time: no clock reading is 0 or the greatest number.
const SERVED: u64 = 0;
const EVICTED: u64 = u64::MAX;

/// Whether a connection has a request under way, or the time since when it waits for one.
#[derive(Debug, Clone)]
pub(crate) struct ConnectionState(Arc<AtomicU64>);

impl ConnectionState {
    pub(crate) fn waiting() -> Self {
        Self(Arc::new(AtomicU64::new(now())))
    }

    /// Notes that the connection waits, from now on.
    pub(crate) fn wait(&self) {
        let waits = |state| (state != EVICTED).then(now);
        // An evicted connection stays evicted.
        let _ = self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, waits);
    }

    /// Notes that the connection has a request. Returns false if it was evicted before.
    pub(crate) fn begin(&self) -> bool {
        let begins = |state| (state != EVICTED).then_some(SERVED);
        self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, begins).is_ok()
    }

    fn waiting_since(&self) -> Option<u64> {
        let state = self.0.load(Ordering::Acquire);
        (state != SERVED && state != EVICTED).then_some(state)
    }

    /// Evicts the connection, unless its wait since `since` has ended.
    fn evict(&self, since: u64) -> bool {
        self.0.compare_exchange(since, EVICTED, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}

/// Nanoseconds since the first call, at least 1.
fn now() -> u64 {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    let nanoseconds = START.elapsed().as_nanos();
    u64::try_from(nanoseconds).map_or(EVICTED - 1, |nanoseconds| nanoseconds.max(1))
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
    pub(crate) fn make_room(&mut self, peer: IpAddr) -> bool {
        let peer = peer_network(peer);
        let of_peer = self.per_peer.get(&peer).copied().unwrap_or(0);
        if of_peer >= self.most_per_peer {
            return self.evict(|seat| seat.peer == peer);
        }
        self.seats.len() < self.most || self.evict_longest_waiting()
    }

    pub(crate) fn seat(&mut self, peer: IpAddr, turn: ConnectionState, task: AbortHandle) {
        let peer = peer_network(peer);
        *self.per_peer.entry(peer).or_default() += 1;
        self.seats.insert(task.id(), Seat { peer, state: turn, task });
    }

    pub(crate) fn leave(&mut self, id: Id) {
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

    pub(crate) fn evict_longest_waiting(&mut self) -> bool {
        self.evict(|_| true)
    }

    /// Evicts the longest waiting connection among some. Looks again if that wait has just ended.
    fn evict(&mut self, among: impl Fn(&Seat) -> bool) -> bool {
        loop {
            let among = self.seats.values().filter(|seat| among(seat));
            let waiting = among.filter_map(|seat| Some((seat.state.waiting_since()?, seat)));
            let Some((since, seat)) = waiting.min_by_key(|(since, _)| *since) else {
                return false;
            };
            if seat.state.evict(since) {
                seat.task.abort();
                self.leave(seat.task.id());
                return true;
            }
        }
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
    use std::future::pending;

    const ONE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));
    const OTHER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 2));

    /// Someone who comes and waits, if there is room.
    fn come(
        roster: &mut Roster,
        peer: IpAddr,
    ) -> Option<(ConnectionState, tokio::task::JoinHandle<()>)> {
        if !roster.make_room(peer) {
            return None;
        }
        let (turn, task) = (ConnectionState::waiting(), tokio::spawn(pending()));
        roster.seat(peer, turn.clone(), task.abort_handle());
        Some((turn, task))
    }

    async fn was_evicted(task: tokio::task::JoinHandle<()>) -> bool {
        task.await.unwrap_err().is_cancelled()
    }

    #[tokio::test]
    async fn a22_a_full_door_lets_go_who_has_waited_longest() {
        let mut roster = Roster::new(2, 2);
        let (first, _first_task) = come(&mut roster, ONE).unwrap();
        let (_, second) = come(&mut roster, OTHER).unwrap();
        first.wait();
        come(&mut roster, OTHER).unwrap();
        assert!(was_evicted(second).await);
        assert_eq!(roster.seats.len(), 2);
        assert!(first.begin());
    }

    #[tokio::test]
    async fn a22_an_address_with_too_many_lets_go_of_its_own() {
        let mut roster = Roster::new(3, 2);
        let (others, _task) = come(&mut roster, OTHER).unwrap();
        let (_, own) = come(&mut roster, ONE).unwrap();
        come(&mut roster, ONE).unwrap();
        come(&mut roster, ONE).unwrap();
        assert!(was_evicted(own).await);
        assert!(others.begin());
    }

    #[tokio::test]
    async fn whoever_is_served_stays() {
        let mut roster = Roster::new(1, 1);
        let (turn, task) = come(&mut roster, ONE).unwrap();
        assert!(turn.begin());
        assert!(come(&mut roster, OTHER).is_none());
        turn.wait();
        come(&mut roster, OTHER).unwrap();
        assert!(was_evicted(task).await);
        assert!(!turn.begin(), "who was told to leave begins nothing");
    }

    #[tokio::test]
    async fn who_leaves_makes_room_and_is_forgotten() {
        let mut roster = Roster::new(1, 1);
        let (turn, task) = come(&mut roster, ONE).unwrap();
        assert!(turn.begin());
        roster.leave(task.id());
        roster.leave(task.id());
        assert!(roster.seats.is_empty() && roster.per_peer.is_empty());
        assert!(come(&mut roster, ONE).is_some());
    }

    #[test]
    fn an_ipv6_network_is_one_address() {
        let network = |text: &str| peer_network(text.parse().unwrap());
        assert_eq!(network("2001:db8::1"), network("2001:db8::ffff:0:0:1"));
        assert_ne!(network("2001:db8::1"), network("2001:db8:0:1::1"));
        assert_ne!(network("192.0.2.1"), network("192.0.2.2"));
    }
}
