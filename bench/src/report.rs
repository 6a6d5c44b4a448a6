//! The output of a run: a table for people, and one JSON line for programs.

use std::time::Duration;

use serde::Serialize;

use crate::bare::Sent;
use crate::ceiling::Ceiling;
use crate::service::{Delivered, Load};
use crate::statements::Statement;
use crate::usage::Cpu;

/// A run.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    bench: &'static str,
    figures: Vec<Figure>,
}

/// One number of subscriptions.
#[derive(Debug, Serialize)]
pub(crate) struct Figure {
    subscriptions: usize,
    events: usize,
    postgres: String,
    ceilings: Vec<Row>,
    bare: Row,
    /// The bare sender with the log and the history of every delivery, if that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    with_traces: Option<Row>,
    service: Row,
    /// Of the better ceiling's rate.
    ratio_to_ceiling: f64,
    /// Of the bare sender's rate.
    ratio_to_bare: f64,
    /// CPU of service and PostgreSQL, of the bare sender's.
    cpu_to_bare: f64,
    /// From the first report to the end of the last.
    intake_seconds: f64,
    /// From the first report to the last arrival.
    arrival_seconds: f64,
    duplicates: u64,
    lost: u64,
    unrecorded: u64,
    resident_before_mib: f64,
    peak_mib: f64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    statements: Vec<Statement>,
}

/// The time and the cost of so many deliveries.
#[derive(Debug, Serialize)]
struct Row {
    name: String,
    deliveries: usize,
    body_bytes: u64,
    seconds: f64,
    per_second: f64,
    service_cpu_us: f64,
    postgres_cpu_us: f64,
    receiver_cpu_us: f64,
}

impl Row {
    fn new(name: String, deliveries: usize, (took, cpu): (Duration, Cpu), bytes: u64) -> Self {
        let count = deliveries as f64;
        let each = |cpu: Duration| cpu.as_secs_f64() * 1e6 / count;
        Self {
            name,
            deliveries,
            body_bytes: bytes / deliveries as u64,
            seconds: took.as_secs_f64(),
            per_second: count / took.as_secs_f64(),
            service_cpu_us: each(cpu.service),
            postgres_cpu_us: each(cpu.postgres),
            receiver_cpu_us: each(cpu.peer),
        }
    }

    fn cpu_us(&self) -> f64 {
        self.service_cpu_us + self.postgres_cpu_us
    }

    fn of_ceiling(ceiling: &Ceiling) -> Self {
        let name = format!("ceiling, {} in flight", ceiling.in_flight);
        let spent = (ceiling.took, ceiling.cpu);
        Self::new(name, ceiling.posts, spent, ceiling.arrived.body_bytes)
    }

    fn of_bare(name: &str, sent: &Sent) -> Self {
        Self::new(name.to_owned(), sent.posts, (sent.took, sent.cpu), sent.arrived.body_bytes)
    }

    fn print(&self, subscriptions: usize, ratio: f64) {
        println!(
            "{subscriptions:>4}  {:<24} {:>7} {:>9.0} {:>6.1}% {:>9.1} {:>11.1} {:>9.1} {:>6}",
            self.name,
            self.deliveries,
            self.per_second,
            ratio * 100.0,
            self.service_cpu_us,
            self.postgres_cpu_us,
            self.receiver_cpu_us,
            self.body_bytes,
        );
    }

    fn print_beside(&self, other: &Self) {
        println!(
            "      {:.1}% of the rate of the {}, at {:.2} times its CPU",
            self.per_second / other.per_second * 100.0,
            other.name,
            self.cpu_us() / other.cpu_us(),
        );
    }
}

impl Figure {
    pub(crate) fn new(
        load: &Load,
        (ceilings, bare, with_traces): (&[Ceiling], &Sent, Option<&Sent>),
        delivered: &Delivered,
    ) -> Self {
        let expected = load.deliveries() as u64;
        let arrived = delivered.arrived;
        let spent = (delivered.took, delivered.cpu);
        let name = "service".to_owned();
        let service = Row::new(name, load.deliveries(), spent, arrived.body_bytes);
        let ceilings: Vec<Row> = ceilings.iter().map(Row::of_ceiling).collect();
        let bare = Row::of_bare("bare sender", bare);
        Self {
            subscriptions: load.subscriptions,
            events: load.events,
            postgres: delivered.postgres.clone(),
            ratio_to_ceiling: service.per_second / best(&ceilings),
            ratio_to_bare: service.per_second / bare.per_second,
            cpu_to_bare: service.cpu_us() / bare.cpu_us(),
            bare,
            with_traces: with_traces.map(|sent| Row::of_bare("one with log and history", sent)),
            ceilings,
            service,
            intake_seconds: delivered.taken_in_after.as_secs_f64(),
            arrival_seconds: arrived.last_after_seconds,
            duplicates: arrived.requests - arrived.deliveries,
            lost: expected.saturating_sub(arrived.deliveries),
            unrecorded: expected.saturating_sub(delivered.recorded),
            resident_before_mib: delivered.resident_before_mib,
            peak_mib: delivered.peak_mib,
            statements: delivered.statements.clone(),
        }
    }

    fn print(&self) {
        for row in &self.ceilings {
            row.print(self.subscriptions, row.per_second / best(&self.ceilings));
        }
        self.bare.print(self.subscriptions, self.bare.per_second / best(&self.ceilings));
        if let Some(row) = &self.with_traces {
            row.print(self.subscriptions, row.per_second / best(&self.ceilings));
            row.print_beside(&self.bare);
        }
        self.service.print(self.subscriptions, self.ratio_to_ceiling);
        self.service.print_beside(&self.bare);
        self.with_traces.iter().for_each(|row| self.service.print_beside(row));
        println!(
            "      in {:.2} s: reported by {:.2} s, arrived by {:.2} s; {} twice, {} lost, {} not \
             recorded; peak {:.0} MiB, {:.0} before",
            self.service.seconds,
            self.intake_seconds,
            self.arrival_seconds,
            self.duplicates,
            self.lost,
            self.unrecorded,
            self.peak_mib,
            self.resident_before_mib,
        );
        for of in &self.statements {
            println!(
                "      {:>8.1} ms + {:>7.1} planning {:>6} calls {:>7} rows {:>7} KiB WAL  {}",
                of.total_ms, of.planning_ms, of.calls, of.rows, of.wal_kib, of.text
            );
        }
    }
}

fn best(ceilings: &[Row]) -> f64 {
    ceilings.iter().map(|row| row.per_second).fold(f64::MIN_POSITIVE, f64::max)
}

impl Report {
    pub(crate) const fn new(figures: Vec<Figure>) -> Self {
        Self { bench: "deliveries", figures }
    }

    /// The table, then the line.
    pub(crate) fn print(&self) -> serde_json::Result<()> {
        if let Some(figure) = self.figures.first() {
            println!("{} events; PostgreSQL {}", figure.events, figure.postgres);
        }
        println!(
            "subs  {:<24} {:>7} {:>9} {:>7} {:>9} {:>11} {:>9} {:>6}",
            "", "number", "per s", "of best", "service", "PostgreSQL", "receiver", "bytes"
        );
        println!("{:>56} {:>31}", "", "CPU us each");
        self.figures.iter().for_each(Figure::print);
        println!("{}", serde_json::to_string(self)?);
        Ok(())
    }

    /// Deliveries that did not arrive or were not recorded.
    pub(crate) fn missing(&self) -> u64 {
        self.figures.iter().map(|figure| figure.lost.max(figure.unrecorded)).sum()
    }
}
