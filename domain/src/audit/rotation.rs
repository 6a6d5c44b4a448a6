//! The parts of the log that a verification reads. After an intact verification the next one reads
//! the new events, and a stretch of the older ones. The stretches follow each other in a rotation.
//!
//! The end of a stretch depends on the time alone: within one period, the rotation moves from the
//! first event to the end of the log as the last intact verification left it. The log only grows,
//! so each event is passed again within a period.

use std::time::Duration;

use super::checkpoint::Seal;
use crate::values::Timestamp;

/// The last intact verification. The next one continues from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IntactVerification {
    /// Time up to which its rotation is done.
    pub at: Timestamp,
    /// Its last verified position.
    pub position: i64,
    /// The position at which the next stretch of older events begins.
    pub reread_to: i64,
}

/// A part of the log, in positions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogPart {
    /// The position before the part.
    pub after: i64,
    /// The last position; `None` for the end of the log.
    pub through: Option<i64>,
}

/// The parts of the log that one verification reads, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VerifiedParts {
    /// A stretch of older events.
    older: Option<OlderStretch>,
    /// The last part begins after this position, and ends with the log.
    rest_after: i64,
    /// The end of the rotation; `None` for a verification of the whole log.
    reread_to: Option<i64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct OlderStretch {
    after: i64,
    through: i64,
}

/// The times of a rotation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogRotation {
    period: Duration,
}

impl LogRotation {
    /// A rotation with this interval from the end of a verification to the begin of the next. Each
    /// event is read again within `reread_within`. An event may be read just before the rotation
    /// would pass it, and a verification takes time, so a period is shorter by two intervals.
    #[must_use]
    pub const fn new(reread_within: Duration, interval: Duration) -> Self {
        Self { period: reread_within.saturating_sub(interval.saturating_mul(2)) }
    }

    /// The parts of a verification that begins at this time. Its last part begins after `signed_to`
    /// at the latest: a signer refuses flaws after that position, and the verification must see
    /// these flaws too.
    #[must_use]
    pub fn due_parts(
        self,
        intact: Option<IntactVerification>,
        signed_to: i64,
        begin: Timestamp,
    ) -> VerifiedParts {
        let whole = VerifiedParts { older: None, rest_after: 0, reread_to: None };
        let Some(intact) = intact.filter(|intact| self.is_in_period(intact.at, begin)) else {
            return whole;
        };
        let end = self.find_place(begin, intact.position);
        let begins_anew = self.lap_at(intact.at) != self.lap_at(begin) || end < intact.reread_to;
        let rest_after = intact.position.min(signed_to);
        let (after, rest_after) = if begins_anew {
            (0, rest_after.min(intact.reread_to))
        } else {
            (intact.reread_to, rest_after)
        };
        let older = OlderStretch { after, through: end };
        let reread_to = Some(end);
        if older.through >= rest_after {
            // Both parts are one.
            return VerifiedParts { older: None, rest_after: rest_after.min(after), reread_to };
        }
        let older = Some(older).filter(|older| older.after < older.through);
        VerifiedParts { older, rest_after, reread_to }
    }

    /// The state of an intact verification of these parts, which began and ended at these times.
    #[must_use]
    pub fn end_of(
        self,
        parts: VerifiedParts,
        times: VerificationTimes,
        position: i64,
    ) -> IntactVerification {
        match parts.reread_to {
            Some(reread_to) => IntactVerification { at: times.began_at, position, reread_to },
            // A verification of the whole log may take longer than a period.
            None => {
                let reread_to = self.find_place(times.ended_at, position);
                IntactVerification { at: times.ended_at, position, reread_to }
            }
        }
    }

    fn is_in_period(self, last: Timestamp, begin: Timestamp) -> bool {
        let passed = (begin.get() - last.get()).num_milliseconds();
        (0..self.period_millis()).contains(&passed)
    }

    /// The end of the block that the rotation has reached at this time, in a log of this length.
    fn find_place(self, at: Timestamp, length: i64) -> i64 {
        let period = i128::from(self.period_millis());
        if period == 0 {
            return 0;
        }
        let blocks = i128::from(length / Seal::POSITIONS_PER_BLOCK);
        let millis = i128::from(at.get().timestamp_millis());
        let block = blocks * millis.rem_euclid(period) / period;
        i64::try_from(block).unwrap_or(0) * Seal::POSITIONS_PER_BLOCK
    }

    fn lap_at(self, at: Timestamp) -> i64 {
        at.get().timestamp_millis().div_euclid(self.period_millis().max(1))
    }

    fn period_millis(self) -> i64 {
        i64::try_from(self.period.as_millis()).unwrap_or(i64::MAX)
    }
}

/// Begin and end of a verification.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VerificationTimes {
    /// The begin.
    pub began_at: Timestamp,
    /// The end.
    pub ended_at: Timestamp,
}

