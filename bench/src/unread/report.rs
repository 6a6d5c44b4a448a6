//! The report of a run: a table for people, one JSON line for programs.

use serde::Serialize;
use sqlx::FromRow;

use super::Case;
use super::good_calls::GoodCalls;

/// A run.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    bench: &'static str,
    postgres: String,
    figures: Vec<Figure>,
}

/// One case.
#[derive(Debug, Serialize)]
pub(super) struct Figure {
    pub(super) case: Case,
    /// How often a bad caller opened a socket.
    pub(super) opened: usize,
    pub(super) alone: Vec<GoodCalls>,
    pub(super) arriving: Vec<GoodCalls>,
    pub(super) beside: Vec<GoodCalls>,
    pub(super) deliveries: DeliveryTries,
    /// The doors' refusals and shortages, as the service counted them.
    pub(super) refusals: Vec<String>,
}

/// The deliveries beside the bad callers.
#[derive(Debug, Serialize, FromRow)]
pub(super) struct DeliveryTries {
    /// Delivered at the first try.
    pub(super) first: i64,
    pub(super) delivered: i64,
    pub(super) tries: i64,
}

impl Report {
    pub(super) const fn new(postgres: String, figures: Vec<Figure>) -> Self {
        Self { bench: "unread", postgres, figures }
    }

    /// The line; each case has printed its table.
    pub(super) fn print(&self) -> anyhow::Result<()> {
        println!("{}", serde_json::to_string(self)?);
        Ok(())
    }
}

impl Figure {
    pub(super) fn print(&self) {
        let Case { sockets, addresses, descriptors, reading } = self.case;
        let descriptors = descriptors.map_or("all".to_owned(), |count| count.to_string());
        println!(
            "{sockets} sockets from {addresses} addresses, read {reading:?}, {descriptors} \
             descriptors; opened {} times",
            self.opened
        );
        println!(
            "{:<16} {:>6} {:>7} {:>10} {:>10} {:>10} {:>6}",
            "p99 in ms", "calls", "failed", "alone", "arriving", "beside", "ratio"
        );
        let phases = self.alone.iter().zip(&self.arriving).zip(&self.beside);
        for ((alone, arriving), beside) in phases {
            let phases = [alone, arriving, beside];
            let calls: usize = phases.iter().map(|phase| phase.calls).sum();
            let failed: usize = phases.iter().map(|phase| phase.failed).sum();
            let [alone, arriving, then] = phases.map(|phase| phase.latency.p99_us as f64 / 1e3);
            println!(
                "{:<16} {calls:>6} {failed:>7} {alone:>10.2} {arriving:>10.2} {then:>10.2} {:>6.2}",
                beside.target,
                then / alone
            );
            for why in phases.iter().filter_map(|phase| phase.why.as_ref()) {
                println!("    failed: {why}");
            }
        }
        for refusals in &self.refusals {
            println!("{refusals}");
        }
        let DeliveryTries { first, delivered, tries } = self.deliveries;
        println!("{first} of {delivered} deliveries at their first try, {tries} tries\n");
    }
}
