//! `cells`: the router in front of several installations (ruling 47). It needs no database.

mod haproxy;
mod plan;

use std::path::PathBuf;

use anyhow::Context;
use clap::{Args, Subcommand};

use self::plan::CellPlan;

#[derive(Debug, Subcommand)]
pub(crate) enum CellsCommand {
    /// Print a configuration for HAProxy that routes both doors to the cells of a file.
    Haproxy(HaproxyArgs),
}

#[derive(Debug, Args)]
pub(crate) struct HaproxyArgs {
    /// The file of cells, in TOML.
    file: PathBuf,
}

/// The configuration for HAProxy that routes to the cells of this file, in TOML.
///
/// # Errors
/// If the file is wrong; the error names the place.
pub fn configuration(file: &str) -> anyhow::Result<String> {
    Ok(haproxy::configuration(&CellPlan::read(file)?))
}

pub(crate) fn run(command: &CellsCommand) -> anyhow::Result<()> {
    let CellsCommand::Haproxy(asked) = command;
    let name = || asked.file.display().to_string();
    let text = std::fs::read_to_string(&asked.file).with_context(name)?;
    print!("{}", configuration(&text).with_context(name)?);
    Ok(())
}
