//! What a run says: a table for people, one JSON line for whatever reads it.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::time::Instant;

use anyhow::ensure;
use serde::Serialize;
use uuid::Uuid;

use crate::latency::Latency;
use crate::statements::Statement;

/// A run.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    bench: &'static str,
    postgres: String,
    rate: u32,
    seconds: u64,
    phases: Vec<Phase>,
}

/// What the measured firms got.
#[derive(Debug, Default, Serialize)]
pub(super) struct Phase {
    pub(super) name: &'static str,
    events: usize,
    latency: Latency,
    /// Of the 99th centiles, to that of the first phase.
    ratio: f64,
    /// Not there a second after the last was due.
    pub(super) late: usize,
    lost: usize,
    twice: usize,
    /// Tries of the others that were out at a time.
    hog_out_median: usize,
    hog_out_max: usize,
    /// Deliveries of theirs that were not at their end after the phase.
    pub(super) hog_waiting: i64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) statements: Vec<Statement>,
}

impl Phase {
    pub(super) fn named(name: &'static str) -> Self {
        Self { name, ..Self::default() }
    }

    pub(super) fn set_out(&mut self, mut out: Vec<usize>) {
        out.sort_unstable();
        self.hog_out_median = out.get(out.len() / 2).copied().unwrap_or_default();
        self.hog_out_max = out.last().copied().unwrap_or_default();
    }

    /// When deliveries were due, and when they came.
    pub(super) fn set_arrivals(
        &mut self,
        due: &HashMap<Uuid, Instant>,
        arrivals: &[(Uuid, Instant)],
    ) -> anyhow::Result<()> {
        let mut took = HashMap::new();
        for (delivery_id, arrived) in arrivals {
            if let Some(due) = due.get(delivery_id) {
                let us = u64::try_from(arrived.saturating_duration_since(*due).as_micros())?;
                match took.entry(*delivery_id) {
                    Entry::Vacant(first) => drop(first.insert(us)),
                    Entry::Occupied(_) => self.twice += 1,
                }
            }
        }
        self.events = due.len();
        self.lost = due.len() - took.len();
        self.latency = Latency::of(took.into_values().collect());
        Ok(())
    }

    fn print(&self) {
        let ms = |us: u64| us as f64 / 1e3;
        println!(
            "{:<22} {:>6} {:>8.1} {:>8.1} {:>8.1} {:>8.1} {:>6.2} {:>5} {:>5} {:>5} {:>7} {:>7} {:>8}",
            self.name,
            self.events,
            ms(self.latency.p50_us),
            ms(self.latency.p95_us),
            ms(self.latency.p99_us),
            ms(self.latency.max_us),
            self.ratio,
            self.late,
            self.lost,
            self.twice,
            self.hog_out_median,
            self.hog_out_max,
            self.hog_waiting,
        );
        for of in &self.statements {
            println!(
                "      {:>8.1} ms {:>6} calls {:>7} rows  {}",
                of.total_ms, of.calls, of.rows, of.text
            );
        }
    }
}

impl Report {
    pub(super) fn new(rate: u32, seconds: u64, postgres: String, mut phases: Vec<Phase>) -> Self {
        let alone = phases.first().map_or(1, |phase| phase.latency.p99_us.max(1));
        for phase in &mut phases {
            phase.ratio = phase.latency.p99_us as f64 / alone as f64;
        }
        Self { bench: "fairness", postgres, rate, seconds, phases }
    }

    /// The table, then the line.
    pub(super) fn print(&self) -> serde_json::Result<()> {
        println!("PostgreSQL {}", self.postgres);
        println!("{} events a second, {} s each", self.rate, self.seconds);
        println!("{:>51} {:>46}", "due to arrival, ms", "of the black holes");
        println!(
            "{:<22} {:>6} {:>8} {:>8} {:>8} {:>8} {:>6} {:>5} {:>5} {:>5} {:>7} {:>7} {:>8}",
            "beside",
            "events",
            "p50",
            "p95",
            "p99",
            "max",
            "ratio",
            "late",
            "lost",
            "twice",
            "out",
            "most",
            "waiting"
        );
        self.phases.iter().for_each(Phase::print);
        println!("{}", serde_json::to_string(self)?);
        Ok(())
    }

    /// Whether everything arrived once.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        for Phase { name, lost, twice, .. } in &self.phases {
            ensure!(*lost == 0 && *twice == 0, "{name}: {lost} were lost, {twice} came twice");
        }
        Ok(())
    }
}
