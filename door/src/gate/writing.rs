//! The time that a caller may take to read: at least [`LEAST_BYTES_PER_SECOND`], and the whole
//! answer within [`DoorTimeouts::answer`].
//!
//! The system accepts new bytes only when much of its buffer is free. So progress is counted in
//! bytes that were accepted after the first wait, and a byte now and then is no progress.

use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::Instant;

use crate::deadline::Deadline;
use crate::settings::DoorTimeouts;

/// The least rate at which a caller reads. A slower caller is behind, and the longest delay is
/// [`DoorTimeouts::write`].
const LEAST_BYTES_PER_SECOND: u32 = 8 << 10;

/// The state of the answers that are written.
#[derive(Debug, Default)]
pub(super) struct AnswerWriting {
    /// The time at which the caller's delay began: the first wait, and later for every byte since.
    /// Pipelined requests share one delay, so that a wait for each of them is no excuse.
    behind_since: Option<Instant>,
    answer_began: Option<Instant>,
    is_blocked: bool,
    overdue: Deadline,
}

impl AnswerWriting {
    pub(super) const fn is_blocked(&self) -> bool {
        self.is_blocked
    }

    /// Notes that the system has taken bytes.
    pub(super) fn note_taken(&mut self, bytes: usize, now: Instant) {
        self.is_blocked = false;
        self.answer_began.get_or_insert(now);
        if let Some(since) = &mut self.behind_since {
            let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
            let took = Duration::from_secs(1) * bytes / LEAST_BYTES_PER_SECOND;
            *since = now.min(*since + took);
        }
    }

    /// Notes that the system takes nothing now. Returns the time at which the delay began.
    pub(super) fn note_blocked(&mut self, timeouts: &DoorTimeouts, now: Instant) -> Instant {
        self.is_blocked = true;
        let began = *self.answer_began.get_or_insert(now);
        let since = *self.behind_since.get_or_insert(now);
        self.overdue.set_at((since + timeouts.write).min(began + timeouts.answer));
        since
    }

    /// Ready when a blocked write must end.
    pub(super) fn poll_overdue(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.overdue.poll(cx)
    }

    /// Ends the answer: the next request is expected.
    pub(super) fn end_answer(&mut self) {
        self.answer_began = None;
    }

    /// Ends the delay: the caller has sent no other request, and nothing is left to be written.
    pub(super) fn end_balance(&mut self) {
        if !self.is_blocked {
            self.behind_since = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn after(writing: &mut AnswerWriting, began: Instant, seconds: u32) -> Duration {
        writing.note_blocked(&DoorTimeouts::default(), began + SECOND * seconds) - began
    }

    /// A delay begins with the first wait.
    #[tokio::test]
    async fn a_delay_shrinks_with_every_byte() {
        let mut writing = AnswerWriting::default();
        let began = Instant::now();
        writing.note_taken(1 << 20, began);
        assert_eq!(after(&mut writing, began, 1), SECOND);
        assert_eq!(after(&mut writing, began, 5), SECOND);
        writing.note_taken(2 * LEAST_BYTES_PER_SECOND as usize, began + SECOND * 6);
        assert_eq!(after(&mut writing, began, 6), SECOND * 3);
    }

    /// A quick reader saves up nothing for a slow time.
    #[tokio::test]
    async fn a_delay_never_begins_in_the_future() {
        let mut writing = AnswerWriting::default();
        let began = Instant::now();
        assert_eq!(after(&mut writing, began, 0), Duration::ZERO);
        writing.note_taken(64 << 20, began + SECOND);
        assert_eq!(after(&mut writing, began, 9), SECOND);
    }

    /// A pause between requests ends the delay.
    #[tokio::test]
    async fn pipelined_requests_share_a_delay() {
        let mut writing = AnswerWriting::default();
        let began = Instant::now();
        assert_eq!(after(&mut writing, began, 0), Duration::ZERO);
        writing.note_taken(1, began + SECOND);
        writing.end_answer();
        assert!(after(&mut writing, began, 2) < SECOND);
        writing.end_balance();
        assert!(after(&mut writing, began, 3) < SECOND, "much is still to be written");
        writing.note_taken(1, began + SECOND * 3);
        writing.end_balance();
        assert_eq!(after(&mut writing, began, 4), SECOND * 4);
    }
}
