//! Trust in the clocks (cases E18 and E19). The service uses the database's clock. This module
//! compares that clock with the machine's clock and with the time since the last reading.

use chrono::{DateTime, TimeDelta, Utc};

/// Largest difference between two trusted clocks. Receivers reject a signature whose time is five
/// minutes off (contract, section Limits), so this limit finds a fault long before.
pub const CLOCK_SKEW_MAX: TimeDelta = TimeDelta::seconds(30);

/// One reading of the clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockComparison {
    /// The database's time.
    pub database: DateTime<Utc>,
    /// The machine's time at the same moment.
    pub machine: DateTime<Utc>,
    /// The time that the database's clock should show: its last reading plus the time since, by a
    /// monotonic clock. `None` at the first reading.
    pub expected: Option<DateTime<Utc>>,
}

/// Why a clock cannot be trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ClockFault {
    /// The database's clock was moved, or this process stood still. The fault ends with the next
    /// reading that shows steady time.
    #[error("the database's clock jumped by {seconds} seconds: nothing is sent for now")]
    Jumped {
        /// Size of the jump. Negative if the clock went back.
        seconds: i64,
    },
    /// The database's clock and the machine's clock differ.
    #[error("this machine's clock is {seconds} seconds from the database's: nothing is sent")]
    Apart {
        /// The difference. Negative if the machine's clock is behind.
        seconds: i64,
    },
}

impl ClockComparison {
    /// The fault in this reading, if any.
    #[must_use]
    pub fn fault(&self) -> Option<ClockFault> {
        let jumped = self.expected.map_or(TimeDelta::zero(), |expected| self.database - expected);
        let apart = self.machine - self.database;
        if jumped.abs() > CLOCK_SKEW_MAX {
            Some(ClockFault::Jumped { seconds: nearest_seconds(jumped) })
        } else if apart.abs() > CLOCK_SKEW_MAX {
            Some(ClockFault::Apart { seconds: nearest_seconds(apart) })
        } else {
            None
        }
    }
}

impl ClockFault {
    /// Whether both faults are of one kind. The number of seconds changes with every reading.
    #[must_use]
    pub const fn is_like(&self, other: &Self) -> bool {
        matches!(
            (self, other),
            (Self::Jumped { .. }, Self::Jumped { .. }) | (Self::Apart { .. }, Self::Apart { .. })
        )
    }
}

/// Rounds to whole seconds. A reading takes some milliseconds, so an exact hour may measure less.
fn nearest_seconds(off: TimeDelta) -> i64 {
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

    /// The clock of the machine does not matter.
    #[test]
    fn e19_a_jump_is_always_a_fault() {
        for machine in [0, -3_600_000] {
            assert_eq!(look(-3_600_000, machine), Some(ClockFault::Jumped { seconds: -3_600 }));
        }
        assert_eq!(look(30_000, 30_000), None);
        assert_eq!(look(30_001, 30_001), Some(ClockFault::Jumped { seconds: 30 }));
    }

    /// An hour was told as 3,599 seconds when the look took two milliseconds.
    #[test]
    fn e19_a_jump_is_rounded_to_seconds() {
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
