//! What a process has had answered and has not recorded yet: its leases still count in the database, though
//! nothing of it is in flight any more.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;
use uuid::Uuid;

/// What was answered and is not recorded.
#[derive(Debug, Clone)]
pub(crate) struct Answered {
    marks: Arc<Mutex<Marks>>,
    most: usize,
}

#[derive(Debug, Default)]
struct Marks {
    last: u64,
    /// The lane of each, and until when its lease surely counts in the database.
    of: HashMap<u64, (Uuid, Instant)>,
}

/// One of them, until it is about to be recorded, or dropped.
#[derive(Debug)]
pub(crate) struct Unrecorded {
    answered: Answered,
    mark: u64,
}

impl Answered {
    /// Nothing was answered. Of a lane no more than `most` are told of: a process that cannot record
    /// does not go on for ever, since what it sent would be sent again.
    pub(crate) fn new(most: usize) -> Self {
        Self { marks: Arc::default(), most }
    }

    /// One more was answered; its lease counts until then.
    pub(crate) fn note(&self, lane_id: Uuid, until: Instant) -> Arc<Unrecorded> {
        let mut marks = self.marks();
        marks.last += 1;
        let mark = marks.last;
        marks.of.insert(mark, (lane_id, until));
        Arc::new(Unrecorded { answered: self.clone(), mark })
    }

    /// How many there are of each lane whose leases have not ended. To be asked after the database, by
    /// whoever alone may claim: then each of those leases was counted there.
    pub(crate) fn by_lane(&self, now: Instant) -> HashMap<Uuid, usize> {
        let mut lanes = HashMap::new();
        for (lane_id, _) in self.marks().of.values().filter(|(_, until)| now < *until) {
            let count: &mut usize = lanes.entry(*lane_id).or_default();
            *count = self.most.min(*count + 1);
        }
        lanes
    }

    fn marks(&self) -> MutexGuard<'_, Marks> {
        self.marks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Unrecorded {
    /// Its lease is about to end in the database.
    pub(crate) fn ends(&self) {
        self.answered.marks().of.remove(&self.mark);
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

    #[test]
    fn what_is_recorded_or_dropped_counts_no_more_and_once() {
        let (answered, now) = (Answered::new(32), Instant::now());
        let [first, second] = [(); 2].map(|()| answered.note(LANE, now + LEASE));
        assert_eq!(answered.by_lane(now), HashMap::from([(LANE, 2)]));
        first.ends();
        first.ends();
        drop(first);
        assert_eq!(answered.by_lane(now), HashMap::from([(LANE, 1)]));
        drop(second);
        assert!(answered.by_lane(now).is_empty());
    }

    /// Somebody else may have claimed it since: what counts in the database then is another lease.
    #[test]
    fn what_is_recorded_after_its_lease_is_not_taken_for_another_lease() {
        let (answered, now) = (Answered::new(32), Instant::now());
        let _held = answered.note(LANE, now + LEASE);
        assert_eq!(answered.by_lane(now + LEASE - Duration::from_nanos(1)).len(), 1);
        assert!(answered.by_lane(now + LEASE).is_empty());
    }

    #[test]
    fn of_a_lane_no_more_than_it_may_have_out_is_told_of() {
        let (answered, now) = (Answered::new(2), Instant::now());
        let _held = [(); 3].map(|()| answered.note(LANE, now + LEASE));
        assert_eq!(answered.by_lane(now), HashMap::from([(LANE, 2)]));
    }
}
