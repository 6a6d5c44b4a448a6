//! The period that a run covers.

use domain::values::Timestamp;

use super::event::{DAY, EventTime};

/// The period of a run. Firms open and settle in its first eighth, then responses arrive.
#[derive(Debug, Clone, Copy)]
pub(super) struct RunPeriod {
    pub(super) from: EventTime,
    /// The end of the first eighth.
    pub(super) settled: EventTime,
    pub(super) until: EventTime,
}

impl RunPeriod {
    /// The period of this many weeks that ends at this time.
    pub(super) fn of_weeks(weeks: u32, until: Timestamp) -> Self {
        let until = EventTime(until.get().timestamp_millis());
        let length = i64::from(weeks) * 7 * DAY;
        Self { from: until.after(-length), settled: until.after(-length / 8 * 7), until }
    }

    /// The time in which responses arrive: from `settled` to `until`.
    pub(super) const fn response_time(self) -> i64 {
        self.until.0 - self.settled.0
    }

    /// The time at which this part of the responses' time has passed.
    pub(super) fn time_at_part(self, number: u64, of: u64) -> EventTime {
        let passed = i128::from(self.response_time()) * i128::from(number) / i128::from(of.max(1));
        self.settled.after(i64::try_from(passed).unwrap_or_default())
    }
}
