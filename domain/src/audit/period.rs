//! A period of time in one firm's chain: which entries a stretch of the chain proves to be in it.
//!
//! Entries follow each other by sequence. So a stretch that begins before the period and ends after
//! it shows every entry between, and none if the two neighbours follow each other.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::values::Timestamp;

/// A period of time. A missing bound bounds nothing.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditPeriod {
    /// First instant of the period.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// First instant after the period.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
}

/// The period ends before it begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("`until` must be later than `since`")]
pub struct BackwardPeriod;

/// An entry by its place and its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EntryTime {
    /// Sequence in the firm's chain.
    pub sequence: u64,
    /// Recording time of the event.
    pub at: Timestamp,
}

/// A stretch of a chain, entry by entry, under a period.
#[derive(Debug, Clone, Copy)]
pub struct PeriodStretch {
    period: AuditPeriod,
    inside: u64,
    first: Option<EntryTime>,
    last: Option<EntryTime>,
}

/// The content of a period, as a stretch of a chain proves it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProvedPeriod {
    /// The period.
    pub period: AuditPeriod,
    /// Number of entries in the period.
    pub entries: u64,
    /// The entry before the period. `None` if the chain begins in the period or after it.
    pub before: Option<EntryTime>,
    /// The entry after the period. `None` if the signed chain ends in the period or before it.
    pub after: Option<EntryTime>,
}

/// Why a stretch proves nothing about its period.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum UnprovedPeriod {
    /// The stretch begins inside or after the period.
    #[error("the entry before the period is missing")]
    NothingBefore,
    /// The stretch ends inside or before the period.
    #[error("the entry after the period is missing")]
    NothingAfter,
}

impl AuditPeriod {
    /// A period with these bounds.
    ///
    /// # Errors
    /// If it ends before it begins, or is empty.
    pub fn between(
        since: Option<Timestamp>,
        until: Option<Timestamp>,
    ) -> Result<Self, BackwardPeriod> {
        match (since, until) {
            (Some(since), Some(until)) if until <= since => Err(BackwardPeriod),
            _ => Ok(Self { since, until }),
        }
    }

    /// Whether the period is all of time.
    #[must_use]
    pub fn is_all(self) -> bool {
        self == Self::default()
    }

    /// Whether an instant is in the period.
    #[must_use]
    pub fn includes(self, at: Timestamp) -> bool {
        !self.is_before(at) && !self.is_after(at)
    }

    /// Whether an instant is before the period.
    fn is_before(self, at: Timestamp) -> bool {
        self.since.is_some_and(|since| at < since)
    }

    /// Whether an instant is after the period.
    fn is_after(self, at: Timestamp) -> bool {
        self.until.is_some_and(|until| at >= until)
    }
}

impl ProvedPeriod {
    /// Whether the signed chain ends in the period or before it. Later entries may be in the
    /// period.
    #[must_use]
    pub const fn is_open(&self) -> bool {
        self.after.is_none()
    }
}

impl PeriodStretch {
    /// A stretch without an entry.
    #[must_use]
    pub const fn new(period: AuditPeriod) -> Self {
        Self { period, inside: 0, first: None, last: None }
    }

    /// Adds the next entry.
    pub fn add_entry(&mut self, entry: EntryTime) {
        self.inside += u64::from(self.period.includes(entry.at));
        self.first = self.first.or(Some(entry));
        self.last = Some(entry);
    }

    /// The content of the period. `signed` is the number of entries in the signed chain.
    ///
    /// # Errors
    /// If the stretch does not reach over both bounds of the period.
    pub fn into_proved(self, signed: u64) -> Result<ProvedPeriod, UnprovedPeriod> {
        let Self { period, inside: entries, first, last } = self;
        let before = first.filter(|entry| period.is_before(entry.at));
        if before.is_none() && first.is_none_or(|entry| entry.sequence != 1) {
            return Err(UnprovedPeriod::NothingBefore);
        }
        let after = last.filter(|entry| period.is_after(entry.at));
        if after.is_none() && last.is_none_or(|entry| entry.sequence != signed) {
            return Err(UnprovedPeriod::NothingAfter);
        }
        Ok(ProvedPeriod { period, entries, before, after })
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn day(day: u64) -> Timestamp {
        format!("2026-03-{day:02}T00:00:00Z").parse().unwrap()
    }

    /// The entries of a chain of four, on the days 2, 4, 4 and 9, from one place to another.
    fn stretch(
        period: AuditPeriod,
        places: std::ops::RangeInclusive<u64>,
    ) -> Result<(u64, Option<u64>, Option<u64>), UnprovedPeriod> {
        let mut stretch = PeriodStretch::new(period);
        for sequence in places {
            let at = day([2, 4, 4, 9][usize::try_from(sequence - 1).unwrap()]);
            stretch.add_entry(EntryTime { sequence, at });
        }
        let proved = stretch.into_proved(4)?;
        let place = |entry: Option<EntryTime>| entry.map(|entry| entry.sequence);
        Ok((proved.entries, place(proved.before), place(proved.after)))
    }

    fn days(since: u64, until: u64) -> AuditPeriod {
        AuditPeriod::between(Some(day(since)), Some(day(until))).unwrap()
    }

    #[rstest]
    #[case::between_two(days(5, 9), 3..=4, Ok((0, Some(3), Some(4))))]
    #[case::some(days(4, 5), 1..=4, Ok((2, Some(1), Some(4))))]
    #[case::before_all(days(1, 2), 1..=1, Ok((0, None, Some(1))))]
    #[case::after_all(days(10, 12), 4..=4, Ok((0, Some(4), None)))]
    #[case::from_the_begin(days(1, 4), 1..=2, Ok((1, None, Some(2))))]
    #[case::to_the_end(days(5, 12), 3..=4, Ok((1, Some(3), None)))]
    #[case::no_neighbour_before(days(5, 9), 4..=4, Err(UnprovedPeriod::NothingBefore))]
    #[case::no_neighbour_after(days(5, 9), 3..=3, Err(UnprovedPeriod::NothingAfter))]
    #[case::cut_short(days(10, 12), 3..=3, Err(UnprovedPeriod::NothingAfter))]
    #[case::begun_late(days(1, 5), 2..=4, Err(UnprovedPeriod::NothingBefore))]
    #[case::open(AuditPeriod::default(), 1..=4, Ok((4, None, None)))]
    #[case::open_and_cut(AuditPeriod::default(), 1..=3, Err(UnprovedPeriod::NothingAfter))]
    fn both_neighbours_prove_a_period(
        #[case] period: AuditPeriod,
        #[case] places: std::ops::RangeInclusive<u64>,
        #[case] expected: Result<(u64, Option<u64>, Option<u64>), UnprovedPeriod>,
    ) {
        assert_eq!(stretch(period, places), expected);
    }

    #[test]
    fn a_stretch_without_entries_proves_nothing() {
        let proved = PeriodStretch::new(AuditPeriod::default()).into_proved(0);
        assert_eq!(proved, Err(UnprovedPeriod::NothingBefore));
    }

    #[test]
    fn a_period_ends_after_it_begins() {
        for (since, until) in [(2, 1), (2, 2)] {
            let period = AuditPeriod::between(Some(day(since)), Some(day(until)));
            assert_eq!(period, Err(BackwardPeriod));
        }
        assert!(AuditPeriod::default().is_all() && !days(1, 2).is_all());
    }
}
