//! The output of a run: a table for people, and one JSON line for programs.

use anyhow::ensure;
use projector::rebuild::RebuildReport;
use serde::Serialize;

use crate::latency::Latency;

/// A run.
#[derive(Debug, Serialize)]
pub(super) struct Summary {
    pub(super) bench: &'static str,
    pub(super) events: i64,
    pub(super) rate: u32,
    pub(super) postgres: String,
    /// How long it took to append the log.
    pub(super) filled_seconds: f64,
    /// How long the followers took to come to its end.
    pub(super) followed_seconds: f64,
    pub(super) rows: Vec<Row>,
    /// All of them together, from one reading of the log.
    pub(super) all_seconds: f64,
    pub(super) traffic: Vec<Traffic>,
    pub(super) quiet: Quiet,
}

/// A read model that was made anew.
#[derive(Debug, Serialize)]
pub(super) struct Row {
    model: &'static str,
    /// The number of others rebuilt with it. The log is then read for all of them, and `seconds`
    /// does not include the reading.
    together: usize,
    rows: i64,
    events: u64,
    seconds: f64,
    events_per_second: f64,
    held_ms: f64,
    equal: bool,
    pub(super) digest: String,
}

/// Traffic from due to arrived.
#[derive(Debug, Serialize)]
pub(super) struct Traffic {
    during: &'static str,
    responses: usize,
    latency: Latency,
    lost: usize,
    twice: u64,
}

/// Two rebuilds of everything when nothing happens.
#[derive(Debug, Serialize)]
pub(super) struct Quiet {
    pub(super) seconds: f64,
    pub(super) same_digests: bool,
}

impl Row {
    pub(super) fn new(report: &RebuildReport, seconds: Option<f64>, together: usize) -> Self {
        let seconds = seconds.unwrap_or(report.took.as_secs_f64());
        Self {
            model: report.model.name(),
            together,
            rows: report.digest.rows,
            events: report.events,
            seconds,
            events_per_second: report.events as f64 / seconds,
            held_ms: report.held.as_secs_f64() * 1e3,
            equal: report.difference.is_none(),
            digest: report.digest.hex(),
        }
    }

    fn print(&self) {
        println!(
            "{:<12} {:>3} {:>9} {:>9} {:>8.2} {:>9.0} {:>8.1} {:>6}  {}",
            self.model,
            self.together,
            self.rows,
            self.events,
            self.seconds,
            self.events_per_second,
            self.held_ms,
            self.equal,
            self.digest,
        );
    }
}

impl Traffic {
    pub(super) fn new(during: &'static str, us: Vec<u64>, (lost, twice): (usize, u64)) -> Self {
        Self { during, responses: us.len() + lost, latency: Latency::new(us), lost, twice }
    }

    fn print(&self) {
        let ms = |us: u64| us as f64 / 1e3;
        println!(
            "{:<12} {:>9} {:>8.1} {:>8.1} {:>8.1} {:>8.1} {:>5} {:>5}",
            self.during,
            self.responses,
            ms(self.latency.p50_us),
            ms(self.latency.p95_us),
            ms(self.latency.p99_us),
            ms(self.latency.max_us),
            self.lost,
            self.twice,
        );
    }
}

impl Summary {
    /// The tables, then the line.
    pub(super) fn print(&self) -> serde_json::Result<()> {
        println!(
            "{} events, appended in {:.1} s, followed in {:.1} s; {} responses a second; PostgreSQL {}",
            self.events, self.filled_seconds, self.followed_seconds, self.rate, self.postgres
        );
        println!(
            "{:<12} {:>3} {:>9} {:>9} {:>8} {:>9} {:>8} {:>6}  digest",
            "model", "of", "rows", "events", "s", "events/s", "held ms", "equal"
        );
        self.rows.iter().for_each(Row::print);
        println!(
            "all together {:.1} s beside traffic, {:.1} s without; twice the same digests: {}",
            self.all_seconds, self.quiet.seconds, self.quiet.same_digests
        );
        println!(
            "{:<12} {:>9} {:>8} {:>8} {:>8} {:>8} {:>5} {:>5}   from due to arrived",
            "traffic", "responses", "p50 ms", "p95 ms", "p99 ms", "max ms", "lost", "twice"
        );
        self.traffic.iter().for_each(Traffic::print);
        println!("{}", serde_json::to_string(self)?);
        Ok(())
    }

    /// Fails unless every read model agreed with the log, and everything arrived.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        ensure!(self.rows.iter().all(|row| row.equal), "a read model was not what the log says");
        ensure!(self.quiet.same_digests, "two rebuilds came to different digests");
        ensure!(self.traffic.iter().all(|one| one.lost == 0), "a delivery was lost");
        Ok(())
    }
}
