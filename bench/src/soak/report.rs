//! The output of a run: a row for each minute when it ends, and one JSON line for programs.

use anyhow::ensure;
use serde::Serialize;

use super::sample::{Grown, Held};
use crate::latency::Latency;
use crate::usage::CpuEach;

/// A run.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    bench: &'static str,
    postgres: String,
    highest_per_second: f64,
    rate: f64,
    minutes: Vec<Minute>,
    lost: usize,
    twice: usize,
    drifts: Vec<String>,
}

/// A minute.
#[derive(Debug, Serialize)]
pub(super) struct Minute {
    pub(super) number: u32,
    /// Deliveries that arrived.
    pub(super) per_second: f64,
    /// From due to arrived.
    pub(super) latency: Latency,
    /// From due to reported, which is in it.
    pub(super) reported_late: Latency,
    #[serde(flatten)]
    pub(super) cpu: CpuEach,
    pub(super) resident_mib: f64,
    /// By each delivery.
    pub(super) grown: Grown,
    pub(super) held: Vec<Held>,
}

impl Minute {
    /// The heads of the columns.
    pub(super) fn head() {
        println!(
            "{:>6} {:>8} {:>8} {:>8} {:>8} {:>8} {:>10} {:>7} {:>8} {:>8} {:>8} {:>8}  rows and KiB",
            "minute",
            "per s",
            "p50 ms",
            "p99 ms",
            "max ms",
            "service",
            "PostgreSQL",
            "MiB",
            "log B",
            "history",
            "all B",
            "WAL B"
        );
    }

    pub(super) fn print(&self) {
        let ms = |us: u64| us as f64 / 1e3;
        let held: Vec<String> = self.held.iter().map(Held::said).collect();
        println!(
            "{:>6} {:>8.1} {:>8.1} {:>8.1} {:>8.1} {:>8.0} {:>10.0} {:>7.1} {:>8.0} {:>8.0} {:>8.0} {:>8.0}  {}",
            self.number,
            self.per_second,
            ms(self.latency.p50_us),
            ms(self.latency.p99_us),
            ms(self.latency.max_us),
            self.cpu.service_cpu_us,
            self.cpu.postgres_cpu_us,
            self.resident_mib,
            self.grown.log_bytes,
            self.grown.history_bytes,
            self.grown.database_bytes,
            self.grown.wal_bytes,
            held.join(", "),
        );
    }
}

impl Held {
    fn said(&self) -> String {
        format!("{} {} {}", self.name, self.rows, self.bytes / 1024)
    }
}

impl Report {
    pub(super) const fn new(
        postgres: String,
        (highest_per_second, rate): (f64, f64),
        minutes: Vec<Minute>,
        (lost, twice): (usize, usize),
        drifts: Vec<String>,
    ) -> Self {
        let bench = "soak";
        Self { bench, postgres, highest_per_second, rate, minutes, lost, twice, drifts }
    }

    /// The summary of the minutes, then the line.
    pub(super) fn print(&self) -> serde_json::Result<()> {
        println!("{} lost, {} twice, {} drifts", self.lost, self.twice, self.drifts.len());
        for drift in &self.drifts {
            println!("DRIFTED {drift}");
        }
        println!("{}", serde_json::to_string(self)?);
        Ok(())
    }

    /// Whether everything arrived once, and nothing drifted.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        let Self { lost, twice, drifts, .. } = self;
        ensure!(*lost == 0 && *twice == 0, "{lost} were lost, {twice} came twice");
        ensure!(drifts.is_empty(), "it drifted: {}", drifts.join("; "));
        Ok(())
    }
}
