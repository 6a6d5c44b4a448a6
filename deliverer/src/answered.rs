//! What a process has had answered and has not recorded yet: its leases still count in the database, though
//! nothing of it is in flight any more.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use uuid::Uuid;

/// How many, by lane.
#[derive(Debug, Clone, Default)]
pub(crate) struct Answered(Arc<Mutex<HashMap<Uuid, usize>>>);

/// One of them, until it is about to be recorded, or dropped.
#[derive(Debug)]
pub(crate) struct Unrecorded {
    of: Answered,
    lane_id: Uuid,
    is_over: AtomicBool,
}

impl Answered {
    /// One more was answered.
    pub(crate) fn note(&self, lane_id: Uuid) -> Arc<Unrecorded> {
        *self.lanes().entry(lane_id).or_default() += 1;
        Arc::new(Unrecorded { of: self.clone(), lane_id, is_over: AtomicBool::new(false) })
    }

    /// How many there are of each lane. To be asked after the database, by whoever alone may claim: then
    /// the leases of all of these were seen there.
    pub(crate) fn by_lane(&self) -> HashMap<Uuid, usize> {
        self.lanes().clone()
    }

    fn lanes(&self) -> MutexGuard<'_, HashMap<Uuid, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Unrecorded {
    /// Its lease is about to end in the database.
    pub(crate) fn ends(&self) {
        if self.is_over.swap(true, Ordering::Relaxed) {
            return;
        }
        let mut lanes = self.of.lanes();
        if let Some(count) = lanes.get_mut(&self.lane_id) {
            *count -= 1;
            if *count == 0 {
                lanes.remove(&self.lane_id);
            }
        }
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

    #[test]
    fn what_is_recorded_or_dropped_counts_no_more_and_once() {
        let (answered, lane) = (Answered::default(), Uuid::from_u128(1));
        let (first, second) = (answered.note(lane), answered.note(lane));
        assert_eq!(answered.by_lane(), HashMap::from([(lane, 2)]));
        first.ends();
        first.ends();
        drop(first);
        assert_eq!(answered.by_lane(), HashMap::from([(lane, 1)]));
        drop(second);
        assert!(answered.by_lane().is_empty());
    }
}
