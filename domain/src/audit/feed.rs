//! Sessions of the audit log's feed. A reading of the feed is recorded once per session, since a
//! record per call would be a new entry of the feed, and so lead to the next call.

use chrono::TimeDelta;

use crate::values::Timestamp;

/// Longest time between two calls of one session.
pub const FEED_IDLE_MAX: TimeDelta = TimeDelta::minutes(10);

/// Longest duration of a session. A reader who stays is recorded again each day.
pub const FEED_SESSION_MAX: TimeDelta = TimeDelta::hours(24);

/// A recorded reading of a feed from a place on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FeedSession {
    /// The recorded place: everything after it is read.
    pub after: i64,
    /// Time of the record.
    pub began_at: Timestamp,
    /// Time of the last call.
    pub used_at: Timestamp,
}

impl FeedSession {
    /// A session that begins now.
    #[must_use]
    pub const fn begun(after: i64, now: Timestamp) -> Self {
        Self { after, began_at: now, used_at: now }
    }

    /// Whether the record covers a call that reads after this place.
    #[must_use]
    pub fn covers(&self, after: i64, now: Timestamp) -> bool {
        after >= self.after && self.is_open(now)
    }

    /// Whether the session has not ended.
    #[must_use]
    pub fn is_open(&self, now: Timestamp) -> bool {
        let now = now.get();
        now - self.used_at.get() <= FEED_IDLE_MAX && now - self.began_at.get() <= FEED_SESSION_MAX
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn at(time: &str) -> Timestamp {
        format!("2026-03-{time}Z").parse().unwrap()
    }

    #[rstest]
    #[case::going_on(8, "01T13:09:00", true)]
    #[case::again_from_its_begin(5, "01T13:09:00", true)]
    #[case::from_before_its_begin(4, "01T13:09:00", false)]
    #[case::after_a_long_break(8, "01T13:10:01", false)]
    #[case::after_a_day(8, "02T12:00:01", false)]
    fn a_session_covers_entries_after_its_begin(
        #[case] after: i64,
        #[case] now: &str,
        #[case] covered: bool,
    ) {
        let used_at = if now.starts_with("02") { at("02T12:00:00") } else { at("01T13:00:00") };
        let session = FeedSession { used_at, ..FeedSession::begun(5, at("01T12:00:00")) };
        assert_eq!(session.covers(after, at(now)), covered);
    }
}
