//! Reports of the product that a full disk refused. Readiness asks for them (ruling 54).

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Time for which a refusal counts as an alarm.
const ALARM_TIME: Duration = Duration::from_secs(60);

/// The refusals of a process. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct RefusedReports(Arc<Mutex<RefusalState>>);

#[derive(Debug, Default)]
struct RefusalState {
    refused_at: Option<Instant>,
    /// Whether no report was taken in since.
    is_last: bool,
}

impl RefusedReports {
    /// Notes that a full disk refused a report, or would have refused one.
    pub(crate) fn note_refusal(&self, now: Instant) {
        *self.lock_state() = RefusalState { refused_at: Some(now), is_last: true };
    }

    /// Notes that a report was taken in, or could be.
    pub(crate) fn note_room(&self) {
        self.lock_state().is_last = false;
    }

    /// Returns whether the last report was refused. Then the next ones may be refused, too.
    pub(crate) fn are_last(&self) -> bool {
        self.lock_state().is_last
    }

    /// Returns whether a report was refused a moment ago.
    pub(crate) fn are_recent(&self, now: Instant) -> bool {
        self.lock_state().refused_at.is_some_and(|at| now < at + ALARM_TIME)
    }

    fn lock_state(&self) -> MutexGuard<'_, RefusalState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A refusal is the last until there is room.
    #[test]
    fn a_refusal_is_recent_for_a_minute() {
        let (reports, start) = (RefusedReports::default(), Instant::now());
        assert!(!reports.are_last() && !reports.are_recent(start));
        reports.note_refusal(start);
        assert!(reports.are_last() && reports.are_recent(start));
        reports.note_room();
        assert!(!reports.are_last());
        assert!(reports.are_recent(start + ALARM_TIME - Duration::from_millis(1)));
        assert!(!reports.are_recent(start + ALARM_TIME));
    }
}
