//! Lines that wait for their turn. How many may wait is bounded, so that memory does not grow with
//! the number of responses: in a dense run the earliest goes out before its time, and the lines of
//! one response keep their order all the same.

use std::collections::BTreeMap;
use std::io::{self, Write};

use super::event::{Line, Time};

/// How many lines wait at most: some megabytes.
const WAITING_MAX: usize = 4_096;

/// Lines by their turn; of those with the same time, the one that came first.
#[derive(Debug, Default)]
pub(super) struct Queue {
    waiting: BTreeMap<(Time, u64), Line>,
    pushed: u64,
}

impl Queue {
    pub(super) fn push(&mut self, line: Line) {
        self.waiting.insert((line.position, self.pushed), line);
        self.pushed += 1;
    }

    /// Writes what is due, and what is too many.
    pub(super) fn write_due(&mut self, now: Time, out: &mut impl Write) -> io::Result<()> {
        while let Some(first) = self.waiting.first_entry() {
            if first.key().0 > now && self.waiting.len() <= WAITING_MAX {
                break;
            }
            self.write_first(out)?;
        }
        Ok(())
    }

    /// Writes all that is left.
    pub(super) fn write_all(&mut self, out: &mut impl Write) -> io::Result<()> {
        while !self.waiting.is_empty() {
            self.write_first(out)?;
        }
        Ok(())
    }

    fn write_first(&mut self, out: &mut impl Write) -> io::Result<()> {
        self.waiting.pop_first().map_or(Ok(()), |(_, line)| line.write(out))
    }
}
