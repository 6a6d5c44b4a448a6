//! The cost of the service: each command starts a database of its own, runs the service on it
//! beside the least that could do the same, and prints a table and one JSON line. Ratios are
//! between figures of one run: the machine's mood is in both.
//!
//! It must not be part of the test run, and must leave nothing behind.

mod activity;
mod archive;
mod audience;
mod audit;
mod bare;
mod burst;
mod ceiling;
mod child;
mod connection;
mod deliveries;
mod endless;
mod failover;
mod fairness;
mod faults;
mod growth;
mod hosts;
mod intake;
mod latency;
mod memory;
mod open_loop;
mod pace;
mod pages;
mod peer;
mod population;
mod queues;
mod reads;
mod rebuild;
mod receiver;
mod report;
mod running;
mod service;
mod serving;
mod sleeping;
mod soak;
mod statements;
mod submissions;
mod subscribing;
mod taking_in;
mod traces;
mod usage;

use std::ffi::OsString;
use std::future::Future;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use tokio_util::sync::CancellationToken;

use crate::archive::Archive;
use crate::audit::Audit;
use crate::deliveries::Deliveries;
use crate::endless::Endless;
use crate::failover::Failover;
use crate::fairness::Fairness;
use crate::faults::Faults;
use crate::growth::Growth;
use crate::intake::Intake;
use crate::memory::MemoryUse;
use crate::open_loop::OpenLoop;
use crate::pages::Pages;
use crate::queues::Queues;
use crate::reads::Reads;
use crate::rebuild::Rebuild;
use crate::soak::Soak;

/// Measures the service.
#[derive(Debug, Parser)]
#[command(name = "bench", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Bytes of a delivery in the archive, and events per second that are archived and verified.
    Archive(Archive),
    /// Entries per second and memory of `audit verify`, over one firm's chain.
    Audit(Audit),
    /// Deliveries per second and CPU per delivery, beside the same POSTs sent with no database.
    Deliveries(Deliveries),
    /// Memory while receivers begin an answer, or none, and never end it.
    Endless(Endless),
    /// Losses and times of failovers: PostgreSQL under Patroni ends its primary again and again.
    Failover(Failover),
    /// How long a firm waits for its deliveries beside hosts that hang, refuse or sleep, and how
    /// receivers that were down come back.
    Fairness(Fairness),
    /// The cost of kills: real processes, killed at random under load, and the invariants
    /// afterwards.
    Faults(Faults),
    /// Deliveries per second, and their CPU, as log, subscriptions and firms grow.
    Growth(Growth),
    /// Activities per second taken in from a file and over HTTP, and how that goes as the log
    /// grows.
    Intake(Intake),
    /// From due to arrived, at a rate that waits for nobody.
    Latency(OpenLoop),
    /// Memory of the service at a burst, and beside receivers that hang.
    Memory(MemoryUse),
    /// Time to the first byte and size of each screen of the console and the portal.
    Pages(Pages),
    /// Claims, records and cancellations beside a held snapshot, long queues and many lanes.
    Queues(Queues),
    /// Keyed reads per second, latency and CPU per call, beside a bare handler behind the same
    /// door.
    Reads(Reads),
    /// How long it takes to make each read model anew from the log, and how far traffic notices.
    Rebuild(Rebuild),
    /// A long run at a share of the highest rate; fails if anything drifts.
    Soak(Soak),
    /// The caller, in a process of its own; started by `reads`.
    #[command(hide = true)]
    Caller,
    /// The product, in a process of its own; started by `intake`.
    #[command(hide = true)]
    Product,
    /// The receiver, in a process of its own; started by `deliveries`.
    #[command(hide = true)]
    Receiver,
    /// The service, in a process of its own.
    #[command(hide = true)]
    Service {
        /// The arguments of `firmforms`.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
}

fn main() -> ExitCode {
    let done = match Arguments::parse().command {
        Command::Archive(command) => start(archive::run(&command)),
        Command::Audit(command) => start(audit::run(&command)),
        Command::Deliveries(command) => start(deliveries::run(&command)),
        Command::Endless(command) => start(endless::run(&command)),
        Command::Failover(command) => start(failover::run(&command)),
        Command::Fairness(command) => start(fairness::run(&command)),
        Command::Faults(command) => start(faults::run(&command)),
        Command::Growth(command) => start(growth::run(&command)),
        Command::Intake(command) => start(intake::run(&command)),
        Command::Latency(command) => start(open_loop::run(&command)),
        Command::Memory(command) => start(memory::run(&command)),
        Command::Pages(command) => start(pages::run(&command)),
        Command::Queues(command) => start(queues::run(&command)),
        Command::Reads(command) => start(reads::run(&command)),
        Command::Rebuild(command) => start(rebuild::run(&command)),
        Command::Soak(command) => start(soak::run(&command)),
        Command::Caller => reads::caller::run(),
        Command::Product => intake::product::run(),
        Command::Receiver => receiver::run(),
        Command::Service { arguments } => {
            return firmforms::main_with(std::iter::once("firmforms".into()).chain(arguments));
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Telemetry, TLS and runtime as `serve` has them: they are part of the measurement.
fn start(command: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<()> {
    ::service::install_tls()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let figures = ::service::telemetry::as_served(CancellationToken::new())?;
    runtime.spawn(figures);
    runtime.block_on(command)
}
