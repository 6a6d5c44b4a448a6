//! Moments of the past, as a person writes them for a command.

use std::str::FromStr;

use chrono::TimeDelta;
use domain::values::{AccessMoment, AsOf, NeitherDayNorInstant, Timestamp, When};

/// A moment of the past: a position of the log, or a point in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PastMoment {
    /// A position of the log.
    Position(i64),
    /// A point in time.
    Time(When),
}

/// The text is neither a position nor a point in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("neither a position of the log, from 1, nor a time (2026-03-01, 2026-03-01T09:30:00Z, 2h)")]
pub struct NoPastMoment;

impl PastMoment {
    /// The bound of a question at this moment.
    #[must_use]
    pub fn as_of(self, now: Timestamp) -> AsOf {
        match self {
            Self::Position(position) => AsOf::Position(position),
            Self::Time(when) => AsOf::Instant(when.instant_before(now)),
        }
    }
}

impl FromStr for PastMoment {
    type Err = NoPastMoment;

    fn from_str(text: &str) -> Result<Self, NoPastMoment> {
        if text.bytes().all(|byte| byte.is_ascii_digit()) {
            let position = text.parse().ok().filter(|position| *position > 0);
            return position.map(Self::Position).ok_or(NoPastMoment);
        }
        text.parse().map(Self::Time).map_err(|_| NoPastMoment)
    }
}

/// The moment of a question about access, as a person writes it: a day, an instant, or a time
/// before now. Unlike [`PastMoment`], a day means its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AskedAccess {
    /// The end of a day, or an instant.
    Moment(AccessMoment),
    /// A time before now: `yesterday`, `2h` and the like.
    Past(When),
}

impl AskedAccess {
    /// The moment, as seen from now.
    #[must_use]
    pub fn moment(self, now: Timestamp) -> AccessMoment {
        match self {
            Self::Moment(moment) => moment,
            Self::Past(when @ When::Day(_)) => {
                let end = when.instant_before(now).get() + TimeDelta::days(1)
                    - TimeDelta::milliseconds(1);
                AccessMoment::from(Timestamp::from(end))
            }
            Self::Past(when) => AccessMoment::from(when.instant_before(now)),
        }
    }
}

impl FromStr for AskedAccess {
    type Err = NeitherDayNorInstant;

    fn from_str(text: &str) -> Result<Self, NeitherDayNorInstant> {
        let moment = text.parse().map(Self::Moment);
        moment.or_else(|neither| text.parse().map(Self::Past).map_err(|_| neither))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: &str = "2026-11-25T12:30:00.000Z";

    #[test]
    fn a_moment_is_position_or_time() {
        let now: Timestamp = NOW.parse().unwrap();
        let as_of = |text: &str| text.parse::<PastMoment>().map(|moment| moment.as_of(now));
        assert_eq!(as_of("17"), Ok(AsOf::Position(17)));
        assert_eq!(as_of("now"), Ok(AsOf::Instant(now)));
        for nonsense in ["", "0", "-1", "1.5", "99999999999999999999", "nonsense"] {
            assert_eq!(as_of(nonsense), Err(NoPastMoment), "{nonsense}");
        }
    }

    #[test]
    fn yesterday_means_its_end() {
        let now: Timestamp = "2026-11-02T12:00:00Z".parse().unwrap();
        let asked =
            |text: &str| text.parse::<AskedAccess>().map(|asked| asked.moment(now).capped_at(now));
        let at = |text: &str| Ok(text.parse::<Timestamp>().unwrap());
        assert_eq!(asked("yesterday"), at("2026-11-01T23:59:59.999Z"));
        assert_eq!(asked("2026-11-01"), asked("yesterday"));
        assert_eq!(asked("today"), Ok(now));
        assert_eq!(asked("2h"), at("2026-11-02T10:00:00Z"));
        assert_eq!(asked("soon"), Err(NeitherDayNorInstant));
    }
}
