//! The timer of workers that delete old rows.

use chrono::{DateTime, TimeDelta, Utc};

use crate::clock::Clock;

/// The wait between two sweeps. Swept rows are a day old at least, so an hour more does not matter.
const SWEEP_INTERVAL: TimeDelta = TimeDelta::hours(1);

/// The timer of a worker that sweeps each hour, in as many steps as it takes.
#[derive(Debug, Clone, Copy, Default)]
pub struct SweepTimer {
    next: Option<DateTime<Utc>>,
}

impl SweepTimer {
    /// A timer whose first sweep is due at once.
    #[must_use]
    pub const fn new() -> Self {
        Self { next: None }
    }

    /// The time now, if a sweep is due or under way. A clock that cannot be trusted ends no
    /// retention (case E19).
    #[must_use]
    pub fn now_if_due(&self, clock: &Clock) -> Option<DateTime<Utc>> {
        if clock.fault().is_some() {
            return None;
        }
        let now = clock.now().get();
        self.next.is_none_or(|next| next <= now).then_some(now)
    }

    /// Ends the sweep.
    pub fn end_sweep(&mut self, now: DateTime<Utc>) {
        self.next = Some(now + SWEEP_INTERVAL);
    }
}
