//! Activity made up from a seed, for the command `generate`, the demo, tests and measurements. It
//! needs no database. It knows nothing of the service but the shape of activities.
//!
//! `firms` tells the lives of firms, members and forms, once for the whole run. A `story` tells one
//! response, from its first save to its last report. The `queue` orders their lines by arrival, and
//! the `stream` asks for each response in time. Every draw depends on the seed and on numbers
//! counted here, so equal settings give equal bytes.
//!
//! `expected` computes the deliveries that must follow.

mod aftermath;
mod bookings;
mod event;
mod expected;
mod firms;
mod forms;
mod json;
mod life;
mod people;
mod period;
mod queue;
mod random;
mod reports;
mod responses;
mod story;
mod stream;
mod unruly;
mod words;

use std::io::{self, BufWriter, Write};

use domain::values::Timestamp;

pub use self::event::EventLine;
pub use self::expected::{ExpectedFirm, ExpectedOccurrence, ExpectedState, is_founding};
use self::period::RunPeriod;
use self::stream::EventGenerator;

/// The time of the last event, if no other is asked for.
pub const DEFAULT_UNTIL: &str = "2026-11-01T00:00:00Z";

/// The number of weeks covered, if no other is asked for.
pub const DEFAULT_WEEKS: u32 = 12;

/// The size, the seed and the period of made-up activity.
#[derive(Debug, Clone, Copy)]
pub struct MadeUpActivity {
    /// The number of firms.
    pub firms: u32,
    /// The number of responses, over all firms.
    pub responses: u64,
    /// The seed: another number gives other activity.
    pub seed: u64,
    /// The time of the last event.
    pub until: Timestamp,
    /// The number of weeks covered.
    pub weeks: u32,
}

impl MadeUpActivity {
    /// Activity of this size, in the default period.
    #[must_use]
    pub fn new(firms: u32, responses: u64, seed: u64) -> Self {
        let until = DEFAULT_UNTIL.parse().expect("a time in RFC 3339");
        Self { firms, responses, seed, until, weeks: DEFAULT_WEEKS }
    }

    /// All activity, in its order of arrival.
    pub fn all_lines(self) -> impl Iterator<Item = EventLine> {
        let span = RunPeriod::of_weeks(self.weeks, self.until);
        EventGenerator::new(self.seed, self.firms, self.responses, span)
    }

    /// Firms, members and forms, from first to last. The firms stay open: the effect of a
    /// suspension or an end depends on the deliveries sent until then.
    pub fn founding_lines(self) -> impl Iterator<Item = EventLine> {
        let lives = Self { responses: 0, ..self }.all_lines();
        lives.filter(|line| !line.is_about("firm.") || line.is_about("firm.opened"))
    }

    /// Activity after the founding, without erasures. Their effect depends on the deliveries sent
    /// until then, too.
    pub fn response_lines(self) -> impl Iterator<Item = EventLine> {
        let left_out = ["firm.", "member.", "form.", "response.erased", "person.erased"];
        self.all_lines().filter(move |line| !left_out.iter().any(|kind| line.is_about(kind)))
    }

    /// Writes all activity as lines.
    ///
    /// # Errors
    ///
    /// If `out` cannot be written to.
    pub fn write_lines(self, out: impl Write) -> io::Result<()> {
        let mut out = BufWriter::with_capacity(1 << 18, out);
        self.all_lines().try_for_each(|line| line.write(&mut out))?;
        out.flush()
    }
}

#[cfg(test)]
mod tests;
