//! Tables for people, and one JSON line.

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
    shapes: Vec<ShapeFigure>,
    outages: Vec<OutageFigure>,
}

/// The measured firms alone, and beside a shape.
#[derive(Debug, Serialize)]
pub(super) struct ShapeFigure {
    name: &'static str,
    alone: Phase,
    beside: Phase,
    p50_ratio: f64,
    p95_ratio: f64,
    max_ratio: f64,
    hogs: HogFigures,
}

/// The deliveries of the measured firms in one phase.
#[derive(Debug, Default, Serialize)]
pub(super) struct Phase {
    events: usize,
    latency: Latency,
    /// Not there a second after the last was due.
    pub(super) late: usize,
    lost: usize,
    twice: usize,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) statements: Vec<Statement>,
}

/// The deliveries of the firms beside.
#[derive(Debug, Default, Serialize)]
pub(super) struct HogFigures {
    /// Tries that were out at a time.
    out_median: usize,
    out_max: usize,
    /// Deliveries that had not ended after the phase.
    waiting: i64,
}

/// Figures from the time after all receivers were back.
#[derive(Debug, Serialize)]
pub(super) struct OutageFigure {
    pub(super) name: &'static str,
    pub(super) down_seconds: u64,
    pub(super) per_second: f64,
    pub(super) minutes: Vec<MinuteBack>,
    /// Events that were due before the return.
    pub(super) backlog: usize,
    /// Events of the backlog that had not arrived at the end.
    pub(super) backlog_left: usize,
    pub(super) half_drained_seconds: Option<f64>,
    /// Until 90 % have arrived. The rest may wait for a retry.
    pub(super) mostly_drained_seconds: Option<f64>,
    /// Deliveries a second until then, with the deliveries of new events.
    pub(super) drain_per_second: Option<f64>,
    /// Deliveries a second while all receivers answered.
    pub(super) burst_per_second: f64,
    pub(super) drain_to_burst: Option<f64>,
}

/// New events of a minute after the return.
#[derive(Debug, Serialize)]
pub(super) struct MinuteBack {
    pub(super) number: u64,
    pub(super) events: usize,
    /// Events that had not arrived at the end.
    pub(super) late: usize,
    pub(super) latency: Latency,
}

impl Phase {
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
        self.latency = Latency::new(took.into_values().collect());
        Ok(())
    }

    fn print_statements(&self) {
        for of in &self.statements {
            println!(
                "      {:>8.1} ms {:>6} calls {:>7} rows  {}",
                of.total_ms, of.calls, of.rows, of.text
            );
        }
    }
}

impl HogFigures {
    pub(super) fn new(mut out: Vec<usize>, waiting: i64) -> Self {
        out.sort_unstable();
        Self {
            out_median: out.get(out.len() / 2).copied().unwrap_or_default(),
            out_max: out.last().copied().unwrap_or_default(),
            waiting,
        }
    }
}

impl ShapeFigure {
    pub(super) fn new(name: &'static str, alone: Phase, beside: Phase, hogs: HogFigures) -> Self {
        let ratio =
            |of: fn(&Latency) -> u64| of(&beside.latency) as f64 / of(&alone.latency).max(1) as f64;
        Self {
            name,
            p50_ratio: ratio(|latency| latency.p50_us),
            p95_ratio: ratio(|latency| latency.p95_us),
            max_ratio: ratio(|latency| latency.max_us),
            alone,
            beside,
            hogs,
        }
    }

    fn print_head() {
        println!(
            "{:<30} {:>24} {:>26} {:>20} {:>18} {:>19}",
            "due to arrival, ms", "alone", "beside", "factor", "beside", "of the shape"
        );
        println!(
            "{:<30} {:>8} {:>7} {:>7} {:>9} {:>8} {:>7} {:>6} {:>6} {:>6} {:>6} {:>5} {:>5} {:>5} \
             {:>5} {:>7}",
            "",
            "p50",
            "p95",
            "max",
            "p50",
            "p95",
            "max",
            "p50",
            "p95",
            "max",
            "late",
            "lost",
            "twice",
            "out",
            "most",
            "waiting"
        );
    }

    fn print(&self) {
        let Self { alone, beside, hogs, .. } = self;
        let ms = |us: u64| us as f64 / 1e3;
        println!(
            "{:<30} {:>8.1} {:>7.1} {:>7.1} {:>9.1} {:>8.1} {:>7.1} {:>6.1} {:>6.1} {:>6.1} {:>6} \
             {:>5} {:>5} {:>5} {:>5} {:>7}",
            self.name,
            ms(alone.latency.p50_us),
            ms(alone.latency.p95_us),
            ms(alone.latency.max_us),
            ms(beside.latency.p50_us),
            ms(beside.latency.p95_us),
            ms(beside.latency.max_us),
            self.p50_ratio,
            self.p95_ratio,
            self.max_ratio,
            beside.late,
            beside.lost,
            beside.twice,
            hogs.out_median,
            hogs.out_max,
            hogs.waiting,
        );
        beside.print_statements();
    }
}

impl OutageFigure {
    fn print(&self) {
        let Self { name, down_seconds, per_second, backlog, backlog_left, .. } = self;
        println!("{name}: {down_seconds} s at {per_second} events a second");
        for MinuteBack { number, events, late, latency } in &self.minutes {
            println!(
                "  minute {number} after the return: {events} new events, p50 {:.0} ms, p95 {:.0} ms, \
                 max {:.0} ms, {late} not there",
                latency.p50_us as f64 / 1e3,
                latency.p95_us as f64 / 1e3,
                latency.max_us as f64 / 1e3,
            );
        }
        let seconds =
            |time: Option<f64>| time.map_or("not".to_owned(), |time| format!("after {time:.1} s"));
        println!(
            "  backlog of {backlog}: half drained {}, 90 % {}; {backlog_left} left at the end",
            seconds(self.half_drained_seconds),
            seconds(self.mostly_drained_seconds),
        );
        println!(
            "  {:.0} deliveries a second until then; a burst {:.0}; ratio {:.2}",
            self.drain_per_second.unwrap_or_default(),
            self.burst_per_second,
            self.drain_to_burst.unwrap_or_default(),
        );
    }
}

impl Report {
    pub(super) const fn new(rate: u32, seconds: u64, postgres: String) -> Self {
        Self { bench: "fairness", postgres, rate, seconds, shapes: Vec::new(), outages: Vec::new() }
    }

    pub(super) fn add_shape(&mut self, figure: ShapeFigure) {
        self.shapes.push(figure);
    }

    pub(super) fn add_outage(&mut self, figure: OutageFigure) {
        self.outages.push(figure);
    }

    /// The tables, then the line.
    pub(super) fn print(&self) -> serde_json::Result<()> {
        println!("PostgreSQL {}", self.postgres);
        if !self.shapes.is_empty() {
            println!("{} events a second, {} s each", self.rate, self.seconds);
            ShapeFigure::print_head();
            self.shapes.iter().for_each(ShapeFigure::print);
        }
        self.outages.iter().for_each(OutageFigure::print);
        println!("{}", serde_json::to_string(self)?);
        Ok(())
    }

    /// Whether everything arrived once.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        for figure in &self.shapes {
            for Phase { lost, twice, .. } in [&figure.alone, &figure.beside] {
                let name = figure.name;
                ensure!(*lost == 0 && *twice == 0, "{name}: {lost} were lost, {twice} came twice");
            }
        }
        Ok(())
    }
}
