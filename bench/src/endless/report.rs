//! The output of a run: a table for people, and one JSON line for programs.

use serde::Serialize;
use sqlx::FromRow;

use crate::hosts::Manner;

/// A run.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    bench: &'static str,
    postgres: String,
    receivers: u16,
    figures: Vec<Figure>,
}

/// Receivers of one manner.
#[derive(Debug, Serialize)]
pub(crate) struct Figure {
    pub(crate) manner: Manner,
    /// The most that were out at once.
    pub(crate) out: usize,
    pub(crate) rest_mib: f64,
    /// While so many were out.
    pub(crate) out_mib: f64,
    pub(crate) peak_mib: f64,
    pub(crate) outcomes: Vec<Outcome>,
}

/// An outcome, and the number of tries with it.
#[derive(Debug, Serialize, FromRow)]
pub(crate) struct Outcome {
    outcome: String,
    answer: Option<String>,
    tries: i64,
    longest_seconds: f64,
}

impl Figure {
    fn print(&self) {
        let each_kib = (self.peak_mib - self.rest_mib) * 1024.0 / self.out.max(1) as f64;
        println!(
            "{:<8} {:>6} {:>9.1} {:>9.1} {:>9.1} {:>9.1}",
            format!("{:?}", self.manner).to_lowercase(),
            self.out,
            self.rest_mib,
            self.out_mib,
            self.peak_mib,
            each_kib,
        );
        for Outcome { outcome, answer, tries, longest_seconds } in &self.outcomes {
            let answer = answer.as_deref().unwrap_or("-");
            println!("         {tries:>6} {outcome}, {answer}; the longest {longest_seconds:.1} s");
        }
    }
}

impl Report {
    pub(super) const fn new(receivers: u16, postgres: String, figures: Vec<Figure>) -> Self {
        Self { bench: "endless", postgres, receivers, figures }
    }

    /// The table, then the line.
    pub(super) fn print(&self) -> serde_json::Result<()> {
        println!("PostgreSQL {}", self.postgres);
        println!("{} receivers; memory of the service, MiB", self.receivers);
        println!(
            "{:<8} {:>6} {:>9} {:>9} {:>9} {:>9}",
            "answer", "out", "at rest", "then", "peak", "KiB each"
        );
        self.figures.iter().for_each(Figure::print);
        println!("{}", serde_json::to_string(self)?);
        Ok(())
    }
}
