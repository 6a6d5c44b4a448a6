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

pub(crate) fn run(command: &CellsCommand) -> anyhow::Result<()> {
    let CellsCommand::Haproxy(asked) = command;
    let name = || asked.file.display().to_string();
    let text = std::fs::read_to_string(&asked.file).with_context(name)?;
    let plan = CellPlan::read(&text).with_context(name)?;
    print!("{}", haproxy::configuration(&plan));
    Ok(())
}
