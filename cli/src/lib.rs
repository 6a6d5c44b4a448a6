//! The one binary: configuration, wiring, signals, and the operators' commands. It knows every
//! other room; no room knows it.

mod args;
mod audit;
mod databases;
mod deliveries;
mod demo;
mod doctor;
mod doors;
pub mod expected;
pub mod generate;
pub mod ingest;
mod keyring;
mod lanes;
mod openapi;
mod operate;
mod pauses;
mod projections;
mod reissue;
mod replays;
pub mod roles;
pub mod serve;
mod setup;
mod telemetry;
mod verify;
pub mod wiring;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser;

use crate::args::{Arguments, Command, Place};

/// Runs the command line.
#[must_use]
pub fn main() -> ExitCode {
    main_with(std::env::args_os())
}

/// The same with these arguments, the program's name first: for a program that starts itself as the
/// service.
pub fn main_with(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let arguments = Arguments::parse_from(arguments);
    telemetry::start(arguments.log_json, arguments.command.log_level());
    if let Err(error) = wiring::install_tls() {
        return fail(&error);
    }
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return fail(&error.into()),
    };
    match runtime.block_on(run(arguments)) {
        Ok(code) => code,
        Err(error) => fail(&error),
    }
}

async fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let place = &arguments.place;
    match arguments.command {
        Command::Audit(command) => audit::run(place, command).await,
        Command::Projections(command) => Ok(projections::run(place, command).await),
        Command::Doctor(asked) => Ok(doctor::run(place, asked).await.unwrap_or_else(|error| {
            fail(&error);
            ExitCode::from(2)
        })),
        Command::Verify(command) => Ok(verify::run(place, command).await),
        command => run_plain(place, command).await.map(|()| ExitCode::SUCCESS),
    }
}

/// A command that succeeds or fails, and nothing between.
async fn run_plain(place: &Place, command: Command) -> anyhow::Result<()> {
    match command {
        Command::Audit(command) => audit::run(place, command).await.map(drop),
        Command::Projections(command) => {
            projections::run(place, command).await;
            Ok(())
        }
        Command::Verify(command) => {
            verify::run(place, command).await;
            Ok(())
        }
        Command::Hooks(command) => audit::hooks(place, command).await,
        Command::Demo(demo) => demo::run(place, &demo).await,
        Command::Serve(serve) => serve::run(place, &serve).await,
        Command::Migrate(migrate) => roles::migrate(place, &migrate).await,
        Command::Ingest(ingest) => ingest::run(place, &ingest).await,
        Command::Generate(generate) => generate::run(&generate),
        Command::Firms(command) => operate::firms(place, &command).await,
        Command::Keys(command) => operate::keys(place, command).await,
        Command::Tokens(command) => operate::tokens(place, command).await,
        Command::Secrets(command) => operate::secrets(place, command).await,
        Command::Keyring(command) => keyring::run(place, &command).await,
        Command::Deliveries(command) => operate::deliveries(place, command).await,
        Command::Replay(command) => replays::run(place, command).await,
        Command::Lanes(command) => lanes::run(place, command).await,
        Command::Workflows(command) => deliveries::workflows(place, command).await,
        Command::Doctor(asked) => doctor::run(place, asked).await.map(drop),
        Command::Reissue(asked) => reissue::run(place, asked).await,
        Command::Openapi(openapi) => openapi::run(&openapi),
    }
}

/// One line to the person at the terminal, causes included.
fn fail(error: &anyhow::Error) -> ExitCode {
    eprintln!("firmforms: {error:#}");
    ExitCode::FAILURE
}
