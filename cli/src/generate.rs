//! `generate`: prints activity that is made up from a seed.

use std::fs::File;
use std::ops::RangeInclusive;
use std::path::PathBuf;

use activity::{DEFAULT_UNTIL, DEFAULT_WEEKS, MadeUpActivity};
use anyhow::{Context, ensure};
use chrono::Datelike;
use clap::{Args, value_parser};
use domain::values::Timestamp;

use crate::output::Output;

/// The range of years leaves space for events before and after.
const UNTIL_YEARS: RangeInclusive<i32> = 1_990..=9_900;

/// The arguments of `generate`.
#[derive(Debug, Args)]
pub(crate) struct GenerateArgs {
    #[command(flatten)]
    made_up: ActivityArgs,
    /// The file to write; by default standard output.
    #[arg(long)]
    out: Option<PathBuf>,
}

/// The size, the seed and the period of made-up activity.
#[derive(Debug, Clone, Copy, Args)]
struct ActivityArgs {
    /// The number of firms.
    #[arg(long, default_value_t = 3, value_parser = value_parser!(u32).range(1..=100_000))]
    firms: u32,
    /// The number of responses, over all firms.
    #[arg(long, default_value_t = 100)]
    responses: u64,
    /// The seed: another number gives other activity.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The time of the last event.
    #[arg(long, default_value = DEFAULT_UNTIL)]
    until: Timestamp,
    /// The number of weeks covered.
    #[arg(long, default_value_t = DEFAULT_WEEKS, value_parser = value_parser!(u32).range(1..=520))]
    weeks: u32,
}

impl From<ActivityArgs> for MadeUpActivity {
    fn from(ActivityArgs { firms, responses, seed, until, weeks }: ActivityArgs) -> Self {
        Self { firms, responses, seed, until, weeks }
    }
}

pub(crate) fn run(generate: &GenerateArgs) -> anyhow::Result<()> {
    let made_up = MadeUpActivity::from(generate.made_up);
    let until = made_up.until.get();
    ensure!(UNTIL_YEARS.contains(&until.year()), "--until must lie in the years 1990 to 9900");
    let written = match &generate.out {
        None => made_up.write_lines(Output::new()),
        Some(file) => File::create(file).and_then(|file| made_up.write_lines(file)),
    };
    written.context("writing the activity")
}
