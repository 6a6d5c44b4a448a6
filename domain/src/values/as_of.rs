//! A bound in the past, by log position or by instant, for questions about earlier states.

use std::fmt;
use std::str::FromStr;

use super::time::Timestamp;

/// The last moment that a question about the past includes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AsOf {
    /// Includes all events at or below this position of the log.
    Position(i64),
    /// Includes all events recorded at or before this instant. Each stream ends before its first
    /// later event. The clocks of two processes may differ a little, and a stream must have no
    /// gaps.
    Instant(Timestamp),
}

/// The text is neither a position nor an instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("neither a position of the log, from 1, nor an instant (2026-11-01T12:00:00Z)")]
pub struct NeitherPositionNorInstant;

impl AsOf {
    /// Includes all events.
    pub const NOW: Self = Self::Position(i64::MAX);

    /// Whether an event with this position and this recording time is included.
    #[must_use]
    pub fn includes(self, position: i64, recorded_at: Timestamp) -> bool {
        match self {
            Self::Position(last) => position <= last,
            Self::Instant(last) => recorded_at <= last,
        }
    }
}

impl FromStr for AsOf {
    type Err = NeitherPositionNorInstant;

    fn from_str(text: &str) -> Result<Self, NeitherPositionNorInstant> {
        let position = text.bytes().all(|byte| byte.is_ascii_digit());
        if position {
            let position = text.parse().ok().filter(|position| *position > 0);
            return position.map(Self::Position).ok_or(NeitherPositionNorInstant);
        }
        text.parse().map(Self::Instant).map_err(|_| NeitherPositionNorInstant)
    }
}

impl fmt::Display for AsOf {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Position(last) => last.fmt(formatter),
            Self::Instant(last) => last.fmt(formatter),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Any other text is an instant or refused.
    #[test]
    fn only_a_number_is_a_position() {
        let instant: Timestamp = "2026-11-01T12:00:00Z".parse().unwrap();
        assert_eq!("17".parse(), Ok(AsOf::Position(17)));
        assert_eq!("2026-11-01T13:00:00+01:00".parse(), Ok(AsOf::Instant(instant)));
        for one in [AsOf::Position(17), AsOf::Instant(instant)] {
            assert_eq!(one.to_string().parse(), Ok(one));
        }
        for nonsense in ["", "0", "-1", "1.5", "99999999999999999999", "yesterday", "2026-11-01"] {
            assert_eq!(nonsense.parse::<AsOf>(), Err(NeitherPositionNorInstant), "{nonsense}");
        }
    }

    #[test]
    fn a_moment_includes_itself_and_all_before() {
        let at = |second| format!("2026-11-01T12:00:0{second}Z").parse::<Timestamp>().unwrap();
        assert!(AsOf::Position(5).includes(5, at(9)) && !AsOf::Position(5).includes(6, at(0)));
        assert!(
            AsOf::Instant(at(5)).includes(99, at(5)) && !AsOf::Instant(at(5)).includes(1, at(6))
        );
    }
}
