//! Points in time, as the service writes and reads them (contract, section What the service does;
//! ruling 13). The module never reads a clock.

use std::fmt;
use std::str::FromStr;

use chrono::{DateTime, Datelike, NaiveDate, SecondsFormat, Timelike, Utc};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Longest RFC 3339 text that is read. Nanoseconds and an offset need 35 characters.
const TEXT_MAX: usize = 40;

/// A point in time in whole milliseconds, always written as `YYYY-MM-DDTHH:MM:SS.mmmZ`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Timestamp(DateTime<Utc>);

/// Why a text is not a point in time, in a sentence for a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NotATimestamp {
    /// The text does not have the form of RFC 3339, or its date or time does not exist.
    #[error("not an RFC 3339 timestamp such as 2026-01-31T09:30:00.000Z")]
    Malformed,
    /// The second is 60. The service's clocks have no leap seconds.
    #[error("a timestamp cannot name a leap second")]
    LeapSecond,
    /// The year is before 0 or after 9999 in UTC.
    #[error("a timestamp must lie in the years 0000 to 9999")]
    YearOutOfRange,
}

impl Timestamp {
    /// Cuts a time to whole milliseconds.
    #[must_use]
    pub fn new(at: DateTime<Utc>) -> Self {
        Self(DateTime::from_timestamp_millis(at.timestamp_millis()).unwrap_or(at))
    }

    /// UTC day of the timestamp.
    #[must_use]
    pub fn day(self) -> NaiveDate {
        self.0.date_naive()
    }

    /// Whole seconds until the next midnight UTC, at least 1.
    #[must_use]
    pub fn seconds_until_midnight(self) -> u64 {
        u64::from(86_400 - self.0.num_seconds_from_midnight())
    }

    /// The timestamp for arithmetic.
    #[must_use]
    pub fn get(self) -> DateTime<Utc> {
        self.0
    }
}

impl From<DateTime<Utc>> for Timestamp {
    fn from(at: DateTime<Utc>) -> Self {
        Self::new(at)
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from(*self))
    }
}

impl From<Timestamp> for String {
    fn from(at: Timestamp) -> Self {
        at.0.to_rfc3339_opts(SecondsFormat::Millis, true)
    }
}

impl TryFrom<String> for Timestamp {
    type Error = NotATimestamp;

    fn try_from(text: String) -> Result<Self, NotATimestamp> {
        text.parse()
    }
}

impl FromStr for Timestamp {
    type Err = NotATimestamp;

    /// Reads RFC 3339 with any offset, and no looser form.
    fn from_str(text: &str) -> Result<Self, NotATimestamp> {
        if !has_rfc_3339_shape(text.as_bytes()) {
            return Err(NotATimestamp::Malformed);
        }
        if text.get(17..19) == Some("60") {
            return Err(NotATimestamp::LeapSecond);
        }
        let at = DateTime::parse_from_rfc3339(text).map_err(|_| NotATimestamp::Malformed)?.to_utc();
        if (0..=9999).contains(&at.year()) {
            Ok(Self::new(at))
        } else {
            Err(NotATimestamp::YearOutOfRange)
        }
    }
}

/// Checks the separators. The parser checks ranges and is lenient about separators.
fn has_rfc_3339_shape(text: &[u8]) -> bool {
    let Some((head, tail)) = text.split_at_checked(19) else {
        return false;
    };
    let zone = match tail.split_first() {
        Some((b'.', rest)) => {
            let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
            if digits == 0 {
                return false;
            }
            &rest[digits..]
        }
        _ => tail,
    };
    text.len() <= TEXT_MAX
        && (fits_pattern(head, b"0000-00-00T00:00:00")
            || fits_pattern(head, b"0000-00-00t00:00:00"))
        && (matches!(zone, b"Z" | b"z")
            || fits_pattern(zone, b"+00:00")
            || fits_pattern(zone, b"-00:00"))
}

