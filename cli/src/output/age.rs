//! The age of a time, as a person says it.

use chrono::{DateTime, Utc};

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;
const MONTH: i64 = 30 * DAY;
const YEAR: i64 = 365 * DAY;

/// The units from the largest on, each with the least count that is said in it.
const UNITS: [(i64, i64, &str); 6] = [
    (YEAR, 2, "years"),
    (MONTH, 3, "months"),
    (DAY, 2, "d"),
    (HOUR, 1, "h"),
    (MINUTE, 1, "min"),
    (1, 0, "s"),
];

/// The age of an instant, such as `3 min ago`; `in 3 min` for one to come.
pub(super) fn age_text(now: DateTime<Utc>, at: DateTime<Utc>) -> String {
    let seconds = (now - at).num_seconds();
    let distance = seconds.abs();
    let said = UNITS.iter().find(|(unit, least, _)| distance / unit >= *least);
    let said = said.map(|(unit, _, name)| format!("{} {name}", distance / unit));
    let said = said.unwrap_or_default();
    if seconds < 0 { format!("in {said}") } else { format!("{said} ago") }
}

#[cfg(test)]
mod tests {
    use chrono::TimeDelta;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(0, "0 s ago")]
    #[case(59, "59 s ago")]
    #[case(60, "1 min ago")]
    #[case(3 * HOUR + 5, "3 h ago")]
    #[case(47 * HOUR, "47 h ago")]
    #[case(48 * HOUR, "2 d ago")]
    #[case(89 * DAY, "89 d ago")]
    #[case(90 * DAY, "3 months ago")]
    #[case(730 * DAY, "2 years ago")]
    #[case(-90, "in 1 min")]
    fn an_age_has_one_unit(#[case] seconds: i64, #[case] said: &str) {
        let now = DateTime::UNIX_EPOCH;
        assert_eq!(age_text(now, now - TimeDelta::seconds(seconds)), said);
    }
}
