//! The output of a run: a table for people, and one JSON line for programs.

use std::time::Duration;

use anyhow::ensure;
use serde::Serialize;

use super::args::Reads;
use super::job::Calls;
use crate::latency::Latency;
use crate::statements::Statement;
use crate::usage::Cpu;

/// A run.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    bench: &'static str,
    postgres: String,
    seconds: u32,
    connections: u16,
    rate: u32,
    firms: u32,
    figures: Vec<Figure>,
}

/// One kind of call.
#[derive(Debug, Serialize)]
pub(super) struct Figure {
    pub(super) name: String,
    pub(super) ceiling: Row,
    pub(super) ceiling_at_rate: Row,
    pub(super) service: Row,
    pub(super) service_at_rate: Row,
    pub(super) ratio_to_ceiling: f64,
    /// Of the service's process, while it answered as fast as it could.
    pub(super) peak_mib: f64,
    /// Calls of the service, the warm-up's too.
    pub(super) called: usize,
    /// Calls that the rate limit counted.
    pub(super) counted: usize,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) statements: Vec<Statement>,
}

/// One measurement.
#[derive(Debug, Serialize)]
pub(super) struct Row {
    name: String,
    calls: usize,
    refused: usize,
    body_bytes: u64,
    seconds: f64,
    pub(super) per_second: f64,
    latency: Latency,
    service_cpu_us: f64,
    postgres_cpu_us: f64,
    caller_cpu_us: f64,
}

impl Row {
    pub(super) fn new(name: &str, calls: Calls, cpu: Cpu) -> Self {
        let count = calls.calls.max(1) as f64;
        let seconds = calls.took.as_secs_f64();
        let each = |cpu: Duration| cpu.as_secs_f64() * 1e6 / count;
        Self {
            name: name.to_owned(),
            calls: calls.calls,
            refused: calls.refused,
            body_bytes: calls.body_bytes / calls.calls.max(1) as u64,
            seconds,
            per_second: count / seconds,
            latency: calls.latency,
            service_cpu_us: each(cpu.service),
            postgres_cpu_us: each(cpu.postgres),
            caller_cpu_us: each(cpu.peer),
        }
    }

    fn print(&self, call: &str, pace: &str) {
        let ms = |us: u64| us as f64 / 1e3;
        println!(
            "{call:<15} {:<8} {pace:<7} {:>7} {:>7.0} {:>7.2} {:>7.2} {:>7.2} {:>8.1} {:>10.1} \
             {:>7.1} {:>7}",
            self.name,
            self.calls,
            self.per_second,
            ms(self.latency.p50_us),
            ms(self.latency.p99_us),
            ms(self.latency.max_us),
            self.service_cpu_us,
            self.postgres_cpu_us,
            self.caller_cpu_us,
            self.body_bytes,
        );
    }
}

impl Figure {
    fn print(&self) {
        self.ceiling.print(&self.name, "fastest");
        self.service.print("", "fastest");
        self.ceiling_at_rate.print("", "steady");
        self.service_at_rate.print("", "steady");
        println!(
            "                {:.1}% of the ceiling; peak {:.0} MiB; {} called, {} counted, {} refused",
            self.ratio_to_ceiling * 100.0,
            self.peak_mib,
            self.called,
            self.counted,
            self.refused(),
        );
        self.statements.iter().for_each(|statement| self.print_statement(statement));
    }

    /// Prints a statement of the calls. Rare statements come from the workers and are left out.
    fn print_statement(&self, statement: &Statement) {
        let executions = statement.calls as f64;
        let per_call = executions / self.service.calls as f64;
        if per_call > 0.1 {
            let us = statement.total_ms * 1e3 / executions;
            let rows = statement.rows as f64 / executions;
            let text = &statement.text;
            println!("{per_call:>16.2} a call, {us:>6.1} us and {rows:>5.1} rows each  {text}");
        }
    }

    const fn refused(&self) -> usize {
        self.service.refused + self.service_at_rate.refused
    }
}

impl Report {
    pub(super) fn new(options: &Reads, postgres: String, figures: Vec<Figure>) -> Self {
        Self {
            bench: "reads",
            postgres,
            seconds: options.seconds,
            connections: options.connections,
            rate: options.rate,
            firms: options.firms(),
            figures,
        }
    }

    /// The table, then the line.
    pub(super) fn print(&self) -> serde_json::Result<()> {
        println!("PostgreSQL {}", self.postgres);
        println!(
            "{} firms; {} connections; {} s each; steady is {} calls a second",
            self.firms, self.connections, self.seconds, self.rate
        );
        println!("{:>48} {:>16} {:>29}", "", "latency ms", "CPU us each");
        println!(
            "{:<32} {:>7} {:>7} {:>7} {:>7} {:>7} {:>8} {:>10} {:>7} {:>7}",
            "", "calls", "per s", "p50", "p99", "max", "service", "PostgreSQL", "caller", "bytes"
        );
        self.figures.iter().for_each(Figure::print);
        println!("{}", serde_json::to_string(self)?);
        Ok(())
    }

    /// Fails if a call was refused, or not counted by the rate limit.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        for figure in &self.figures {
            let Figure { name, called, counted, .. } = figure;
            ensure!(figure.refused() == 0, "{name}: {} calls were refused", figure.refused());
            ensure!(called == counted, "{name}: of {called} calls {counted} were counted");
        }
        Ok(())
    }
}