/// Whether the text has a digit at each digit of the pattern, and equal characters elsewhere.
fn fits_pattern(text: &[u8], pattern: &[u8]) -> bool {
    text.len() == pattern.len()
        && text.iter().zip(pattern).all(|(byte, expected)| match expected {
            b'0' => byte.is_ascii_digit(),
            _ => byte == expected,
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case("2026-01-31T09:30:00Z", "2026-01-31T09:30:00.000Z")]
    #[case("2026-01-31T09:30:00.5Z", "2026-01-31T09:30:00.500Z")]
    #[case("2026-01-31T09:30:00.123999999Z", "2026-01-31T09:30:00.123Z")]
    #[case("2026-01-31t09:30:00z", "2026-01-31T09:30:00.000Z")]
    #[case("2026-01-31T00:30:00+02:00", "2026-01-30T22:30:00.000Z")]
    #[case("2026-12-31T23:30:00-00:45", "2027-01-01T00:15:00.000Z")]
    #[case("2026-01-31T09:30:00-00:00", "2026-01-31T09:30:00.000Z")]
    #[case("0000-01-01T00:00:00Z", "0000-01-01T00:00:00.000Z")]
    #[case("1969-12-31T23:59:59.9999Z", "1969-12-31T23:59:59.999Z")]
    #[case("9999-12-31T23:59:59.999Z", "9999-12-31T23:59:59.999Z")]
    fn a25_times_have_milliseconds_in_utc(#[case] text: &str, #[case] written: &str) {
        let at: Timestamp = text.parse().unwrap();
        assert_eq!(at.to_string(), written);
        assert_eq!(serde_json::to_string(&at).unwrap(), format!("\"{written}\""));
    }

    #[rstest]
    fn other_texts_are_no_timestamps(
        #[values(
            "",
            "2026-01-31",
            "2026-01-31T09:30Z",
            "2026-01-31T09:30:00",
            "2026-01-31 09:30:00Z",
            "2026-01-31T09:30:00,5Z",
            "2026-01-31T09:30:00.Z",
            "2026-01-31T09:30:00 Z",
            "2026-01-31T09:30:00+0200",
            "2026-01-31T09:30:00+02",
            "2026-01-31T09:30:00\u{2212}02:00",
            "2026-01-31T09:30:00+24:00",
            "2026-01-31T09:30:00+02:60",
            "2026-02-29T09:30:00Z",
            "2026-13-01T09:30:00Z",
            "2026-01-31T24:00:00Z",
            "2026-01-31T09:60:00Z",
            "2026-01-31T09:30:61Z",
            "+2026-01-31T09:30:00Z",
            "10000-01-01T00:00:00Z",
            " 2026-01-31T09:30:00Z",
            "2026-01-31T09:30:00Z\n",
            "1767225600",
            "2026-01-31T09:30:0é",
            "2026-01-31T09:30:00.00000000000000000000000000Z"
        )]
        text: &str,
    ) {
        assert_eq!(text.parse::<Timestamp>(), Err(NotATimestamp::Malformed));
    }

    #[test]
    fn leap_seconds_are_refused_by_name() {
        assert_eq!("2016-12-31T23:59:60Z".parse::<Timestamp>(), Err(NotATimestamp::LeapSecond));
        let error = serde_json::from_str::<Timestamp>("\"2016-12-31T23:59:60Z\"").unwrap_err();
        assert!(error.to_string().starts_with("a timestamp cannot name a leap second"));
    }

    #[test]
    fn an_offset_keeps_the_year_in_range() {
        for text in ["9999-12-31T23:59:59-00:01", "0000-01-01T00:00:00+00:01"] {
            assert_eq!(text.parse::<Timestamp>(), Err(NotATimestamp::YearOutOfRange), "{text}");
        }
    }

    #[rstest]
    #[case("2026-11-01T00:00:00.000Z", 86_400)]
    #[case("2026-11-01T12:00:00.001Z", 43_200)]
    #[case("2026-11-01T23:59:59.999Z", 1)]
    fn a_day_ends_at_midnight_utc(#[case] text: &str, #[case] seconds: u64) {
        let at: Timestamp = text.parse().unwrap();
        assert_eq!(at.day().to_string(), "2026-11-01");
        assert_eq!(at.seconds_until_midnight(), seconds);
    }

    #[test]
    fn a_time_is_cut_to_milliseconds() {
        let at = DateTime::from_timestamp_nanos(1_999_999);
        assert_eq!(Timestamp::new(at).get(), DateTime::from_timestamp_nanos(1_000_000));
    }
}
