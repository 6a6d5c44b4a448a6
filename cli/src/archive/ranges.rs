//! `archive drop` lets ranges of the log leave the database, and `archive attach` brings one back.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use auditor::archive::{ArchiveReader, attach_range};
use clap::{Args, value_parser};
use domain::event::Actor;
use eventstore::ranges::{StoredRange, dropped_ranges};
use eventstore::{Clock, Store};
use serde_json::{Value, json};
use service::StorageSettings;
use service::dropping::{DropLook, RangeDropper};
use vault::SystemEntropy;

use super::args::{ArchivePlaceArgs, EXIT_FAILED, TrustedKeysArgs};
use crate::databases::MainDatabase;
use crate::operator;
use crate::output::{Column, ListTable, OutputArgs, RecordView, ReportArgs, print_note};
use crate::progress::Progress;
use crate::shared_args::DAYS_MAX;

const DROPPED: ListTable = ListTable::new(
    &[
        Column::number("range"),
        Column::number("first_position"),
        Column::number("last_position"),
        Column::text("state"),
    ],
    "no range of the log is old enough to leave",
);

const ATTACHED: RecordView = RecordView::new(&[
    Column::number("range"),
    Column::number("first_position"),
    Column::number("last_position"),
    Column::number("events"),
]);

#[derive(Debug, Args)]
pub(crate) struct ArchiveDropArgs {
    #[command(flatten)]
    place: ArchivePlaceArgs,
    /// Keep ranges whose last event is younger than this.
    #[arg(long, value_name = "DAYS", value_parser = value_parser!(u32).range(..=DAYS_MAX))]
    keep_days: u32,
    /// Say what would leave, and change nothing.
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    json: OutputArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ArchiveAttachArgs {
    /// The number of the range, as `archive drop` printed it. -1 is the log before there were
    /// ranges.
    #[arg(allow_negative_numbers = true)]
    range: i64,
    #[command(flatten)]
    place: ArchivePlaceArgs,
    #[command(flatten)]
    keys: TrustedKeysArgs,
    #[command(flatten)]
    json: ReportArgs,
}

/// Lets ranges leave, the oldest first, until one stays.
pub(super) async fn drop_old(
    storage: &StorageSettings,
    asked: &ArchiveDropArgs,
) -> anyhow::Result<ExitCode> {
    let database = MainDatabase::open_from(storage).await?;
    let operator = operator::at_terminal(storage, &database.pool).await?;
    let clock = Clock::of_database(&database.pool).await?;
    let dropper = RangeDropper {
        store: Store::new(database.pool.clone(), Vec::new()),
        archive: asked.place.archive_url.open()?,
        notary: storage.signing_notary()?,
        keep_for: Duration::from_secs(u64::from(asked.keep_days) * 86_400),
        actor: Actor::NamedOperator(operator.name),
        takes_attached: true,
    };
    let mut rows = Vec::new();
    let kept = loop {
        match dropper.drop_next(&SystemEntropy, clock.now(), asked.dry_run).await? {
            DropLook::Dropped(range) => rows.push(range_json(range, "dropped")),
            DropLook::Droppable(range) => {
                rows.push(range_json(range, "can leave"));
                break None;
            }
            DropLook::Empty => break None,
            DropLook::Kept(range, why) => break Some((range, why)),
        }
    };
    database.close().await?;
    DROPPED.print(asked.json, rows);
    let Some((range, why)) = kept else { return Ok(ExitCode::SUCCESS) };
    print_note(&format!("the range {} stays: {why}", range.number));
    Ok(if why.is_fault() { ExitCode::from(EXIT_FAILED) } else { ExitCode::SUCCESS })
}

fn range_json(range: StoredRange, state: &str) -> Value {
    json!({
        "range": range.number, "first_position": range.first_position,
        "last_position": range.last_position, "state": state,
    })
}

/// Brings a range back. The database's login must own the tables.
pub(super) async fn attach(
    storage: &StorageSettings,
    asked: &ArchiveAttachArgs,
) -> anyhow::Result<ExitCode> {
    let trusted = asked.keys.read(storage)?;
    let archive = ArchiveReader::open(asked.place.archive_url.open()?, &trusted)?;
    let database = MainDatabase::open_from(storage).await?;
    let dropped = dropped_ranges(&mut *database.pool.acquire().await?).await?;
    let range = dropped.iter().map(|one| one.range).find(|range| range.number == asked.range);
    let Some(range) = range else {
        let numbers: Vec<String> = dropped.iter().map(|one| one.range.number.to_string()).collect();
        ensure!(!numbers.is_empty(), "no range has left the database");
        bail!("no such range has left the database: these have: {}", numbers.join(", "));
    };
    let progress = Progress::new("events", asked.json.into());
    let told = |position| progress.at_position(position, range.last_position);
    let attached = attach_range(&database.pool, &archive, range, told).await;
    progress.finish();
    database.close().await?;
    let events = attached.context("the login of the database must own its tables")?;
    ATTACHED.print(
        asked.json.into(),
        &json!({
            "range": range.number, "first_position": range.first_position,
            "last_position": range.last_position, "events": events,
        }),
    );
    Ok(ExitCode::SUCCESS)
}
