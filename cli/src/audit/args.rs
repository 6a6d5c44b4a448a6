//! The arguments of `audit` and `hooks`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use domain::audit::{Action, AuditPeriod, BackwardPeriod};
use domain::values::{Timestamp, When};
use explain::moment::PastMoment;
use uuid::Uuid;

use crate::answers::HookTestArgs;
use crate::answers::why::WhyHookArgs;
use crate::confirm::ConsentArgs;
use crate::names;
use crate::output::{OutputArgs, ReportArgs};
use crate::shared_args::{KnownArchiveArgs, reason};

/// The commands of the audit log.
#[derive(Debug, Subcommand)]
pub(crate) enum AuditCommand {
    /// List entries of a firm's audit log, newest first.
    List(AuditListArgs),
    /// Write a firm's audit log to a file, and record the export.
    Export(ExportArgs),
    /// Verify the database against the signed checkpoints, or a bundle by itself.
    Verify(AuditVerifyArgs),
    /// Make a signed checkpoint now, outside the database.
    Checkpoint(AuditCheckpointArgs),
    /// Add entries that a firm's audit log lacks, under statements that say why.
    Mend(AuditMendArgs),
    /// Manage the keys that sign checkpoints.
    #[command(subcommand)]
    Keys(AuditKeysCommand),
}

#[derive(Debug, Args)]
pub(crate) struct AuditListArgs {
    /// The firm: its id, the beginning of its id, or its name.
    #[arg(long)]
    pub(crate) firm: String,
    /// Only entries of these actions: `hook_removed`, `key_revoked`, and so on.
    #[arg(long, value_delimiter = ',')]
    pub(crate) action: Vec<Action>,
    /// Leave out the entries of readings, `audit_read` and `audit_exported`.
    #[arg(long)]
    pub(crate) no_reads: bool,
    /// Only entries of these actors: `key`, `member`, `operator`, `receiver`, ..., or an id.
    #[arg(long)]
    pub(crate) actor: Option<String>,
    /// Only entries about these subjects: `hook`, `key`, `person`, ..., or an id.
    #[arg(long)]
    pub(crate) subject: Option<String>,
    #[command(flatten)]
    pub(crate) time: TimeRangeArgs,
    /// Only entries before this sequence: the last one of the page before.
    #[arg(long)]
    pub(crate) after: Option<i64>,
    /// The most entries to list.
    #[arg(long, default_value_t = 50)]
    pub(crate) limit: i64,
    #[command(flatten)]
    pub(crate) json: OutputArgs,
}

/// A range of time.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct TimeRangeArgs {
    /// Only from this time on: 2026-11-01, 2026-11-01T09:30:00Z, 2h, yesterday.
    #[arg(long)]
    pub(crate) since: Option<When>,
    /// Only before this time.
    #[arg(long)]
    pub(crate) until: Option<When>,
}

impl TimeRangeArgs {
    /// The period, as seen from now. A day is its midnight in UTC.
    pub(crate) fn period(self, now: Timestamp) -> Result<AuditPeriod, BackwardPeriod> {
        names::past_period(self.since, self.until, now)
    }
}

#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// The firm: its id, the beginning of its id, or its name.
    #[arg(long)]
    pub(crate) firm: String,
    /// The format: for a spreadsheet, for programs, or with all proofs.
    #[arg(long, value_enum, default_value = "bundle")]
    pub(crate) format: ExportFormat,
    #[command(flatten)]
    pub(crate) time: TimeRangeArgs,
    /// The file to write; by default standard output. A file that exists is not overwritten.
    #[arg(long)]
    pub(crate) out: Option<PathBuf>,
    /// Write a page about the bundle to this file, as HTML for people and printers.
    #[arg(long, requires = "out")]
    pub(crate) cover: Option<PathBuf>,
    /// Tell as JSON what was written to the file.
    #[arg(long, requires = "out", help_heading = "Output")]
    pub(crate) json: bool,
}