impl VerifiedParts {
    /// The rest of the part that has not been verified up to this position. Parts ascend, so the
    /// position tells the part.
    #[must_use]
    pub fn part_after(&self, verified_to: i64) -> LogPart {
        match self.older {
            Some(OlderStretch { after, through }) if verified_to < through => {
                LogPart { after: after.max(verified_to), through: Some(through) }
            }
            _ => LogPart { after: self.rest_after.max(verified_to), through: None },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(86_400);
    const BLOCK: i64 = Seal::POSITIONS_PER_BLOCK;

    /// A period of ten days.
    const ROTATION: LogRotation = LogRotation::new(DAY.saturating_mul(12), DAY);

    fn hour(hours: i64) -> Timestamp {
        Timestamp::new(chrono::DateTime::from_timestamp(hours * 3_600, 0).unwrap())
    }

    fn intact_at(hours: i64, position: i64, reread_to: i64) -> Option<IntactVerification> {
        Some(IntactVerification { at: hour(hours), position, reread_to })
    }

    fn older(after: i64, through: i64) -> Option<OlderStretch> {
        Some(OlderStretch { after, through })
    }

    #[test]
    fn parts_follow_from_the_last_intact_verification() {
        let length = 100 * BLOCK + 5;
        let tenth = 10 * BLOCK;
        let day = |days: i64| hour(24 * days);
        for (case, intact, signed_to, begin, expected) in [
            ("the first one", None, 0, day(3), (None, 0, None)),
            (
                "a day later",
                intact_at(72, length, 3 * tenth),
                length,
                day(4),
                (older(3 * tenth, 4 * tenth), length, Some(4 * tenth)),
            ),
            (
                "a late signature",
                intact_at(72, length, 3 * tenth),
                99,
                day(4),
                (None, 99, Some(4 * tenth)),
            ),
            (
                "an hour later",
                intact_at(72, length, 3 * tenth),
                length,
                hour(73),
                (None, length, Some(3 * tenth)),
            ),
            (
                "a new round",
                intact_at(216, length, 9 * tenth),
                length,
                day(11),
                (older(0, tenth), 9 * tenth, Some(tenth)),
            ),
            (
                "a log that grew much",
                intact_at(216, 10 * length, 9 * tenth),
                10 * length,
                day(11),
                (None, 0, Some(10 * tenth)),
            ),
            (
                "a restored log",
                intact_at(72, length / 10, 3 * tenth),
                length,
                day(4),
                (older(0, 4 * BLOCK), length / 10, Some(4 * BLOCK)),
            ),
            ("after a period", intact_at(72, length, 3 * tenth), length, day(13), (None, 0, None)),
            ("a time ahead", intact_at(73, length, 3 * tenth), length, day(3), (None, 0, None)),
        ] {
            let (older, rest_after, reread_to) = expected;
            let expected = VerifiedParts { older, rest_after, reread_to };
            assert_eq!(ROTATION.due_parts(intact, signed_to, begin), expected, "{case}");
        }
    }

    #[test]
    fn one_day_reads_everything_each_day() {
        let daily = LogRotation::new(DAY, DAY);
        let intact = intact_at(0, 5_000, 0);
        assert_eq!(daily.due_parts(intact, 5_000, hour(24)).part_after(0).after, 0);
    }

    /// Walks a growing log for forty days, and notes when each block was read.
    #[test]
    fn each_block_is_read_within_the_days() {
        for growth in [0, 3, 40] {
            let mut read_on: Vec<i64> = Vec::new();
            let mut intact = None;
            for day in 0..60 {
                let begin = hour(24 * day + day % 2);
                let end = (30 + growth * day) * BLOCK;
                let parts = ROTATION.due_parts(intact, end, begin);
                read_on.resize(usize::try_from(end / BLOCK).unwrap(), day);
                let mut verified_to = 0;
                while verified_to < end {
                    let part = parts.part_after(verified_to);
                    verified_to = part.through.unwrap_or(end);
                    for block in part.after / BLOCK..verified_to / BLOCK {
                        read_on[usize::try_from(block).unwrap()] = day;
                    }
                }
                let oldest = read_on.iter().min().unwrap();
                assert!(day - oldest <= 11, "growth {growth}, day {day}: {oldest}");
                let times = VerificationTimes { began_at: begin, ended_at: begin };
                intact = Some(ROTATION.end_of(parts, times, end));
            }
        }
    }

    #[test]
    fn a_position_tells_the_part() {
        let parts = VerifiedParts { older: older(10, 20), rest_after: 30, reread_to: None };
        for (verified_to, after, through) in
            [(0, 10, Some(20)), (15, 15, Some(20)), (20, 30, None), (25, 30, None), (40, 40, None)]
        {
            assert_eq!(parts.part_after(verified_to), LogPart { after, through }, "{verified_to}");
        }
    }
}
