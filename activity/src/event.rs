//! Events as lines: CloudEvents about one firm, each with its time of arrival.

use std::fmt;
use std::io::{self, Write};

use chrono::DateTime;
use domain::values::Timestamp;
use uuid::Uuid;

use super::json::{ObjectWriter, write_object};
use super::random::Random;

pub(super) const SECOND: i64 = 1_000;
pub(super) const MINUTE: i64 = 60 * SECOND;
pub(super) const HOUR: i64 = 60 * MINUTE;
pub(super) const DAY: i64 = 24 * HOUR;

/// A point in time, in milliseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct EventTime(pub(super) i64);

impl EventTime {
    /// Later than every event.
    pub(super) const NEVER: Self = Self(i64::MAX);

    pub(super) const fn after(self, milliseconds: i64) -> Self {
        Self(self.0 + milliseconds)
    }
}

impl fmt::Display for EventTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Timestamp::new(DateTime::from_timestamp_millis(self.0).unwrap_or_default()).fmt(f)
    }
}

/// One event as a line, and the time at which it arrives.
#[derive(Debug, Clone)]
pub struct EventLine {
    pub(super) arrives_at: EventTime,
    pub(super) kind: &'static str,
    pub(super) id: Uuid,
    /// The line after the event's id.
    pub(super) rest: Vec<u8>,
}

impl EventLine {
    /// Whether its `type` begins with `kind`.
    #[must_use]
    pub fn is_about(&self, kind: &str) -> bool {
        self.kind.starts_with(kind)
    }

    /// Writes the event and the end of the line.
    ///
    /// # Errors
    ///
    /// If `out` cannot be written to.
    pub fn write(&self, out: &mut impl Write) -> io::Result<()> {
        write!(out, r#"{{"specversion":"1.0","id":"{}","#, self.id)?;
        out.write_all(&self.rest)?;
        out.write_all(b"\n")
    }
}

/// Collects the lines of one firm. Its draws depend on nothing else.
#[derive(Debug)]
pub(super) struct EventTeller {
    pub(super) random: Random,
    pub(super) firm_id: Uuid,
    pub(super) lines: Vec<EventLine>,
}

impl EventTeller {
    /// Adds one event. The product reports an event as it happens, so the line arrives at its time.
    pub(super) fn tell(
        &mut self,
        kind: &'static str,
        time: EventTime,
        data: impl FnOnce(&mut ObjectWriter<'_>),
    ) {
        let mut whole = Vec::with_capacity(512);
        write_object(&mut whole, |event| {
            event.text("source", "urn:firmforms:generated").text("type", kind);
            event.plain_text("time", time).plain_text("firmid", self.firm_id);
            event.text("datacontenttype", "application/json").object("data", data);
        });
        let rest = whole.split_off(1);
        self.lines.push(EventLine { arrives_at: time, kind, id: self.random.draw_id(), rest });
    }
}
