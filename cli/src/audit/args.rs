//! The arguments of `audit` and `hooks`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use domain::as_of::AsOf;
use domain::audit::Action;
use domain::time::Timestamp;
use uuid::Uuid;

use crate::args::OutputArgs;

/// What is asked of the audit log.
#[derive(Debug, Subcommand)]
pub(crate) enum AuditCommand {
    /// What a firm has to answer for, newest first.
    List(AuditListArgs),
    /// Write a firm's audit log to a file; that it was exported is recorded.
    Export(ExportArgs),
    /// Verify the database against the checkpoints, or a bundle by itself. Exit code 0: intact;
    /// 1: broken, with the first bad place; 2: it cannot be told.
    Verify(AuditVerifyArgs),
    /// Take a checkpoint now, sign it, and keep it outside the database.
    Checkpoint(OutputArgs),
    /// The keys that sign checkpoints.
    #[command(subcommand)]
    Keys(AuditKeysCommand),
}

#[derive(Debug, Args)]
pub(crate) struct AuditListArgs {
    /// The firm.
    #[arg(long)]
    pub(crate) firm: Uuid,
    /// Only what was done so: `hook_removed`, `key_revoked`, and so on.
    #[arg(long)]
    pub(crate) action: Option<Action>,
    /// Only what was done by these: `key`, `member`, `operator`, `receiver`, ..., or an id.
    #[arg(long)]
    pub(crate) actor: Option<String>,
    /// Only what was done to these: `hook`, `key`, `person`, ..., or an id.
    #[arg(long)]
    pub(crate) subject: Option<String>,
    #[command(flatten)]
    pub(crate) time: TimeRangeArgs,
    /// Only those before this one of the chain: the last of the page before.
    #[arg(long)]
    pub(crate) after: Option<i64>,
    /// How many.
    #[arg(long, default_value_t = 50)]
    pub(crate) limit: i64,
    #[command(flatten)]
    pub(crate) json: OutputArgs,
}

/// When it was.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct TimeRangeArgs {
    /// From then on (2026-11-01T00:00:00Z).
    #[arg(long)]
    pub(crate) since: Option<Timestamp>,
    /// Before then.
    #[arg(long)]
    pub(crate) until: Option<Timestamp>,
}

#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// The firm.
    #[arg(long)]
    pub(crate) firm: Uuid,
    /// For a spreadsheet, for programs, or with everything that proves it.
    #[arg(long, value_enum, default_value = "bundle")]
    pub(crate) format: ExportFormat,
    #[command(flatten)]
    pub(crate) time: TimeRangeArgs,
    /// The file to write; by default standard output.
    #[arg(long)]
    pub(crate) out: Option<PathBuf>,
}

/// What is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExportFormat {
    /// Comma-separated values.
    Csv,
    /// JSON, one entry per line.
    Ndjson,
    /// Entries, proofs, a signed checkpoint and its key: `audit verify --bundle` needs nothing else.
    Bundle,
}

#[derive(Debug, Args)]
pub(crate) struct AuditVerifyArgs {
    /// Verify this file, with no database.
    #[arg(long)]
    pub(crate) bundle: Option<PathBuf>,
    /// The public keys to believe, one per line, as `audit keys publish` prints them. By default those
    /// of the data directory, and for a bundle the one in it.
    #[arg(long)]
    pub(crate) public_keys: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum AuditKeysCommand {
    /// All keys that ever signed here, oldest first.
    List(OutputArgs),
    /// Make a new key; the old one's private half is deleted.
    Rotate(OutputArgs),
    /// Print the public keys, to be published where this machine cannot change them.
    Publish {
        /// Print PEM, as other programs read it.
        #[arg(long)]
        pem: bool,
    },
}

/// What is asked of subscriptions.
#[derive(Debug, Subcommand)]
pub(crate) enum HooksCommand {
    /// The subscriptions of a firm: those that live, were removed, or are about to be.
    List(HooksListArgs),
    /// Why a subscription went away: who, when, by which rule, on what evidence.
    Why {
        /// The subscription.
        hook: Uuid,
        #[command(flatten)]
        json: OutputArgs,
    },
}

/// Which subscriptions.
#[derive(Debug, Args)]
pub(crate) struct HooksListArgs {
    /// The firm.
    #[arg(long)]
    pub(crate) firm: Uuid,
    /// Those that were removed, last removed first.
    #[arg(long, conflicts_with = "warned")]
    pub(crate) removed: bool,
    /// Those whose last delivery ended with 410: the next 410 removes them.
    #[arg(long)]
    pub(crate) warned: bool,
    /// Removed from then on.
    #[arg(long, requires = "removed")]
    pub(crate) since: Option<Timestamp>,
    /// As they were at a position of the log, or at an instant (2026-11-01T12:00:00Z).
    #[arg(long)]
    pub(crate) as_of: Option<AsOf>,
    /// Only those after this one: the last of the page before.
    #[arg(long)]
    pub(crate) after: Option<Uuid>,
    /// How many, 500 at most.
    #[arg(long, default_value_t = 500)]
    pub(crate) limit: i64,
    #[command(flatten)]
    pub(crate) json: OutputArgs,
}
