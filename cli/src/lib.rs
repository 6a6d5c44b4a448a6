//! The one binary: the command line, settings from flags, variables and files, and the operators'
//! commands. It imports every other crate. Only the binary under test and `bench` import it.

mod answers;
mod archive;
mod args;
mod audit;
mod backup;
mod cells;
mod collector;
mod config;
mod confirm;
mod databases;
mod deliveries;
mod demo;
mod descriptors;
mod doctor;
mod door_setup;
mod failure;
mod generate;
mod health;
mod help;
mod ingest;
mod keyring;
mod lanes;
mod listen;
mod migrate;
mod names;
mod nearest;
mod openapi;
mod operate;
mod operator;
mod output;
mod pauses;
mod progress;
mod projections;
mod provider;
pub mod reference;
mod reissue;
mod replays;
mod retention;
mod secret_file;
mod serve;
mod serve_args;
mod serve_check;
mod settings_file;
mod setup;
mod shared_args;
mod users;
mod variables;
mod verify;
mod version;

use std::error::Error;
use std::ffi::OsString;
use std::process::ExitCode;

use clap::FromArgMatches;
use clap::error::{ContextKind, ErrorKind};
use mimalloc::MiMalloc;
use service::install_tls;
use service::telemetry::{self, LogColour, LogFormat, LogSettings, TraceExporter};

use crate::args::{CliArgs, CliCommand};
use crate::config::ConfigCommand;
use crate::confirm::NoConsent;
use crate::settings_file::ConfiguredArguments;

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// Runs the command line.
#[must_use]
pub fn main() -> ExitCode {
    main_with(std::env::args_os())
}

/// Runs the command line with these arguments, the program's name first. A program that starts
/// itself as the service calls this.
pub fn main_with(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let root = help::whole_command();
    let given: Vec<OsString> = arguments.into_iter().collect();
    let asked = asked_format(&given);
    let given = match settings_file::add_settings(&root, given) {
        Ok(given) => given,
        Err(error) => return print_failure(&error, asked),
    };
    let parsed = root.clone().try_get_matches_from(&given.arguments).and_then(|matches| {
        CliArgs::from_arg_matches(&matches).map(|arguments| (matches, arguments))
    });
    let (matches, arguments) = match parsed {
        Ok(parsed) => parsed,
        Err(error) => return print_usage_error(&error, &given, asked),
    };
    output::choose_colour(arguments.color);
    if let CliCommand::Config(ConfigCommand::Show { how, .. }) = arguments.command {
        config::show(how, &root, &matches, &given);
        return ExitCode::SUCCESS;
    }
    let format = arguments.log_format();
    let traces = match install_tls().and_then(|()| start_telemetry(&arguments)) {
        Ok(traces) => traces,
        Err(error) => return print_failure(&error, format),
    };
    variables::warn_of_shown_secrets(&given.shown_secrets);
    let ended = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime.block_on(run_command(arguments)),
        Err(error) => Err(error.into()),
    };
    if let Some(traces) = traces {
        traces.send_remaining();
    }
    ended.unwrap_or_else(|error| print_failure(&error, format))
}

/// Starts the log, and the traces of a service with a collector.
fn start_telemetry(arguments: &CliArgs) -> anyhow::Result<Option<TraceExporter>> {
    let collector = match &arguments.command {
        CliCommand::Serve(serve) => serve.settings.telemetry.collector()?,
        _ => None,
    };
    let colour = if output::is_error_coloured() { LogColour::Coloured } else { LogColour::Plain };
    let log = LogSettings {
        format: arguments.log_format(),
        level: arguments.command.log_level(),
        colour,
    };
    telemetry::start(log, collector)
}