/// The format of an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExportFormat {
    /// Comma-separated values.
    Csv,
    /// JSON, one entry per line.
    Ndjson,
    /// Entries, proofs, a signed checkpoint and its key. `audit verify --bundle` needs nothing
    /// else.
    Bundle,
}

impl ExportFormat {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Csv => "csv",
            Self::Ndjson => "ndjson",
            Self::Bundle => "bundle",
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct AuditCheckpointArgs {
    /// Begin a new series, and record that in the audit log: after keys or checkpoints are lost.
    /// The folder of checkpoints must be empty.
    #[arg(long, requires = "reason")]
    pub(crate) new_series: bool,
    /// The reason for a new series; kept in the log.
    #[arg(long, requires = "new_series")]
    pub(crate) reason: Option<String>,
    #[command(flatten)]
    pub(crate) json: OutputArgs,
}

#[derive(Debug, Args)]
pub(crate) struct AuditMendArgs {
    /// The firm: its id, the beginning of its id, or its name; the nil UUID for the chain of the
    /// service.
    #[arg(long)]
    pub(crate) firm: String,
    /// The reason why the entries are late; kept in the log.
    #[arg(long, value_parser = reason)]
    pub(crate) reason: String,
    /// Only list the missing entries.
    #[arg(long)]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) consent: ConsentArgs,
    #[command(flatten)]
    pub(crate) json: OutputArgs,
}

#[derive(Debug, Args)]
pub(crate) struct AuditVerifyArgs {
    /// Verify this file, without a database.
    #[arg(long)]
    pub(crate) bundle: Option<PathBuf>,
    /// The trusted public keys, one per line, as `audit keys publish` prints them. By default the
    /// signer's keys, else the keys beside the checkpoints, and for a bundle the key in it.
    #[arg(long)]
    pub(crate) public_keys: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) archive: KnownArchiveArgs,
    #[command(flatten)]
    pub(crate) how: ReportArgs,
}

#[derive(Debug, Subcommand)]
pub(crate) enum AuditKeysCommand {
    /// List all keys that ever signed here, oldest first.
    List(OutputArgs),
    /// Make a new key. The private half of the old one is deleted.
    Rotate(OutputArgs),
    /// Print the public keys. Publish them where this machine cannot change them.
    Publish {
        /// Print PEM for other programs.
        #[arg(long)]
        pem: bool,
    },
}

/// The commands of subscriptions.
#[derive(Debug, Subcommand)]
pub(crate) enum HooksCommand {
    /// List the subscriptions of a firm: live, removed, or close to removal.
    List(HooksListArgs),
    /// Explain the life and end of a subscription: the chain of causes, and the evidence.
    Why(WhyHookArgs),
    /// Send a signed sample to the target of a subscription, and show the answer.
    Test(HookTestArgs),
}

/// The selection of subscriptions.
#[derive(Debug, Args)]
pub(crate) struct HooksListArgs {
    /// The firm: its id, the beginning of its id, or its name.
    #[arg(long)]
    pub(crate) firm: String,
    /// Only removed ones, last removed first.
    #[arg(long, conflicts_with = "warned")]
    pub(crate) removed: bool,
    /// Only those whose last delivery ended with 410. The next 410 removes them.
    #[arg(long)]
    pub(crate) warned: bool,
    /// Only those removed from this time on: 2026-11-01, 2h, yesterday.
    #[arg(long, requires = "removed")]
    pub(crate) since: Option<When>,
    /// Only those removed before this time.
    #[arg(long, requires = "removed")]
    pub(crate) until: Option<When>,
    /// Their state at a position of the log, or at a time (2026-11-01, 2h).
    #[arg(long)]
    pub(crate) as_of: Option<PastMoment>,
    /// Only those after this one: the last one of the page before.
    #[arg(long)]
    pub(crate) after: Option<Uuid>,
    /// The most subscriptions to list, up to 500.
    #[arg(long, default_value_t = 500)]
    pub(crate) limit: i64,
    #[command(flatten)]
    pub(crate) json: OutputArgs,
}
