//! What a process has out: what it claimed and has not recorded yet. Its leases count in the database, also
//! those of tries that were answered, though nothing of those is in flight any more.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;
use uuid::Uuid;

/// What was claimed and is not recorded.
#[derive(Debug, Clone)]
pub(crate) struct Out {
    marks: Arc<Mutex<Marks>>,
    most: usize,
}

#[derive(Debug, Default)]
struct Marks {
    last: u64,
    of: HashMap<u64, Mark>,
}

#[derive(Debug)]
struct Mark {
    lane_id: Uuid,
    /// Until then its lease surely counts in the database.
    until: Instant,
    is_answered: bool,
}

/// One of them, until it is about to be recorded or given back, or dropped.
#[derive(Debug)]
pub(crate) struct Unrecorded {
    out: Out,
    mark: u64,
}

/// How much of a lane is out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct OfLane {
    /// In all.
    pub(crate) all: usize,
    /// What of it was answered.
    pub(crate) answered: usize,
}

impl Out {
    /// Nothing is out. Of what was answered no more than `most` of a lane are told of: a process that cannot
    /// record does not go on for ever, since what it sent would be sent again.
    pub(crate) fn new(most: usize) -> Self {
        Self { marks: Arc::default(), most }
    }

    /// One more was claimed; its lease counts until then.
    pub(crate) fn note(&self, lane_id: Uuid, until: Instant) -> Arc<Unrecorded> {
        let mut marks = self.marks();
        marks.last += 1;
        let mark = marks.last;
        marks.of.insert(mark, Mark { lane_id, until, is_answered: false });
        Arc::new(Unrecorded { out: self.clone(), mark })
    }

    /// What there is of each lane whose leases have not ended. To be asked after the database, by whoever alone
    /// may claim: then each of those leases was counted there.
    pub(crate) fn by_lane(&self, now: Instant) -> HashMap<Uuid, OfLane> {
        let mut lanes: HashMap<Uuid, OfLane> = HashMap::new();
        for mark in self.marks().of.values().filter(|mark| now < mark.until) {
            let lane = lanes.entry(mark.lane_id).or_default();
            lane.all += 1;
            lane.answered = self.most.min(lane.answered + usize::from(mark.is_answered));
        }
        lanes
    }

    fn marks(&self) -> MutexGuard<'_, Marks> {
        self.marks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Unrecorded {
    /// It was answered.
    pub(crate) fn answer(&self) {
        if let Some(mark) = self.out.marks().of.get_mut(&self.mark) {
            mark.is_answered = true;
        }
    }

    /// Its lease is about to end in the database.
    pub(crate) fn ends(&self) {
        self.out.marks().of.remove(&self.mark);
    }
}

impl Drop for Unrecorded {
    fn drop(&mut self) {
        self.ends();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const LANE: Uuid = Uuid::from_u128(1);
    const LEASE: Duration = Duration::from_secs(120);

    fn out(all: usize, answered: usize) -> HashMap<Uuid, OfLane> {
        HashMap::from([(LANE, OfLane { all, answered })])
    }

    #[test]
    fn what_is_recorded_or_dropped_counts_no_more_and_once() {
        let (tries, now) = (Out::new(32), Instant::now());
        let [first, second] = [(); 2].map(|()| tries.note(LANE, now + LEASE));
        assert_eq!(tries.by_lane(now), out(2, 0));
        first.answer();
        assert_eq!(tries.by_lane(now), out(2, 1));
        first.ends();
        first.answer();
        first.ends();
        drop(first);
        assert_eq!(tries.by_lane(now), out(1, 0));
        drop(second);
        assert!(tries.by_lane(now).is_empty());
    }

    /// Somebody else may have claimed it since: what counts in the database then is another lease.
    #[test]
    fn what_is_recorded_after_its_lease_is_not_taken_for_another_lease() {
        let (tries, now) = (Out::new(32), Instant::now());
        let _held = tries.note(LANE, now + LEASE);
        assert_eq!(tries.by_lane(now + LEASE - Duration::from_nanos(1)).len(), 1);
        assert!(tries.by_lane(now + LEASE).is_empty());
    }

    #[test]
    fn of_what_was_answered_no_more_than_that_is_told_of() {
        let (tries, now) = (Out::new(2), Instant::now());
        let held = [(); 3].map(|()| tries.note(LANE, now + LEASE));
        held.iter().for_each(|one| one.answer());
        assert_eq!(tries.by_lane(now), out(3, 2));
    }
}