async fn run_command(arguments: CliArgs) -> anyhow::Result<ExitCode> {
    variables::warn_of_misspelt();
    let storage = &arguments.storage.read_settings()?;
    let format = arguments.log_format();
    match arguments.command {
        CliCommand::Archive(command) => Ok(archive::run(storage, command).await),
        CliCommand::Retention(command) => exit_code_of(retention::run(storage, command)).await,
        CliCommand::Audit(command) => audit::run(storage, command).await,
        CliCommand::Projections(command) => Ok(projections::run(storage, command).await),
        CliCommand::Verify(command) => Ok(verify::run(storage, command).await),
        CliCommand::Doctor(asked) => {
            Ok(doctor::run(storage, asked).await.unwrap_or_else(|error| {
                print_failure(&error, format);
                ExitCode::from(2)
            }))
        }
        CliCommand::Health(asked) => exit_code_of(health::run(&asked)).await,
        CliCommand::Backup(asked) => exit_code_of(backup::run(storage, &asked)).await,
        CliCommand::Restore(asked) => backup::restore(storage, &asked).await,
        CliCommand::Hooks(command) => audit::hooks(storage, command).await,
        CliCommand::Demo(demo) => exit_code_of(demo::run(storage, &demo)).await,
        CliCommand::Serve(serve) if serve.check => {
            exit_code_of(serve_check::run(storage, &serve.settings)).await
        }
        CliCommand::Serve(serve) => exit_code_of(serve::run(storage, &serve.settings)).await,
        CliCommand::Migrate(migrate) => exit_code_of(migrate::run(storage, &migrate)).await,
        CliCommand::Ingest(ingest) => exit_code_of(ingest::run(storage, &ingest)).await,
        CliCommand::Generate(generate) => generate::run(&generate).map(|()| ExitCode::SUCCESS),
        CliCommand::Firms(command) => exit_code_of(operate::list_firms(storage, &command)).await,
        CliCommand::Members(command) => exit_code_of(answers::list_members(storage, command)).await,
        CliCommand::Forms(command) => exit_code_of(answers::list_forms(storage, command)).await,
        CliCommand::Access(asked) => exit_code_of(answers::access(storage, asked)).await,
        CliCommand::Receivers(asked) => exit_code_of(answers::receivers(storage, asked)).await,
        CliCommand::Find(asked) => exit_code_of(answers::find(storage, asked)).await,
        CliCommand::Events(command) => exit_code_of(answers::events(storage, command)).await,
        CliCommand::People(command) => exit_code_of(answers::people(storage, command)).await,
        CliCommand::Stats(how) => exit_code_of(answers::stats(storage, how)).await,
        CliCommand::Keys(command) => exit_code_of(operate::keys_command(storage, command)).await,
        CliCommand::Tokens(command) => {
            exit_code_of(operate::tokens_command(storage, command)).await
        }
        CliCommand::Users(command) => exit_code_of(users::run(storage, command)).await,
        CliCommand::Secrets(command) => {
            exit_code_of(operate::secrets_command(storage, command)).await
        }
        CliCommand::Keyring(command) => exit_code_of(keyring::run(storage, &command)).await,
        CliCommand::Deliveries(command) => exit_code_of(deliveries::run(storage, command)).await,
        CliCommand::Replay(command) => exit_code_of(replays::run(storage, command)).await,
        CliCommand::Lanes(command) => exit_code_of(lanes::run(storage, command)).await,
        CliCommand::Workflows(command) => {
            exit_code_of(deliveries::list_workflow_steps(storage, command)).await
        }
        CliCommand::Reissue(asked) => exit_code_of(reissue::run(storage, asked)).await,
        // The settings were shown before anything was started.
        CliCommand::Config(_) => Ok(ExitCode::SUCCESS),
        CliCommand::Listen(asked) => exit_code_of(listen::run(asked)).await,
        CliCommand::Cells(command) => cells::run(&command).map(|()| ExitCode::SUCCESS),
        CliCommand::Openapi(openapi) => openapi::run(&openapi).map(|()| ExitCode::SUCCESS),
        CliCommand::Completions { shell } => {
            help::print_completions(shell);
            Ok(ExitCode::SUCCESS)
        }
        CliCommand::Man { directory } => help::write_manual(&directory).map(|()| ExitCode::SUCCESS),
    }
}

/// Runs a command that either succeeds or fails.
async fn exit_code_of(
    command: impl Future<Output = anyhow::Result<()>>,
) -> anyhow::Result<ExitCode> {
    command.await.map(|()| ExitCode::SUCCESS)
}

/// Prints the error with its causes as one line, or as a line of a JSON log.
fn print_failure(error: &anyhow::Error, format: LogFormat) -> ExitCode {
    eprintln!("{}", telemetry::last_line(format, &failure::error_line(error)));
    // Like a wrong usage: the command did not begin.
    if error.is::<NoConsent>() { ExitCode::from(2) } else { ExitCode::FAILURE }
}

/// The format of the log that the arguments or the environment ask for. A usage error is told
/// before the arguments are read.
fn asked_format(arguments: &[OsString]) -> LogFormat {
    let variable = std::env::var("FIRMFORMS_LOG_JSON").unwrap_or_default();
    let is_json = arguments.iter().any(|argument| argument == "--log-json")
        || shared_args::switch(&variable).unwrap_or(true);
    if is_json { LogFormat::Json } else { LogFormat::Text }
}

/// Prints a usage error. The help and the version come here, too: clap returns them as errors.
fn print_usage_error(
    error: &clap::Error,
    given: &ConfiguredArguments,
    format: LogFormat,
) -> ExitCode {
    match wrong_value(error, given) {
        Some(message) => eprintln!("{}", telemetry::last_line(format, &message)),
        None if error.use_stderr() && format == LogFormat::Json => {
            eprintln!("{}", telemetry::last_line(format, error.to_string().trim_end()));
        }
        None => drop(error.print()),
    }
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
}

/// Names the wrong argument, its variable or the settings file, its value and the reason, on one
/// line. The value of a secret is not repeated.
fn wrong_value(error: &clap::Error, given: &ConfiguredArguments) -> Option<String> {
    if error.kind() != ErrorKind::ValueValidation {
        return None;
    }
    let named = error.get(ContextKind::InvalidArg)?.to_string();
    let argument = help::find_argument(&named);
    let is_secret = argument.as_ref().is_none_or(|one| one.is_hide_env_values_set());
    let value = error.get(ContextKind::InvalidValue).filter(|_| !is_secret);
    let value = value.map(|value| format!(" '{value}'")).unwrap_or_default();
    let source = argument.as_ref().and_then(|one| given.argument_source(one));
    let source = source.map(|place| format!(" ({place})")).unwrap_or_default();
    let reason = error.source().map(|reason| format!(": {reason}")).unwrap_or_default();
    Some(format!("error: invalid value{value} for '{named}'{source}{reason}"))
}
