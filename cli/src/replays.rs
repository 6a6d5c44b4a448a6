//! `replay`: sends ended deliveries again, of one firm or of all (ruling 31, replay and reissue).

use std::time::Duration;

use api::Service;
use api::commands::replays::{self, NewReplay, ReplayView, SelectedDeliveries};
use clap::{Args, Subcommand};
use domain::audit::AuditPeriod;
use domain::delivery::DeliveryState;
use domain::delivery::replay::{RATE_PER_SECOND_DEFAULT, ReplayCommand, ReplaySelection};
use domain::subscription::Trigger;
use domain::values::{Timestamp, When};
use projector::firms;
use serde_json::{Value, json};
use service::StorageSettings;
use uuid::Uuid;

use crate::answers::{ReplayListArgs, list_replays};
use crate::confirm::{self, ConsentArgs};
use crate::databases;
use crate::failure::terminal_error;
use crate::names::{self, NamedKind};
use crate::output::{Column, ListTable, OutputArgs, RecordView};
use crate::progress::Progress;
use crate::shared_args::reason;

/// The outcome of a delivery that the replay has not reached yet.
const WAITING: &str = "waiting";

/// The wait between two looks at a replay.
const WATCH_INTERVAL: Duration = Duration::from_millis(500);

/// The deliveries that the answer names as a sample.
const SAMPLE: usize = 10;

const BEGUN: ListTable = ListTable::new(
    &[
        Column::id("id"),
        Column::id("firm_id"),
        Column::number("selected"),
        Column::number("skipped"),
        Column::number("seconds"),
    ],
    "no firm has such deliveries",
);

const REPLAY: RecordView = RecordView::new(&[
    Column::id("id"),
    Column::id("firm_id"),
    Column::state("state"),
    Column::text("reason"),
    Column::number("selected"),
    Column::text("outcomes"),
    Column::number("rate_per_second"),
    Column::time("requested_at"),
    Column::time("ended_at"),
]);

/// The commands of replays.
#[derive(Debug, Subcommand)]
pub(crate) enum ReplaysCommand {
    /// Send failed or selected deliveries again: once, with their ids and their bytes.
    Start(ReplayStartArgs),
    /// List replays, newest first.
    List(ReplayListArgs),
    /// Show the progress of a replay.
    Show(ReplayShowArgs),
    /// Pause a replay.
    Pause(ReplayArgs),
    /// Resume a replay.
    Resume(ReplayArgs),
    /// End a replay for good.
    Stop(ReplayStopArgs),
}

