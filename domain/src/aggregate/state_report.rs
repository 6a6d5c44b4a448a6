//! Reports of state, judged one aspect at a time (ruling 35).
//!
//! Each aspect of a firm, a member or a form has a clock of its own: the `time` of its newest
//! report. A late report of one aspect therefore never loses to a report of another one. `time` may
//! be cut to whole seconds, so among reports with one `time` the last one wins.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::values::Timestamp;

/// Longest lead of an activity's `time` over the database's clock (ruling 35). A clock far in the
/// future would outdate all reports of today.
pub const TIME_AHEAD_MAX: Duration = Duration::from_secs(3_600);

/// Whether the product's clock is so far ahead that the report is refused.
#[must_use]
pub fn is_too_far_ahead(time: Timestamp, now: Timestamp) -> bool {
    (time.get() - now.get()).to_std().is_ok_and(|ahead| ahead > TIME_AHEAD_MAX)
}

/// Effect of a report of state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReportEffect {
    /// The report changes something.
    News,
    /// The state is known already.
    Repeat,
    /// A newer or final report outdates this one.
    Stale,
}

impl ReportEffect {
    /// Effect of a report about several aspects. It is stale if no aspect is news and one is stale.
    pub(crate) fn of_all(aspects: impl IntoIterator<Item = Self>) -> Self {
        aspects.into_iter().fold(Self::Repeat, |all, one| match (all, one) {
            (Self::News, _) | (_, Self::News) => Self::News,
            (Self::Stale, _) | (_, Self::Stale) => Self::Stale,
            (Self::Repeat, Self::Repeat) => Self::Repeat,
        })
    }
}

/// Newest reported value of one aspect, and its clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AspectState<T> {
    pub(crate) value: T,
    pub(crate) time: Timestamp,
}

impl<T: PartialEq> AspectState<T> {
    /// Effect of another report of this aspect.
    fn effect_of_report(&self, value: &T, time: Timestamp) -> ReportEffect {
        if time < self.time {
            ReportEffect::Stale
        } else if time == self.time && *value == self.value {
            ReportEffect::Repeat
        } else {
            ReportEffect::News
        }
    }
}

/// Effect of a report of an aspect. The first report is news.
pub(crate) fn effect_on<T: PartialEq>(
    known: Option<&AspectState<T>>,
    value: &T,
    time: Timestamp,
) -> ReportEffect {
    known.map_or(ReportEffect::News, |known| known.effect_of_report(value, time))
}

/// Effect of a report that names the aspect only if it has a value.
pub(crate) fn effect_if_named<T: PartialEq>(
    known: Option<&AspectState<T>>,
    value: Option<&T>,
    time: Timestamp,
) -> ReportEffect {
    value.map_or(ReportEffect::Repeat, |value| effect_on(known, value, time))
}

/// The value, if its report is news.
pub(crate) fn if_news<T: PartialEq>(
    known: Option<&AspectState<T>>,
    value: Option<T>,
    time: Timestamp,
) -> Option<T> {
    value.filter(|value| effect_on(known, value, time) == ReportEffect::News)
}

/// Takes a value in, if there is one. A final report may be older than the clock, which never goes
/// back.
pub(crate) fn absorb_value<T: Clone>(
    known: &mut Option<AspectState<T>>,
    value: Option<&T>,
    time: Timestamp,
) {
    if let Some(value) = value {
        let time = known.as_ref().map_or(time, |known| known.time.max(time));
        *known = Some(AspectState { value: value.clone(), time });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        format!("2026-11-01T{text}Z").parse().unwrap()
    }

    #[test]
    fn reports_are_news_repeats_or_stale() {
        let known = AspectState { value: 1, time: at("12:00:05") };
        for (value, second, effect) in [
            (1, "12:00:04", ReportEffect::Stale),
            (2, "12:00:04", ReportEffect::Stale),
            (1, "12:00:05", ReportEffect::Repeat),
            (2, "12:00:05", ReportEffect::News),
            (1, "12:00:06", ReportEffect::News),
        ] {
            assert_eq!(effect_on(Some(&known), &value, at(second)), effect, "{value} at {second}");
        }
        assert_eq!(effect_on(None, &1, at("12:00:00")), ReportEffect::News);
        assert_eq!(effect_if_named(Some(&known), None, at("12:00:06")), ReportEffect::Repeat);
    }

    #[test]
    fn news_beats_stale_and_stale_beats_repeat() {
        use ReportEffect::{News, Repeat, Stale};
        for (aspects, whole) in [
            (&[][..], Repeat),
            (&[Repeat, Repeat], Repeat),
            (&[Repeat, Stale], Stale),
            (&[Stale, News, Repeat], News),
        ] {
            assert_eq!(ReportEffect::of_all(aspects.iter().copied()), whole, "{aspects:?}");
        }
    }

    #[test]
    fn times_are_an_hour_ahead_at_most() {
        let now = at("12:00:00");
        assert!(!is_too_far_ahead(at("00:00:00"), now));
        assert!(!is_too_far_ahead(at("13:00:00"), now));
        assert!(is_too_far_ahead(at("13:00:00.001"), now));
    }
}
