//! Points in time as a person writes them: a date, an instant, or a distance from now.

use std::str::FromStr;

use chrono::{Days, NaiveDate, NaiveTime, TimeDelta};

use super::time::Timestamp;

/// The longest distance, in seconds: a century.
const SECONDS_MAX: i64 = 100 * 366 * 86_400;

/// The units of distances, in seconds.
const UNITS: [(&str, i64); 7] = [
    ("s", 1),
    ("m", 60),
    ("min", 60),
    ("h", 3_600),
    ("d", 86_400),
    ("w", 7 * 86_400),
    ("y", 365 * 86_400),
];

/// A point in time that may depend on the present.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// An instant. A date is its midnight in UTC.
    At(Timestamp),
    /// This far from now, such as `2h`. The question decides the direction.
    Distance(TimeDelta),
    /// Midnight in UTC, this many days before today.
    Day(u64),
}

/// The text is no point in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "write a date (2026-03-01, midnight UTC), an instant (2026-03-01T09:30:00Z), `yesterday`, or a \
     distance from now (90s, 15min, 2h, 3d, 2w)"
)]
pub struct NoTime;

impl When {
    /// The instant, where a distance lies before now.
    #[must_use]
    pub fn instant_before(self, now: Timestamp) -> Timestamp {
        self.resolve(now, TimeDelta::zero() - self.distance())
    }

    /// The instant, where a distance lies after now.
    #[must_use]
    pub fn instant_after(self, now: Timestamp) -> Timestamp {
        self.resolve(now, self.distance())
    }

    fn distance(self) -> TimeDelta {
        match self {
            Self::Distance(distance) => distance,
            Self::At(_) | Self::Day(_) => TimeDelta::zero(),
        }
    }

    fn resolve(self, now: Timestamp, distance: TimeDelta) -> Timestamp {
        match self {
            Self::At(at) => at,
            Self::Distance(_) => Timestamp::new(now.get() + distance),
            Self::Day(ago) => midnight_of(now.day() - Days::new(ago)),
        }
    }
}

fn midnight_of(day: NaiveDate) -> Timestamp {
    Timestamp::new(day.and_time(NaiveTime::MIN).and_utc())
}

impl FromStr for When {
    type Err = NoTime;

    fn from_str(text: &str) -> Result<Self, NoTime> {
        let text = text.trim();
        match text {
            "now" => return Ok(Self::Distance(TimeDelta::zero())),
            "today" => return Ok(Self::Day(0)),
            "yesterday" => return Ok(Self::Day(1)),
            _ => {}
        }
        let read = parse_day(text).or_else(|| text.parse().ok()).map(Self::At);
        let read = read.or_else(|| parse_distance(text).map(Self::Distance));
        read.ok_or(NoTime)
    }
}

/// Midnight of a date, `2026-03-01`.
fn parse_day(text: &str) -> Option<Timestamp> {
    let is_date = text.len() == 10 && text.bytes().all(|c| c.is_ascii_digit() || c == b'-');
    let day = NaiveDate::parse_from_str(text, "%Y-%m-%d").ok().filter(|_| is_date);
    day.map(midnight_of)
}

fn parse_distance(text: &str) -> Option<TimeDelta> {
    let end = text.find(|c: char| !c.is_ascii_digit())?;
    let unit = text[end..].trim_start();
    let (_, seconds) = UNITS.iter().find(|(name, _)| *name == unit)?;
    let count: i64 = text[..end].parse().ok()?;
    let seconds = count.checked_mul(*seconds).filter(|seconds| *seconds <= SECONDS_MAX)?;
    TimeDelta::try_seconds(seconds)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const NOW: &str = "2026-11-25T12:30:00.000Z";

    #[rstest]
    #[case("2026-03-01", "2026-03-01T00:00:00.000Z")]
    #[case("2026-03-01T09:30:00+02:00", "2026-03-01T07:30:00.000Z")]
    #[case("now", NOW)]
    #[case("today", "2026-11-25T00:00:00.000Z")]
    #[case("yesterday", "2026-11-24T00:00:00.000Z")]
    #[case("90s", "2026-11-25T12:28:30.000Z")]
    #[case("15min", "2026-11-25T12:15:00.000Z")]
    #[case("2h", "2026-11-25T10:30:00.000Z")]
    #[case("2 h", "2026-11-25T10:30:00.000Z")]
    #[case("3d", "2026-11-22T12:30:00.000Z")]
    #[case("2w", "2026-11-11T12:30:00.000Z")]
    fn a_time_is_date_instant_or_distance(#[case] text: &str, #[case] at: &str) {
        let now = NOW.parse().unwrap();
        assert_eq!(text.parse::<When>().unwrap().instant_before(now).to_string(), at);
    }

    #[test]
    fn a_distance_ahead_lies_in_the_future() {
        let ahead = "90d".parse::<When>().unwrap().instant_after(NOW.parse().unwrap());
        assert_eq!(ahead.to_string(), "2027-02-23T12:30:00.000Z");
    }

    #[rstest]
    fn other_texts_are_no_times(
        #[values(
            "",
            "2026-02-30",
            "2026-3-1",
            "tomorrow",
            "2",
            "h",
            "-2h",
            "1.5h",
            "2 fortnights",
            "99999999999999999999s",
            "101y",
            "2026-03-01T09:30"
        )]
        text: &str,
    ) {
        assert_eq!(text.parse::<When>(), Err(NoTime));
    }
}
