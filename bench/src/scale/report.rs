//! The output of a run: a table for people, and one JSON line for programs.

use serde::Serialize;

use crate::burst::Sent;

/// A run.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    bench: &'static str,
    postgres: String,
    rows: Vec<Row>,
}

/// So many processes.
#[derive(Debug, Serialize)]
pub(super) struct Row {
    /// Of each role; none is one process that does everything.
    pub(super) processes: u8,
    pub(super) answer_after_ms: u32,
    #[serde(flatten)]
    pub(super) sent: Sent,
    /// Of all processes together.
    pub(super) peak_mib: f64,
}

impl Row {
    fn print(&self) {
        let name = match self.processes {
            0 => "one process".to_owned(),
            each => format!("{each} of each role"),
        };
        println!(
            "{name:<16} {:>10} {:>10} {:>9.0} {:>9.0} {:>10.0} {:>6} {:>6} {:>6} {:>7.0}",
            self.answer_after_ms,
            self.sent.deliveries,
            self.sent.per_second,
            self.sent.cpu.service_cpu_us,
            self.sent.cpu.postgres_cpu_us,
            self.sent.host_out_max,
            self.sent.lost,
            self.sent.twice,
            self.peak_mib,
        );
    }
}

impl Report {
    pub(super) const fn new(postgres: String, rows: Vec<Row>) -> Self {
        Self { bench: "scale", postgres, rows }
    }

    /// The table, then the line.
    pub(super) fn print(&self) -> serde_json::Result<()> {
        println!("PostgreSQL {}", self.postgres);
        println!("{:>38} {:>18} {:>13}", "", "CPU us each", "at a host");
        println!(
            "{:<16} {:>10} {:>10} {:>9} {:>9} {:>10} {:>6} {:>6} {:>6} {:>7}",
            "processes",
            "answer ms",
            "deliveries",
            "per s",
            "service",
            "PostgreSQL",
            "out",
            "lost",
            "twice",
            "MiB"
        );
        self.rows.iter().for_each(Row::print);
        println!("{}", serde_json::to_string(self)?);
        Ok(())
    }
}
