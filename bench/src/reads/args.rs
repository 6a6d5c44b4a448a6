//! The options of `reads`.

use std::path::PathBuf;

use clap::Args;

use super::rings;

/// The most calls a second that there are keys for where a firm has one key to call with. A run
/// that is faster ends when the keys have no more calls.
const CALLS_PER_SECOND: u32 = 10_000;

/// Before each door is measured: its connections to the database, its pages and its code are warm.
pub(super) const WARM_UP_SECONDS: u32 = 1;

/// Options of `reads`.
#[derive(Debug, Args)]
pub(crate) struct Reads {
    /// How long the service is called, once as fast as it answers and once at the rate.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=20))]
    pub(super) seconds: u32,
    /// Connections that are kept, with one call at a time on each.
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=512))]
    pub(super) connections: u16,
    /// Calls a second when the latency is measured.
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(super) rate: u32,
    /// The run gives up after so many seconds.
    #[arg(long, default_value_t = 120, value_parser = clap::value_parser!(u64).range(1..=600))]
    pub(super) within: u64,
    /// Also show the cost of PostgreSQL's statements; this has a price of its own.
    #[arg(long)]
    pub(super) statements: bool,
    /// The folder of PostgreSQL's programs, if they are not where they usually are.
    #[arg(long, env = "FIRMFORMS_PG_BIN")]
    pub(super) pg_bin: Option<PathBuf>,
}

impl Reads {
    /// So many that the firms' first keys are enough for a measurement at the highest speed.
    pub(super) fn firms(&self) -> u32 {
        let seconds = self.seconds + WARM_UP_SECONDS;
        let calls = seconds * CALLS_PER_SECOND + self.seconds * self.rate;
        calls.div_ceil(rings::CALLS as u32)
    }
}
