//! Lines that wait for their turn. How many may wait is bounded, so that memory does not grow with
//! the number of responses: in a dense run the earliest goes out before its time, and the lines of
//! one response keep their order all the same.

use std::collections::BTreeMap;

use super::event::{EventLine, EventTime};

/// How many lines wait at most: some megabytes.
const WAITING_MAX: usize = 4_096;

/// Lines by their turn; of those with the same time, the one that came first.
#[derive(Debug, Default)]
pub(super) struct LineQueue {
    waiting: BTreeMap<(EventTime, u64), EventLine>,
    pushed: u64,
}

impl LineQueue {
    pub(super) fn push(&mut self, line: EventLine) {
        self.waiting.insert((line.arrives_at, self.pushed), line);
        self.pushed += 1;
    }

    /// The first that is due, or one too many.
    pub(super) fn pop_due(&mut self, now: EventTime) -> Option<EventLine> {
        let first = self.waiting.first_entry()?;
        let is_kept = first.key().0 > now && self.waiting.len() <= WAITING_MAX;
        if is_kept { None } else { self.waiting.pop_first().map(|(_, line)| line) }
    }
}
