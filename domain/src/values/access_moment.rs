//! The moment at which somebody had access, as the internal API reads it.

use std::str::FromStr;

use chrono::{DateTime, NaiveDate, TimeDelta, Utc};

use super::time::Timestamp;

/// The end of a day, or an instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AccessMoment(Timestamp);

/// The text is neither a day nor an instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("neither a day (2026-03-14) nor an instant (2026-03-14T12:00:00Z)")]
pub struct NeitherDayNorInstant;

impl AccessMoment {
    /// The moment, or now if it has not come yet: the end of today lies ahead.
    #[must_use]
    pub fn capped_at(self, now: Timestamp) -> Timestamp {
        self.0.min(now)
    }

    /// Whether the moment lies more than a day ahead.
    #[must_use]
    pub fn is_ahead(self, now: Timestamp) -> bool {
        self.0.get() > now.get() + TimeDelta::days(1)
    }
}

impl From<Timestamp> for AccessMoment {
    fn from(at: Timestamp) -> Self {
        Self(at)
    }
}

impl FromStr for AccessMoment {
    type Err = NeitherDayNorInstant;

    fn from_str(text: &str) -> Result<Self, NeitherDayNorInstant> {
        if let Ok(day) = text.parse::<NaiveDate>() {
            let next = day.succ_opt().and_then(|next| next.and_hms_opt(0, 0, 0));
            let next: DateTime<Utc> = next.ok_or(NeitherDayNorInstant)?.and_utc();
            return Ok(Self((next - TimeDelta::milliseconds(1)).into()));
        }
        text.parse().map(Self).map_err(|_| NeitherDayNorInstant)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: u32) -> Timestamp {
        format!("2026-03-14T12:00:{second:02}.000Z").parse().unwrap()
    }

    /// Today means now.
    #[test]
    fn a_past_day_means_its_end() {
        let moment: AccessMoment = "2026-03-14".parse().unwrap();
        assert_eq!(
            moment.capped_at("2026-04-01T00:00:00Z".parse().unwrap()).to_string(),
            "2026-03-14T23:59:59.999Z"
        );
        assert_eq!(moment.capped_at(at(0)), at(0));
        assert!(!moment.is_ahead(at(0)));
        assert!("2026-03-16".parse::<AccessMoment>().unwrap().is_ahead(at(0)));
        let instant: AccessMoment = "2026-03-14T12:00:03Z".parse().unwrap();
        assert_eq!(instant.capped_at(at(9)), at(3));
        for nonsense in ["", "17", "yesterday", "2026-13-01"] {
            assert_eq!(nonsense.parse::<AccessMoment>(), Err(NeitherDayNorInstant), "{nonsense}");
        }
    }
}
