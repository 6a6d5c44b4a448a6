//! `generate`: activity made up from a seed, for the demo, tests and measurements. It needs no
//! database. It knows nothing of the service but the shape of activities.
//!
//! `firms` tells the lives of firms, members and forms, once for the whole run. `responses` tells
//! one response after another, from its first save to its last report. The `queue` orders their
//! lines by arrival, and the `stream` asks for each response in time. Every draw depends on the
//! seed and on numbers counted here, so equal arguments give equal bytes.

mod aftermath;
mod bookings;
mod event;
mod firms;
mod forms;
mod json;
mod people;
mod queue;
mod random;
mod reports;
mod responses;
mod stream;
mod unruly;
mod words;

use std::fs::File;
use std::io::{self, BufWriter, Write};

use anyhow::{Context, ensure};
use chrono::Datelike;
use clap::{Args, value_parser};
use domain::values::Timestamp;

pub use self::event::EventLine;
use self::stream::EventGenerator;
use crate::args::GenerateArgs;
use crate::output::Output;

/// The range of years leaves space for events before and after.
const UNTIL_YEARS: std::ops::RangeInclusive<i32> = 1_990..=9_900;

const DEFAULT_UNTIL: &str = "2026-11-01T00:00:00Z";
const DEFAULT_WEEKS: u32 = 12;

/// The size, the seed and the period of made-up activity.
#[derive(Debug, Clone, Copy, Args)]
pub struct ActivityArgs {
    /// The number of firms.
    #[arg(long, default_value_t = 3, value_parser = value_parser!(u32).range(1..=100_000))]
    pub firms: u32,
    /// The number of responses, over all firms.
    #[arg(long, default_value_t = 100)]
    pub responses: u64,
    /// The seed: another number gives other activity.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// The time of the last event.
    #[arg(long, default_value = DEFAULT_UNTIL)]
    pub until: Timestamp,
    /// The number of weeks covered.
    #[arg(long, default_value_t = DEFAULT_WEEKS, value_parser = value_parser!(u32).range(1..=520))]
    pub weeks: u32,
}

impl ActivityArgs {
    /// Activity of this size, in the command's default period.
    #[must_use]
    pub fn new(firms: u32, responses: u64, seed: u64) -> Self {
        let until = DEFAULT_UNTIL.parse().expect("a time in RFC 3339");
        Self { firms, responses, seed, until, weeks: DEFAULT_WEEKS }
    }

    /// All activity, in its order of arrival.
    pub fn activity(self) -> impl Iterator<Item = EventLine> {
        EventGenerator::of(self)
    }

    /// Firms, members and forms, from first to last. The firms stay open: the effect of a
    /// suspension or an end depends on the deliveries sent until then.
    pub fn founding(self) -> impl Iterator<Item = EventLine> {
        let lives = Self { responses: 0, ..self }.activity();
        lives.filter(|line| !line.is_about("firm.") || line.is_about("firm.opened"))
    }

    /// Activity after the founding, without erasures. Their effect depends on the deliveries sent
    /// until then, too.
    pub fn responses(self) -> impl Iterator<Item = EventLine> {
        let left_out = ["firm.", "member.", "form.", "response.erased", "person.erased"];
        self.activity().filter(move |line| !left_out.iter().any(|kind| line.is_about(kind)))
    }
}

pub(crate) fn run(generate: &GenerateArgs) -> anyhow::Result<()> {
    let until = generate.made_up.until.get();
    ensure!(UNTIL_YEARS.contains(&until.year()), "--until must lie in the years 1990 to 9900");
    let written = match &generate.out {
        None => write(generate.made_up, Output::new()),
        Some(file) => File::create(file).and_then(|file| write(generate.made_up, file)),
    };
    written.context("writing the activity")
}

fn write(made_up: ActivityArgs, out: impl Write) -> io::Result<()> {
    let mut out = BufWriter::with_capacity(1 << 18, out);
    made_up.activity().try_for_each(|line| line.write(&mut out))?;
    out.flush()
}

#[cfg(test)]
mod tests;
