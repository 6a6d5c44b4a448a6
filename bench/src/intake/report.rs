//! The output of a run: a table for people, and one JSON line for programs.

use std::time::Duration;

use anyhow::ensure;
use serde::Serialize;

use super::measured::Measured;
use crate::statements::Statement;

/// A run.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    bench: &'static str,
    figures: Vec<Figure>,
}

/// One number of subscriptions.
#[derive(Debug, Serialize)]
pub(super) struct Figure {
    pub(super) subscriptions: usize,
    pub(super) postgres: String,
    pub(super) rows: Vec<Row>,
}

/// One measurement.
#[derive(Debug, Serialize)]
pub(super) struct Row {
    way: String,
    activities_before: usize,
    activities: usize,
    bytes_each: usize,
    occurrences: usize,
    accepted: usize,
    unchanged: usize,
    seconds: f64,
    per_second: f64,
    /// From the first report until the deliveries of all were queued.
    queued_seconds: f64,
    queued_per_second: f64,
    /// And until they were in the history.
    listed_seconds: f64,
    slowest_batch_ms: f64,
    /// Until all was in the history, as PostgreSQL's is.
    service_cpu_us: f64,
    postgres_cpu_us: f64,
    product_cpu_us: f64,
    peak_mib: f64,
    /// Of all measurements until now: expected less found.
    lost_occurrences: i64,
    lost_deliveries: i64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    statements: Vec<Statement>,
}

impl Row {
    /// `occurrences` were there before.
    pub(super) fn new(measured: &Measured, occurrences: usize, subscriptions: usize) -> Self {
        let (written, reported, cpu) = (measured.written, measured.reported, measured.cpu);
        let count = written.activities as f64;
        let each = |cpu: Duration| cpu.as_secs_f64() * 1e6 / count;
        let expected = (written.heard * subscriptions) as i64;
        let seconds = measured.taken_in_after.as_secs_f64();
        let queued_seconds = measured.queued_after.as_secs_f64();
        Self {
            way: measured.way.name(),
            activities_before: measured.activities_before,
            activities: written.activities,
            bytes_each: written.bytes / written.activities,
            occurrences: written.occurrences - occurrences,
            accepted: reported.accepted,
            unchanged: reported.unchanged,
            seconds,
            per_second: count / seconds,
            queued_seconds,
            queued_per_second: count / queued_seconds,
            listed_seconds: measured.listed_after.as_secs_f64(),
            slowest_batch_ms: reported.slowest.as_secs_f64() * 1e3,
            service_cpu_us: each(cpu.service),
            postgres_cpu_us: each(cpu.postgres),
            product_cpu_us: each(cpu.peer),
            peak_mib: measured.peak_mib,
            lost_occurrences: written.occurrences as i64 - measured.counted.occurrences,
            lost_deliveries: expected - measured.counted.queued.min(measured.counted.listed),
            statements: measured.statements.clone(),
        }
    }

    fn print(&self, subscriptions: usize) {
        println!(
            "{subscriptions:>4}  {:<13} {:>9} {:>8} {:>8.0} {:>8.0} {:>8} {:>8.1} {:>10.1} {:>8.1} \
             {:>5.0} {:>6} {:>5}",
            self.way,
            self.activities_before,
            self.activities,
            self.per_second,
            self.queued_per_second,
            self.occurrences,
            self.service_cpu_us,
            self.postgres_cpu_us,
            self.product_cpu_us,
            self.peak_mib,
            self.unchanged,
            self.lost_occurrences.abs() + self.lost_deliveries.abs(),
        );
        for of in &self.statements {
            let each = of.total_ms * 1e3 / self.activities as f64;
            println!(
                "      {each:>7.1} us an activity {:>6} calls {:>8} rows {:>8} KiB WAL  {}",
                of.calls, of.rows, of.wal_kib, of.text
            );
        }
    }

    fn check(&self) -> anyhow::Result<()> {
        let Self { way, activities, accepted, unchanged, .. } = self;
        let answered = accepted + unchanged;
        ensure!(answered == *activities, "{way}: of {activities}, {answered} were answered for");
        let (occurrences, deliveries) = (self.lost_occurrences, self.lost_deliveries);
        ensure!(occurrences == 0, "{way}: {occurrences} occurrences were lost");
        ensure!(deliveries == 0, "{way}: {deliveries} deliveries were lost");
        Ok(())
    }
}

impl Report {
    pub(super) const fn new(figures: Vec<Figure>) -> Self {
        Self { bench: "intake", figures }
    }

    /// The table, then the line.
    pub(super) fn print(&self) -> serde_json::Result<()> {
        if let Some(figure) = self.figures.first() {
            println!("PostgreSQL {}; deliveries are queued and not sent", figure.postgres);
        }
        println!("{:>45} {:>17} {:>37}", "", "activities a second", "CPU us an activity");
        println!(
            "subs  {:<13} {:>9} {:>8} {:>8} {:>8} {:>8} {:>8} {:>10} {:>8} {:>5} {:>6} {:>5}",
            "",
            "there",
            "more",
            "in",
            "queued",
            "occurred",
            "service",
            "PostgreSQL",
            "product",
            "MiB",
            "known",
            "lost"
        );
        for figure in &self.figures {
            figure.rows.iter().for_each(|row| row.print(figure.subscriptions));
        }
        println!("{}", serde_json::to_string(self)?);
        Ok(())
    }

    /// Whether everything that was reported is there.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        self.figures.iter().flat_map(|figure| &figure.rows).try_for_each(Row::check)
    }
}
