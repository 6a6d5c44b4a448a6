//! `generate`: product activity made up from a seed, for tests, drills and measurements. It needs no
//! database, and it knows nothing of the service but the form its reports take.
//!
//! The cast: [`firms`] tells how firms, their members and their forms come and change, once for the
//! whole run; [`responses`] tells of one response after the other, from its first save to its last
//! report; the [`queue`] puts what they tell into the order it comes in. Everything is drawn from
//! the seed and from numbers counted here: the same arguments give the same bytes.

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
mod unruly;
mod words;

use std::fs::File;
use std::io::{self, BufWriter, ErrorKind, Write, stdout};

use anyhow::{Context, ensure};
use chrono::Datelike;

use self::event::{DAY, Time};
use self::queue::Queue;
use self::random::Random;
use crate::args::Generate;

/// Years that leave room for what happens before and after.
const YEARS: std::ops::RangeInclusive<i32> = 1_990..=9_900;

/// Beginnings draw from rows of their own.
const BEGINNINGS: u64 = 3;

pub(crate) fn run(generate: &Generate) -> anyhow::Result<()> {
    let until = generate.until.get();
    ensure!(YEARS.contains(&until.year()), "--until must lie in the years 1990 to 9900");
    let written = match &generate.out {
        None => write(generate, stdout().lock()),
        Some(file) => File::create(file).and_then(|file| write(generate, file)),
    };
    match written {
        // Whoever read it has seen enough.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        written => written.context("writing the activity"),
    }
}

/// The time a run covers: firms open in its first eighth, then responses come in.
#[derive(Debug, Clone, Copy)]
struct Span {
    from: Time,
    settled: Time,
    until: Time,
}

impl Span {
    fn of(generate: &Generate) -> Self {
        let until = Time(generate.until.get().timestamp_millis());
        let length = i64::from(generate.weeks) * 7 * DAY;
        Self { from: until.after(-length), settled: until.after(-length / 8 * 7), until }
    }

    /// How long the service is in use.
    const fn length(self) -> i64 {
        self.until.0 - self.settled.0
    }

    /// The time at which this part of the whole has passed.
    fn part(self, number: u64, of: u64) -> Time {
        let passed = i128::from(self.length()) * i128::from(number) / i128::from(of.max(1));
        self.settled.after(i64::try_from(passed).unwrap_or_default())
    }

    /// When a response begins: somewhere in its share of the time, so that they come in order.
    fn begins(self, number: u64, generate: &Generate) -> Time {
        let [from, to] = [number, number + 1].map(|number| self.part(number, generate.responses));
        Time(Random::of(generate.seed, BEGINNINGS, number).between(from.0, to.0))
    }
}

/// Writes the whole run. Lines that a response needs are out before it is told.
fn write(generate: &Generate, out: impl Write) -> io::Result<()> {
    let (span, seed) = (Span::of(generate), generate.seed);
    let mut out = BufWriter::with_capacity(1 << 18, out);
    let mut queue = Queue::default();
    let (firms, lives) = firms::all(seed, generate.firms, span);
    let mut lives = lives.into_iter().filter(|line| line.position <= span.until).peekable();
    for number in 0..generate.responses {
        let begins = span.begins(number, generate);
        while let Some(line) = lives.next_if(|line| line.position <= begins) {
            queue.push(line);
        }
        queue.write_due(begins, &mut out)?;
        let told = responses::tell(seed, number, begins, &firms);
        told.into_iter().filter(|line| line.position <= span.until).for_each(|line| {
            queue.push(line);
        });
    }
    lives.for_each(|line| queue.push(line));
    queue.write_all(&mut out)?;
    out.flush()
}

#[cfg(test)]
mod tests;