#[derive(Debug, Args)]
pub(crate) struct ReplayArgs {
    /// The replay: its id, or the beginning of its id.
    replay: String,
    #[command(flatten)]
    json: OutputArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ReplayShowArgs {
    #[command(flatten)]
    one: ReplayArgs,
    /// Wait until the replay has ended, and tell its progress.
    #[arg(long)]
    watch: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ReplayStopArgs {
    #[command(flatten)]
    one: ReplayArgs,
    /// The reason; kept in the log.
    #[arg(long, value_parser = reason)]
    reason: Option<String>,
    #[command(flatten)]
    consent: ConsentArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ReplayStartArgs {
    /// The firm: its id, the beginning of its id, or its name.
    #[arg(long, required_unless_present = "all_firms")]
    firm: Option<String>,
    /// Every firm that has such deliveries. Each gets a replay of its own. The command asks first.
    #[arg(long, conflicts_with = "firm")]
    all_firms: bool,
    /// The reason; kept in the log.
    #[arg(long)]
    reason: String,
    /// Only these deliveries, by id or the beginning of it. The flag may be repeated.
    #[arg(long)]
    delivery: Vec<String>,
    /// Only deliveries of this subscription: its id, or the beginning of its id.
    #[arg(long)]
    hook: Option<String>,
    /// Only deliveries of this trigger.
    #[arg(long)]
    trigger: Option<Trigger>,
    /// Only deliveries about this form.
    #[arg(long)]
    form: Option<Uuid>,
    /// `failed` (the default), or `delivered`, which needs `--force`.
    #[arg(long)]
    state: Option<DeliveryState>,
    /// Only deliveries queued at this time or later: 2026-11-01, 2026-11-01T09:30:00Z, 2h or
    /// yesterday.
    #[arg(long)]
    since: Option<When>,
    /// Only deliveries queued before this time.
    #[arg(long)]
    until: Option<When>,
    /// Also deliveries that were delivered. The command asks first.
    #[arg(long)]
    force: bool,
    /// Deliveries per second.
    #[arg(long, default_value_t = RATE_PER_SECOND_DEFAULT)]
    rate: u32,
    /// An id of your own. A repeat with the same id begins no second replay.
    #[arg(long)]
    request_id: Option<Uuid>,
    /// Only print the number of selected deliveries and the seconds that they take; with --json
    /// also ten of their ids.
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    consent: ConsentArgs,
    #[command(flatten)]
    json: OutputArgs,
}

pub(crate) async fn run(storage: &StorageSettings, command: ReplaysCommand) -> anyhow::Result<()> {
    let system = databases::open(storage).await?;
    let service = &system.service;
    match command {
        ReplaysCommand::Start(start) => begin_replays(service, start).await?,
        ReplaysCommand::List(asked) => list_replays(service, asked).await?,
        ReplaysCommand::Show(ReplayShowArgs { one, watch }) => {
            let replay_id = find_replay(service, &one).await?;
            if watch {
                wait_for_end(service, replay_id, one.json).await?;
            }
            let view = replays::show(service, replay_id).await.map_err(terminal_error)?;
            print_replay(one.json, &view);
        }
        ReplaysCommand::Pause(one) => {
            let replay_id = find_replay(service, &one).await?;
            change_replay(service, replay_id, ReplayCommand::Pause, one.json).await?;
        }
        ReplaysCommand::Resume(one) => {
            let replay_id = find_replay(service, &one).await?;
            change_replay(service, replay_id, ReplayCommand::Resume, one.json).await?;
        }
        ReplaysCommand::Stop(stop) => end_replay(service, stop).await?,
    }
    system.stop().await
}

async fn find_replay(service: &Service, one: &ReplayArgs) -> anyhow::Result<Uuid> {
    names::find_id(service.store.pool(), NamedKind::Replay, &one.replay).await
}

/// Waits until a replay has ended.
async fn wait_for_end(service: &Service, replay_id: Uuid, how: OutputArgs) -> anyhow::Result<()> {
    let progress = Progress::new("deliveries", how);
    loop {
        let view = replays::show(service, replay_id).await.map_err(terminal_error)?;
        let waiting = view.outcomes.get(WAITING).copied().unwrap_or_default();
        let known: i64 = view.outcomes.values().sum();
        progress.at_position(known - waiting, view.row.selected);
        if view.row.ended_at.is_some() {
            progress.finish();
            return Ok(());
        }
        tokio::time::sleep(WATCH_INTERVAL).await;
    }
}

async fn begin_replays(service: &Service, start: ReplayStartArgs) -> anyhow::Result<()> {
    let pool = service.store.pool();
    let firm_ids = match names::id_of_any(pool, NamedKind::Firm, start.firm.as_deref()).await? {
        Some(firm_id) => vec![firm_id],
        None => firms::list(pool).await?.iter().map(|row| row.firm_id).collect(),
    };
    let request_id = start.request_id.unwrap_or_else(|| service.entropy.new_id());
    let selection = start.selection(service).await?;
    let of_firm = |firm_id: Uuid| start.new_replay(firm_id, request_id, selection.clone());
    let orders: Vec<NewReplay> = firm_ids.into_iter().map(of_firm).collect();
    let mut begun = Vec::new();
    let mut chosen = Vec::new();
    for new in orders {
        if let Some(first) = begun_before(service, &start, &new).await? {
            begun.push(first);
            continue;
        }
        let selected = replays::select(service, &new).await.map_err(terminal_error)?;
        if !start.all_firms || !selected.delivery_ids.is_empty() {
            chosen.push(ChosenReplay { new, selected });
        }
    }
    start.require_consent(&chosen)?;
    for ChosenReplay { new, selected } in chosen {
        let id = if start.dry_run {
            None
        } else {
            let begun = replays::start(service, &new, &selected, service.operator()).await;
            Some(begun.map_err(terminal_error)?)
        };
        begun.push(start.begun_json(new.firm_id, id, &selected));
    }
    BEGUN.print(start.json, begun);
    Ok(())
}

/// A replay with the deliveries to which the operator consents. No others are sent.
struct ChosenReplay {
    new: NewReplay,
    selected: SelectedDeliveries,
}

/// The replay that an earlier command with this request id began.
async fn begun_before(
    service: &Service,
    start: &ReplayStartArgs,
    new: &NewReplay,
) -> anyhow::Result<Option<Value>> {
    if start.dry_run {
        return Ok(None);
    }
    let first = replays::find_begun(service, new).await.map_err(terminal_error)?;
    Ok(first.map(|ReplayView { row, .. }| {
        json!({"id": row.replay_id, "firm_id": row.firm_id, "selected": row.selected,
               "skipped": null})
    }))
}

impl ReplayStartArgs {
    async fn selection(&self, service: &Service) -> anyhow::Result<ReplaySelection> {
        let pool = service.store.pool();
        let AuditPeriod { since, until } =
            names::past_period(self.since, self.until, service.clock.now())?;
        Ok(ReplaySelection {
            delivery_ids: names::find_ids(pool, NamedKind::Delivery, &self.delivery).await?,
            hook_id: names::id_of_any(pool, NamedKind::Hook, self.hook.as_deref()).await?,
            trigger: self.trigger,
            form_id: self.form,
            state: self.state,
            since,
            until,
        })
    }

    /// Delivered deliveries arrive at their receivers once more, and those of all firms are many.
    /// So the operator is asked first.
    fn require_consent(&self, chosen: &[ChosenReplay]) -> anyhow::Result<()> {
        if self.dry_run || chosen.is_empty() || !(self.force || self.all_firms) {
            return Ok(());
        }
        let count: usize = chosen.iter().map(|one| one.selected.delivery_ids.len()).sum();
        let also = if self.force { ", also those that were delivered" } else { "" };
        let consequences = format!("{count} deliveries are sent again{also}");
        Ok(confirm::require_consent(self.consent, &consequences, "replay")?)
    }

    fn new_replay(&self, firm_id: Uuid, request_id: Uuid, selection: ReplaySelection) -> NewReplay {
        NewReplay {
            firm_id,
            request_id,
            selection,
            reason: self.reason.clone(),
            force: self.force,
            rate_per_second: self.rate,
        }
    }

    /// A replay that begins, or would begin: how many deliveries, how long, and a sample.
    fn begun_json(&self, firm_id: Uuid, id: Option<Uuid>, selected: &SelectedDeliveries) -> Value {
        let count = selected.delivery_ids.len();
        json!({
            "id": id, "firm_id": firm_id, "selected": count, "skipped": selected.skipped.len(),
            "seconds": count.div_ceil(usize::try_from(self.rate.max(1)).unwrap_or(usize::MAX)),
            "sample": selected.delivery_ids.iter().take(SAMPLE).collect::<Vec<_>>(),
        })
    }
}

/// Ends a replay, which nobody can resume, so the operator is asked first.
async fn end_replay(service: &Service, stop: ReplayStopArgs) -> anyhow::Result<()> {
    let ReplayStopArgs { one, reason, consent } = stop;
    let replay_id = find_replay(service, &one).await?;
    let view = replays::show(service, replay_id).await.map_err(terminal_error)?;
    if view.row.ended_at.is_none() {
        let waiting = view.outcomes.get(WAITING).copied().unwrap_or_default();
        let consequences =
            format!("{waiting} deliveries of this replay are not sent, and nobody can resume it");
        confirm::require_consent(consent, &consequences, "stop")?;
    }
    change_replay(service, replay_id, ReplayCommand::Stop { reason }, one.json).await
}

async fn change_replay(
    service: &Service,
    replay_id: Uuid,
    command: ReplayCommand,
    how: OutputArgs,
) -> anyhow::Result<()> {
    let view = replays::change(service, replay_id, command, service.operator()).await;
    let view = view.map_err(terminal_error)?;
    print_replay(how, &view);
    Ok(())
}

fn print_replay(how: OutputArgs, view: &ReplayView) {
    let shown = json!({
        "id": view.row.replay_id, "firm_id": view.row.firm_id, "state": view.row.state,
        "reason": view.row.reason, "selected": view.row.selected, "outcomes": view.outcomes,
        "force": view.row.force, "rate_per_second": view.row.rate_per_second,
        "requested_at": Timestamp::from(view.row.requested_at),
        "ended_at": view.row.ended_at.map(Timestamp::from),
    });
    REPLAY.print(how, &shown);
}
