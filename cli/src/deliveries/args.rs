//! The arguments of `deliveries` and `workflows`.

use api::queries::listing::{self, DeliveryListQuery};
use clap::{Args, Subcommand};
use domain::audit::{AuditPeriod, BackwardPeriod};
use domain::delivery::DeliveryState;
use domain::subscription::Trigger;
use domain::values::{Timestamp, When};
use explain::moment::PastMoment;
use uuid::Uuid;

use crate::answers::DeliveryExportArgs;
use crate::answers::why::WhyDeliveryArgs;
use crate::names;
use crate::output::OutputArgs;
use crate::shared_args::{KnownArchiveArgs, TargetRevealArgs, reason};

#[derive(Debug, Subcommand)]
pub(crate) enum DeliveriesCommand {
    /// List the newest deliveries of a firm.
    List(DeliveryListArgs),
    /// Pause deliveries in every process until they are resumed. Paused deliveries wait and do not
    /// age.
    Pause(crate::pauses::PauseArgs),
    /// End a pause. Its deliveries continue where they were.
    Resume(crate::pauses::ResumeArgs),
    /// List pauses.
    Paused(OutputArgs),
    /// Show one delivery with its attempts; for a reason with its body and the answers.
    Show(DeliveryShowArgs),
    /// Explain the state of a delivery: its attempts, its end or the hold on it.
    Why(WhyDeliveryArgs),
    /// Write deliveries with their attempts to a file, and record the export.
    Export(DeliveryExportArgs),
}

/// The arguments of `deliveries list`.
#[derive(Debug, Args)]
pub(crate) struct DeliveryListArgs {
    /// The firm: its id, the beginning of its id, or its name.
    #[arg(long)]
    pub(super) firm: String,
    /// Only deliveries of this subscription: its id, or the beginning of its id.
    #[arg(long)]
    pub(super) hook: Option<String>,
    #[command(flatten)]
    pub(super) filter: DeliveryFilterArgs,
    /// Their state at a position of the log, or at a time (2026-11-01, 2h); with --limit alone.
    #[arg(long)]
    pub(super) as_of: Option<PastMoment>,
    #[command(flatten)]
    pub(super) json: OutputArgs,
}

#[derive(Debug, Args)]
pub(crate) struct DeliveryShowArgs {
    #[command(flatten)]
    pub(crate) archive: KnownArchiveArgs,
    /// The firm: its id, the beginning of its id, or its name. Only a delivery that no list shows
    /// yet needs it.
    #[arg(long)]
    pub(crate) firm: Option<String>,
    /// The delivery: its id, or the beginning of its id.
    pub(crate) delivery: String,
    /// Its state at a position of the log, or at a time (2026-11-01, 2h).
    #[arg(long)]
    pub(crate) as_of: Option<PastMoment>,
    #[command(flatten)]
    pub(crate) reveal: TargetRevealArgs,
    #[command(flatten)]
    pub(crate) contents: ContentArgs,
    #[command(flatten)]
    pub(crate) json: OutputArgs,
}

/// The wish to see the contents of a delivery.
#[derive(Debug, Clone, Args)]
pub(crate) struct ContentArgs {
    /// Show the body that was sent, if it is kept.
    #[arg(long, requires = "reason")]
    pub(crate) body: bool,
    /// Show the answers of the receiver that are kept.
    #[arg(long, requires = "reason")]
    pub(crate) answer: bool,
    /// The reason to see body or answers; kept in the audit log.
    #[arg(long, value_parser = reason)]
    pub(crate) reason: Option<String>,
}

impl ContentArgs {
    /// The reason, if the body is asked for.
    pub(crate) fn of_body(&self) -> Option<&str> {
        self.reason.as_deref().filter(|_| self.body)
    }

    /// The reason, if the answers are asked for.
    pub(crate) fn of_answers(&self) -> Option<&str> {
        self.reason.as_deref().filter(|_| self.answer)
    }
}

/// The commands of workflow steps.
#[derive(Debug, Subcommand)]
pub(crate) enum WorkflowsCommand {
    /// List the deliveries of workflow steps, newest first.
    List(WorkflowListArgs),
}

#[derive(Debug, Args)]
pub(crate) struct WorkflowListArgs {
    /// The firm: its id, the beginning of its id, or its name.
    #[arg(long)]
    pub(super) firm: String,
    #[command(flatten)]
    pub(super) filter: DeliveryFilterArgs,
    #[command(flatten)]
    pub(super) json: OutputArgs,
}

#[derive(Debug, Args)]
pub(crate) struct DeliveryFilterArgs {
    /// Only deliveries of this trigger.
    #[arg(long)]
    trigger: Option<Trigger>,
    /// Only deliveries that are `pending`, `delivered`, `failed` or `cancelled`.
    #[arg(long)]
    state: Option<DeliveryState>,
    /// Only deliveries queued at this time or later: 2026-11-01, 2026-11-01T09:30:00Z, 2h or
    /// yesterday.
    #[arg(long)]
    since: Option<When>,
    /// Only deliveries queued before this time.
    #[arg(long)]
    until: Option<When>,
    /// Only deliveries after this one: the last one of the page before.
    #[arg(long)]
    after: Option<Uuid>,
    /// The most deliveries to list, up to 500.
    #[arg(long, default_value_t = listing::LIST_LIMIT_DEFAULT)]
    limit: i64,
}

impl DeliveryFilterArgs {
    pub(super) fn list_query(
        self,
        hook_id: Option<Uuid>,
        now: Timestamp,
    ) -> Result<DeliveryListQuery, BackwardPeriod> {
        let AuditPeriod { since, until } = names::past_period(self.since, self.until, now)?;
        Ok(DeliveryListQuery {
            hook_id,
            trigger: self.trigger.map(|trigger| trigger.key().to_owned()),
            state: self.state,
            since,
            until,
            after: self.after,
            limit: Some(self.limit),
            as_of: None,
        })
    }
}
