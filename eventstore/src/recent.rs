//! What this process appended a moment ago: a follower beside it need not read that from the log again.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use domain::event::Event;

use crate::append::RecordedEvent;

/// So much is kept at most: a follower that is further behind reads the log.
const MOST: usize = 8_192;

/// Committed events of deliveries that the one follower which asks for them has not come to. Of others, of which
/// there are few, and of which one may be large, nothing is kept: they are read from the log.
#[derive(Debug, Clone, Default)]
pub struct Recent(Arc<Mutex<Option<Kept>>>);

#[derive(Debug)]
struct Kept {
    /// What the follower has nothing to do with, by its names.
    passed: &'static [&'static str],
    known: Vec<Known>,
}

/// What lies at a position: nothing that concerns the follower, or this event.
pub(crate) type Known = (i64, Option<RecordedEvent>);

impl Recent {
    /// From now on what is committed is kept, for a follower that passes events of these names.
    pub fn keep(&self, passed: &'static [&'static str]) {
        self.kept().get_or_insert(Kept { passed, known: Vec::new() });
    }

    /// What comes after one position, up to another, in order, if all of it is known: what another process appended
    /// is not, nor is what is just being committed, nor a position that was drawn for nothing. It is known no more
    /// then, and neither is what comes before it.
    #[must_use]
    pub fn take(&self, after: i64, until: i64) -> Option<Vec<RecordedEvent>> {
        let known = std::mem::take(&mut self.kept().as_mut()?.known);
        let (mut taken, later): (Vec<Known>, Vec<Known>) =
            known.into_iter().filter(|(at, _)| *at > after).partition(|(at, _)| *at <= until);
        self.add(later);
        if i64::try_from(taken.len()) != Ok(until - after) {
            return None;
        }
        taken.sort_unstable_by_key(|(at, _)| *at);
        Some(taken.into_iter().filter_map(|(_, event)| event).collect())
    }

    /// Nothing is known any more.
    pub(crate) fn forget(&self) {
        if let Some(kept) = self.kept().as_mut() {
            kept.known.clear();
        }
    }

    /// What is to be kept of these, once they are committed.
    pub(crate) fn of(&self, events: &[RecordedEvent]) -> Vec<Known> {
        let Some(passed) = self.kept().as_ref().map(|kept| kept.passed) else {
            return Vec::new();
        };
        let known = |event: &RecordedEvent| match &event.event {
            Event::Delivery(_) => Some((event.position, Some(event.clone()))),
            other => passed.contains(&other.event_type()).then_some((event.position, None)),
        };
        events.iter().filter_map(known).collect()
    }

    /// These are committed.
    pub(crate) fn add(&self, more: Vec<Known>) {
        if let Some(Kept { known, .. }) = self.kept().as_mut() {
            known.extend(more);
            if known.len() > MOST {
                known.clear();
            }
        }
    }

    fn kept(&self) -> MutexGuard<'_, Option<Kept>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keeping(positions: impl IntoIterator<Item = i64>) -> Recent {
        let recent = Recent::default();
        recent.keep(&[]);
        recent.add(positions.into_iter().map(|at| (at, None)).collect());
        recent
    }

    #[test]
    fn what_is_known_without_a_gap_is_handed_out_once() {
        let recent = keeping([4, 2, 3, 7, 5]);
        assert_eq!(recent.take(2, 5), Some(vec![]));
        assert_eq!(recent.take(2, 5), None);
        assert_eq!(recent.take(5, 7), None, "6 is missing");
        recent.add(vec![(8, None)]);
        assert_eq!(recent.take(7, 8), Some(vec![]));
    }

    #[test]
    fn nothing_is_kept_for_nobody_and_no_more_than_may_be() {
        let recent = Recent::default();
        recent.add(vec![(1, None)]);
        assert_eq!(recent.take(0, 1), None);
        let most = i64::try_from(MOST).unwrap();
        assert_eq!(keeping(1..=most).take(0, most), Some(vec![]));
        let recent = keeping(1..=most);
        recent.add(vec![(most + 1, None)]);
        assert_eq!(recent.take(most, most + 1), None);
    }

    #[test]
    fn a_log_that_lost_its_tail_is_read_again() {
        let recent = keeping([1, 2]);
        recent.forget();
        assert_eq!(recent.take(0, 2), None);
    }
}
