//! The output of a run: a table for people, and one JSON line for programs.

use anyhow::ensure;
use serde::Serialize;

use crate::latency::Latency;
use crate::usage::CpuEach;

/// All runs.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    bench: &'static str,
    postgres: String,
    rate: u32,
    firms: u8,
    runs: Vec<Row>,
    /// Of the runs, the middle one by its 99th centile.
    middle: Row,
}

/// One run.
#[derive(Debug, Clone, Default, Serialize)]
pub(super) struct Row {
    pub(super) events: usize,
    /// From due to arrived.
    pub(super) latency: Latency,
    /// From due to reported, which is in it.
    pub(super) reported_late: Latency,
    pub(super) lost: usize,
    pub(super) twice: usize,
    #[serde(flatten)]
    pub(super) cpu: CpuEach,
    pub(super) peak_mib: f64,
}

impl Row {
    fn print(&self, name: &str) {
        let ms = |us: u64| us as f64 / 1e3;
        let Latency { p50_us, p90_us, p99_us, p999_us, max_us, .. } = self.latency;
        println!(
            "{name:<7} {:>7} {:>7.1} {:>7.1} {:>7.1} {:>7.1} {:>7.1} {:>9.1} {:>5} {:>5} {:>8.0} {:>10.0} {:>6.0} {:>6.0}",
            self.events,
            ms(p50_us),
            ms(p90_us),
            ms(p99_us),
            ms(p999_us),
            ms(max_us),
            ms(self.reported_late.p50_us),
            self.lost,
            self.twice,
            self.cpu.service_cpu_us,
            self.cpu.postgres_cpu_us,
            self.cpu.peer_cpu_us,
            self.peak_mib,
        );
    }
}

impl Report {
    pub(super) fn new((rate, firms): (u32, u8), postgres: String, runs: Vec<Row>) -> Self {
        let mut sorted = runs.clone();
        sorted.sort_by_key(|row| row.latency.p99_us);
        let middle = sorted.get(sorted.len() / 2).cloned().unwrap_or_default();
        Self { bench: "latency", postgres, rate, firms, runs, middle }
    }

    /// The table, then the line.
    pub(super) fn print(&self) -> serde_json::Result<()> {
        println!("PostgreSQL {}", self.postgres);
        println!("{} events a second, of {} firms, a call each", self.rate, self.firms);
        println!("{:>55} {:>9} {:>38}", "due to arrived, ms", "reported", "CPU us each");
        println!(
            "{:<7} {:>7} {:>7} {:>7} {:>7} {:>7} {:>7} {:>9} {:>5} {:>5} {:>8} {:>10} {:>6} {:>6}",
            "run",
            "events",
            "p50",
            "p90",
            "p99",
            "p99.9",
            "max",
            "p50 late",
            "lost",
            "twice",
            "service",
            "PostgreSQL",
            "bench",
            "MiB"
        );
        for (number, row) in self.runs.iter().enumerate() {
            row.print(&(number + 1).to_string());
        }
        self.middle.print("middle");
        println!("{}", serde_json::to_string(self)?);
        Ok(())
    }

    /// Whether everything arrived once.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        for Row { lost, twice, .. } in &self.runs {
            ensure!(*lost == 0 && *twice == 0, "{lost} were lost, {twice} came twice");
        }
        Ok(())
    }
}
