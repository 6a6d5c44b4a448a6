//! Lines that wait for their arrival. The queue is bounded, so memory does not grow with the number
//! of responses. In a dense run the earliest line leaves before its time. The lines of one response
//! keep their order.

use std::collections::BTreeMap;

use super::event::{EventLine, EventTime};

/// The most waiting lines: some megabytes.
const WAITING_MAX: usize = 4_096;

/// Lines by their arrival. Lines of one time keep the order of their coming.
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

    /// Takes the first line if it is due, or if the queue is over its bound.
    pub(super) fn pop_due(&mut self, now: EventTime) -> Option<EventLine> {
        let first = self.waiting.first_entry()?;
        let is_kept = first.key().0 > now && self.waiting.len() <= WAITING_MAX;
        if is_kept { None } else { self.waiting.pop_first().map(|(_, line)| line) }
    }
}
