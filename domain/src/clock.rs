//! Whether a clock can be trusted (cases E18 and E19). The database's is the service's; it is held
//! against this machine's, and against the time that has passed since the last look.

use chrono::{DateTime, TimeDelta, Utc};

/// How far apart two clocks may be. Receivers reject a signature whose time is five minutes from
/// theirs (contract, section Limits): this is found out long before.
pub const CLOCK_SKEW_MAX: TimeDelta = TimeDelta::seconds(30);

/// What one look at the clocks found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockComparison {
    /// The database's.
    pub database: DateTime<Utc>,
    /// This machine's, at the same moment.
    pub machine: DateTime<Utc>,
    /// What the database's should show: its last reading, and the time that has passed since by a
    /// steady clock. None at the first look.
    pub expected: Option<DateTime<Utc>>,
}

/// Why the time cannot be trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ClockFault {
    /// The database's clock was put forward or back, or time has stood still here. It passes with
    /// the next look that finds it going steadily.
    #[error("the database's clock jumped by {seconds} seconds: nothing is sent for now")]
    Jumped {
        /// Below zero if it went back.
        seconds: i64,
    },
    /// One of the two clocks is wrong.
    #[error("this machine's clock is {seconds} seconds from the database's: nothing is sent")]
    Apart {
        /// Below zero if this machine's is behind.
        seconds: i64,
    },
}

impl ClockComparison {
    /// What is wrong with them, if anything is.
    #[must_use]
    pub fn fault(&self) -> Option<ClockFault> {
        let jumped = self.expected.map_or(TimeDelta::zero(), |expected| self.database - expected);
        let apart = self.machine - self.database;
        if jumped.abs() > CLOCK_SKEW_MAX {
            Some(ClockFault::Jumped { seconds: nearest(jumped) })
        } else if apart.abs() > CLOCK_SKEW_MAX {
            Some(ClockFault::Apart { seconds: nearest(apart) })
        } else {
            None
        }
    }
}

impl ClockFault {
    /// Whether it is of the same kind: how far off the clock is changes with every look.
    #[must_use]
    pub const fn is_like(&self, other: &Self) -> bool {
        matches!(
            (self, other),
            (Self::Jumped { .. }, Self::Jumped { .. }) | (Self::Apart { .. }, Self::Apart { .. })
        )
    }
}

/// Whole seconds. A look takes some milliseconds, and an hour less two of them is an hour.
fn nearest(off: TimeDelta) -> i64 {
    let half = TimeDelta::milliseconds(500);
    if off < TimeDelta::zero() { (off - half).num_seconds() } else { (off + half).num_seconds() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The clocks this many milliseconds from where the database's should be.
    fn look(database: i64, machine: i64) -> Option<ClockFault> {
        let expected: DateTime<Utc> = "2026-11-01T12:00:00Z".parse().unwrap();
        let at = |by| expected + TimeDelta::milliseconds(by);
        let clocks = ClockComparison {
            database: at(database),
            machine: at(machine),
            expected: Some(expected),
        };
        clocks.fault()
    }

    #[test]
    fn e18_clocks_may_be_30_seconds_apart() {
        for machine in [0, 30_000, -30_000] {
            assert_eq!(look(0, machine), None);
        }
        assert_eq!(look(0, 30_001), Some(ClockFault::Apart { seconds: 30 }));
        assert_eq!(look(0, -600_000), Some(ClockFault::Apart { seconds: -600 }));
    }

    #[test]
    fn e19_a_jump_is_a_fault_whatever_the_machine_says() {
        for machine in [0, -3_600_000] {
            assert_eq!(look(-3_600_000, machine), Some(ClockFault::Jumped { seconds: -3_600 }));
        }
        assert_eq!(look(30_000, 30_000), None);
        assert_eq!(look(30_001, 30_001), Some(ClockFault::Jumped { seconds: 30 }));
    }

    #[test]
    fn e19_an_hour_was_told_as_3_599_seconds_when_the_look_took_two_milliseconds() {
        for (by, seconds) in [(-3_599_998, -3_600), (-3_600_002, -3_600), (3_599_998, 3_600)] {
            assert_eq!(look(by, 0), Some(ClockFault::Jumped { seconds }));
        }
        assert_eq!(look(0, 599_998), Some(ClockFault::Apart { seconds: 600 }));
    }

    #[test]
    fn the_first_look_knows_no_jump() {
        let at = "2026-11-01T12:00:00Z".parse().unwrap();
        assert_eq!(ClockComparison { database: at, machine: at, expected: None }.fault(), None);
    }
}
