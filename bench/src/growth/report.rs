//! The output of a run: a table for people, row by row as they come, and one JSON line for
//! programs.

use serde::Serialize;

use super::axis::Axis;
use crate::burst::Sent;

/// A run.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    bench: &'static str,
    postgres: String,
    rows: Vec<Row>,
}

/// A point of a curve.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Row {
    axis: Axis,
    /// The quantity at this point of the curve.
    value: usize,
    #[serde(flatten)]
    there_is: ThereIs,
    #[serde(flatten)]
    there: Sent,
    /// On an empty database, at the same time.
    empty: Sent,
    /// Of rates.
    ratio: f64,
    /// Of the CPU of service and PostgreSQL.
    cpu_ratio: f64,
}

/// The content of the database before the bursts.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct ThereIs {
    pub(super) events: i64,
    /// By each event, with indexes.
    pub(super) log_bytes_each: f64,
    /// By each event, all that is in the main database.
    pub(super) database_bytes_each: f64,
    pub(super) subscriptions: usize,
    pub(super) firms: usize,
}

impl Row {
    pub(super) fn new(
        (axis, value): (Axis, usize),
        there_is: ThereIs,
        (there, empty): (Sent, Sent),
    ) -> Self {
        let ratio = there.per_second / empty.per_second;
        let cpu_ratio = there.cpu.both_us() / empty.cpu.both_us();
        Self { axis, value, there_is, there, empty, ratio, cpu_ratio }
    }

    pub(super) fn print(&self) {
        let axis = format!("{:?}", self.axis).to_lowercase();
        println!(
            "{axis:<14} {:>9} {:>9} {:>7} {:>9.0} {:>9.0} {:>6.1}% {:>8.0} {:>10.0} {:>9.0} {:>6.2} {:>7.0} {:>7.0} {:>7.0}",
            self.there_is.events,
            self.there_is.subscriptions,
            self.there_is.firms,
            self.there.per_second,
            self.empty.per_second,
            self.ratio * 100.0,
            self.there.cpu.service_cpu_us,
            self.there.cpu.postgres_cpu_us,
            self.empty.cpu.both_us(),
            self.cpu_ratio,
            self.there_is.log_bytes_each,
            self.there_is.database_bytes_each,
            self.there.wal_bytes,
        );
    }
}

impl Report {
    pub(super) const fn new(postgres: String, rows: Vec<Row>) -> Self {
        Self { bench: "growth", postgres, rows }
    }

    /// The heads of the columns.
    pub(super) fn head(postgres: &str) {
        println!("PostgreSQL {postgres}");
        println!(
            "{:<14} {:>9} {:>9} {:>7} {:>9} {:>9} {:>7} {:>8} {:>10} {:>9} {:>6} {:>7} {:>7} {:>7}",
            "grows",
            "events",
            "subs",
            "firms",
            "per s",
            "empty",
            "of it",
            "service",
            "PostgreSQL",
            "empty",
            "times",
            "log",
            "all",
            "WAL"
        );
        println!("{:>100} {:>17} {:>7}", "CPU us each", "bytes an event", "each");
    }

    /// The line after the table.
    pub(super) fn print(&self) -> serde_json::Result<()> {
        println!("{}", serde_json::to_string(self)?);
        Ok(())
    }
}
