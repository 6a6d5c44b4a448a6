//! The output of a run: a table for people, and one JSON line for programs.

use serde::Serialize;

use crate::burst::Sent;
use crate::endless::report::Figure;

/// A run.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    bench: &'static str,
    postgres: String,
    burst: Burst,
    /// At rest after deliveries to one receiver, to compare hanging receivers with.
    rest_mib: f64,
    hanging: Vec<Hanging>,
}

/// A burst to ten subscriptions.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct Burst {
    pub(super) ready_mib: f64,
    pub(super) peak_mib: f64,
    #[serde(flatten)]
    pub(super) sent: Sent,
}

/// So many receivers that hang at once.
#[derive(Debug, Serialize)]
pub(super) struct Hanging {
    receivers: usize,
    /// The most that were out at once.
    out: usize,
    /// After as many receivers were delivered to, and before they hang.
    rest_mib: f64,
    peak_mib: f64,
    /// More than a service without them, of each.
    each_kib: f64,
}

impl Hanging {
    pub(super) fn new(receivers: usize, rest_mib: f64, figure: &Figure) -> Self {
        let Figure { out, peak_mib, .. } = *figure;
        let each_kib = (peak_mib - rest_mib) * 1024.0 / out.max(1) as f64;
        Self { receivers, out, rest_mib: figure.rest_mib, peak_mib, each_kib }
    }
}

impl Report {
    pub(super) const fn new(
        postgres: String,
        burst: Burst,
        rest_mib: f64,
        hanging: Vec<Hanging>,
    ) -> Self {
        Self { bench: "memory", postgres, burst, rest_mib, hanging }
    }

    /// The tables, then the line.
    pub(super) fn print(&self) -> serde_json::Result<()> {
        let Burst { ready_mib, peak_mib, sent } = self.burst;
        println!("PostgreSQL {}", self.postgres);
        println!("memory of the service, MiB");
        println!(
            "{} deliveries to 10 subscriptions, {:.0}/s: ready {ready_mib:.1}, peak {peak_mib:.1}",
            sent.deliveries, sent.per_second
        );
        println!("{:<8} {:>6} {:>9} {:>9} {:>9}", "hanging", "out", "at rest", "peak", "KiB each");
        println!("{:<8} {:>6} {:>9.1}", 0, 0, self.rest_mib);
        for of in &self.hanging {
            let Hanging { receivers, out, rest_mib, peak_mib, each_kib } = of;
            println!("{receivers:<8} {out:>6} {rest_mib:>9.1} {peak_mib:>9.1} {each_kib:>9.1}");
        }
        println!("{}", serde_json::to_string(self)?);
        Ok(())
    }
}
