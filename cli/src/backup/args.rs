//! The arguments of `backup`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::output::ReportArgs;

/// The arguments of `backup`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct BackupArgs {
    #[command(subcommand)]
    pub(super) part: Option<BackupCommand>,
    /// A new folder, or - for a tar archive on standard output.
    #[arg(required = true)]
    pub(super) place: Option<PathBuf>,
    /// Leave out the wrapping key and the keys that sign checkpoints. Keep them elsewhere: without
    /// the wrapping key nothing can be restored.
    #[arg(long)]
    pub(super) without_keys: bool,
    #[command(flatten)]
    pub(super) how: ReportArgs,
}

#[derive(Debug, Subcommand)]
pub(crate) enum BackupCommand {
    /// Compare a backup with its signature and its digests, and read the lists of its dumps.
    Verify(BackupVerifyArgs),
}

#[derive(Debug, Args)]
pub(crate) struct BackupVerifyArgs {
    /// The folder, or - for a tar archive on standard input.
    pub(super) place: PathBuf,
    /// The trusted public keys, one per line, as `audit keys publish` prints them. By default the
    /// keys of this installation.
    #[arg(long)]
    pub(super) public_keys: Option<PathBuf>,
    #[command(flatten)]
    pub(super) how: ReportArgs,
}
