//! The times of a run.

use std::time::Duration;

/// How much faster waits pass: the schedule's 123 minutes in about one.
pub(super) const TIME_SCALE: &str = "120";

/// The lease at that speed.
pub(crate) const LEASE: Duration = Duration::from_secs(25);

/// Longer than the schedule, with a lease at each try.
pub(super) const REST: Duration = Duration::from_secs(600);
