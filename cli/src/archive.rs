//! `archive`: copies whole segments of the log into files, verifies the files, and finds events in
//! them. Only `write` and `status` need a database.

mod args;
mod ranges;

use std::process::ExitCode;
use std::time::Instant;

use anyhow::{anyhow, bail};
use auditor::archive::{
    self, ArchiveFilter, ArchiveReader, ArchiveReport, ArchiveStep, ArchivedEvent, SegmentWriter,
    VerifiedPart,
};
use clap::{Args, Subcommand};
use domain::audit::{AuditPeriod, SegmentManifest};
use domain::values::Timestamp;
use eventstore::Clock;
use serde_json::{Value, json};
use service::StorageSettings;
use uuid::Uuid;

use self::args::{ArchivePlaceArgs, EXIT_FAILED, TrustedKeysArgs};
use self::ranges::{ArchiveAttachArgs, ArchiveDropArgs};
use crate::audit::args::TimeRangeArgs;
use crate::databases::MainDatabase;
use crate::failure;
use crate::output::{
    self, Column, ListTable, OutputArgs, RecordView, ReportArgs, Tone, print_json, print_note,
};
use crate::progress::Progress;

const SEGMENTS: ListTable = ListTable::new(
    &[
        Column::number("number"),
        Column::number("events"),
        Column::bytes("bytes"),
        Column::time("first_at"),
        Column::time("last_at"),
        Column::text("file"),
    ],
    "no whole segment of the log is old enough to be archived",
);

const STATUS: RecordView = RecordView::new(&[
    Column::number("segments"),
    Column::number("events"),
    Column::bytes("bytes"),
    Column::time("last_at"),
    Column::number("through"),
    Column::number("sealed_to"),
    Column::number("waiting"),
]);

const EVENTS: ListTable = ListTable::new(
    &[
        Column::number("position"),
        Column::time("at"),
        Column::id("event"),
        Column::id("kind"),
        Column::id("id"),
        Column::number("sequence"),
    ],
    "the archive has no such events",
);

/// The commands of the archive.
#[derive(Debug, Subcommand)]
pub(crate) enum ArchiveCommand {
    /// Copy and sign whole segments that are a day old.
    Write(ArchiveWriteArgs),
    /// Compare the end of the archive with the log.
    Status(ArchiveStatusArgs),
    /// Verify the archive by its files alone.
    Verify(ArchiveVerifyArgs),
    /// Show the archived events of a delivery or another stream.
    Show(ArchiveShowArgs),
    /// Find archived events by firm, type and time.
    Find(ArchiveFindArgs),
    /// Let archived ranges of the log leave the database.
    Drop(ArchiveDropArgs),
    /// Bring a range of the log back from the archive.
    Attach(ArchiveAttachArgs),
}

#[derive(Debug, Args)]
pub(crate) struct ArchiveWriteArgs {
    #[command(flatten)]
    place: ArchivePlaceArgs,
    /// The most segments to copy; each has 1,048,576 positions.
    #[arg(long, default_value_t = u64::MAX, hide_default_value = true)]
    limit: u64,
    #[command(flatten)]
    json: OutputArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ArchiveStatusArgs {
    #[command(flatten)]
    place: ArchivePlaceArgs,
    #[command(flatten)]
    json: ReportArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ArchiveVerifyArgs {
    #[command(flatten)]
    place: ArchivePlaceArgs,
    #[command(flatten)]
    keys: TrustedKeysArgs,
    /// Read only the events of this segment.
    #[arg(long)]
    segment: Option<u64>,
    #[command(flatten)]
    json: ReportArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ArchiveShowArgs {
    /// The whole id of the delivery, occurrence or other stream.
    id: String,
    #[command(flatten)]
    place: ArchivePlaceArgs,
    #[command(flatten)]
    keys: TrustedKeysArgs,
    #[command(flatten)]
    json: OutputArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ArchiveFindArgs {
    #[command(flatten)]
    place: ArchivePlaceArgs,
    #[command(flatten)]
    keys: TrustedKeysArgs,
    /// Only events of this firm, by its whole id.
    #[arg(long)]
    firm: Option<Uuid>,
    /// Only events of these types: `DeliveryAttempted`, `OccurrenceRecorded`, and so on.
    #[arg(long, value_delimiter = ',')]
    event_type: Vec<String>,
    #[command(flatten)]
    time: TimeRangeArgs,
    /// The most events to list.
    #[arg(long, default_value_t = 50)]
    limit: usize,
    #[command(flatten)]
    json: OutputArgs,
}

/// Says where a list of deliveries ends that was longer once.
pub(crate) fn note_archived(firm: Option<Uuid>, before: Option<Timestamp>) {
    let Some(time) = before else { return };
    let firm = firm.map(|firm| format!(" --firm {firm}")).unwrap_or_default();
    print_note(&format!(
        "deliveries before {time} have left: `firmforms archive find{firm} --until {time}` finds \
         their events"
    ));
}

pub(crate) async fn run(storage: &StorageSettings, command: ArchiveCommand) -> ExitCode {
    let ended = match command {
        ArchiveCommand::Write(asked) => write(storage, &asked).await,
        ArchiveCommand::Status(asked) => show_status(storage, &asked).await,
        ArchiveCommand::Verify(asked) => verify(storage, &asked),
        ArchiveCommand::Show(asked) => show_stream(storage, &asked),
        ArchiveCommand::Find(asked) => find(storage, &asked),
        ArchiveCommand::Drop(asked) => ranges::drop_old(storage, &asked).await,
        ArchiveCommand::Attach(asked) => ranges::attach(storage, &asked).await,
    };
    ended.unwrap_or_else(|error| {
        print_note(&failure::error_line(&error));
        ExitCode::from(EXIT_FAILED)
    })
}

async fn write(storage: &StorageSettings, asked: &ArchiveWriteArgs) -> anyhow::Result<ExitCode> {
    let database = MainDatabase::open_from(storage).await?;
    let notary = storage.signing_notary()?;
    let archive = asked.place.archive_url.open()?;
    let writer = SegmentWriter::new(&database.pool, &archive, &notary);
    let clock = Clock::of_database(&database.pool).await?;
    let mut segments = Vec::new();
    let ended = loop {
        if segments.len() as u64 >= asked.limit {
            break Ok(());
        }
        match writer.write_next(clock.now()).await {
            Ok(ArchiveStep::Archived(manifest)) => segments.push(segment_json(&manifest)),
            Ok(ArchiveStep::ArchivedElsewhere { .. }) => {}
            Ok(ArchiveStep::HeldElsewhere { holder }) => {
                break Err(anyhow!("{holder} archives now"));
            }
            Ok(ArchiveStep::Unsigned { number }) => {
                print_note(&format!(
                    "segment {number} waits for a signed checkpoint: `firmforms audit checkpoint`"
                ));
                break Ok(());
            }
            Ok(ArchiveStep::NotWhole { .. } | ArchiveStep::TooYoung { .. }) => break Ok(()),
            Err(error) => break Err(error.into()),
        }
    };
    database.close().await?;
    if !segments.is_empty() || ended.is_ok() {
        SEGMENTS.print(asked.json, segments);
    }
    ended?;
    Ok(ExitCode::SUCCESS)
}

fn segment_json(manifest: &SegmentManifest) -> Value {
    json!({
        "number": manifest.number, "events": manifest.events, "bytes": archived_bytes(manifest),
        "first_at": manifest.first_at, "last_at": manifest.last_at,
        "file": manifest.events_file.name,
    })
}

const fn archived_bytes(manifest: &SegmentManifest) -> u64 {
    manifest.events_file.bytes + manifest.index_file.bytes
}

async fn show_status(
    storage: &StorageSettings,
    asked: &ArchiveStatusArgs,
) -> anyhow::Result<ExitCode> {
    let database = MainDatabase::open_from(storage).await?;
    let archive = asked.place.archive_url.open()?;
    let notary = storage.notary();
    let writer = SegmentWriter::new(&database.pool, &archive, &notary);
    let standing = writer.standing().await;
    database.close().await?;
    let standing = standing?;
    let signed = archive.read_manifests()?;
    let sum = |of: fn(&SegmentManifest) -> u64| -> u64 {
        signed.iter().map(|signed| of(&signed.manifest)).sum()
    };
    let status = json!({
        "segments": signed.len(), "events": sum(|manifest| manifest.events),
        "bytes": sum(archived_bytes), "through": standing.through,
        "last_at": signed.iter().filter_map(|signed| signed.manifest.last_at).max(),
        "sealed_to": standing.sealed_to, "waiting": standing.waiting,
    });
    STATUS.print(asked.json.into(), &status);
    Ok(ExitCode::SUCCESS)
}

fn verify(storage: &StorageSettings, asked: &ArchiveVerifyArgs) -> anyhow::Result<ExitCode> {
    let archive = asked.place.archive_url.open()?;
    let trusted = asked.keys.read(storage)?;
    let part = asked
        .segment
        .map_or(VerifiedPart::All, |number| VerifiedPart::Segments { first: number, last: number });
    let progress = Progress::new("events", asked.json.into());
    let began = Instant::now();
    let verified = archive::verify(&archive, &trusted, part, |done, all| {
        progress.advance_to(done, all);
    });
    progress.finish();
    let report = verified?;
    if report.segments == 0 {
        bail!("{}: no segment is archived here", asked.place.archive_url);
    }
    if asked.json.json {
        print_json(&report_json(&report));
    } else {
        let seconds = began.elapsed().as_secs_f64();
        print_report(&report, seconds);
    }
    Ok(if report.flaws.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn print_report(report: &ArchiveReport, seconds: f64) {
    let ArchiveReport { segments, events, bytes, through, flaws } = report;
    for flaw in flaws {
        output::print_verdict("BROKEN", Tone::Bad, &format!(": {flaw}"));
    }
    if flaws.is_empty() {
        let rest = format!(": {segments} segments up to position {through}, {events} events read");
        output::print_verdict("intact", Tone::Good, &rest);
        print_note(&format!("{bytes} compressed bytes in {seconds:.1} s"));
    }
}

fn report_json(report: &ArchiveReport) -> Value {
    let ArchiveReport { segments, events, bytes, through, flaws } = report;
    json!({
        "verdict": if flaws.is_empty() { "intact" } else { "broken" },
        "segments": segments, "events": events, "bytes": bytes, "through": through,
        "flaws": flaws.iter().map(ToString::to_string).collect::<Vec<_>>(),
    })
}

fn show_stream(storage: &StorageSettings, asked: &ArchiveShowArgs) -> anyhow::Result<ExitCode> {
    let reader = ArchiveReader::open(asked.place.archive_url.open()?, &asked.keys.read(storage)?)?;
    let text = asked.id.trim();
    let id = Uuid::try_parse(text).map_or_else(|_| text.to_owned(), |id| id.to_string());
    let events = reader.find_streams(&[id])?;
    print_events(asked.json, &events)
}

fn find(storage: &StorageSettings, asked: &ArchiveFindArgs) -> anyhow::Result<ExitCode> {
    let reader = ArchiveReader::open(asked.place.archive_url.open()?, &asked.keys.read(storage)?)?;
    let now = Timestamp::new(output::current_time());
    let AuditPeriod { since, until } = asked.time.period(now)?;
    let event_types = asked.event_type.clone();
    let filter = ArchiveFilter { firm_id: asked.firm, event_types, since, until };
    let mut events = Vec::new();
    reader.find(&filter, |event| {
        events.push(event);
        events.len() <= asked.limit
    })?;
    let is_cut = events.len() > asked.limit;
    events.truncate(asked.limit);
    let ended = print_events(asked.json, &events)?;
    if is_cut && asked.json.is_text() {
        print_note("there are more: ask for more by --limit, or for a later time by --since");
    }
    Ok(ended)
}

/// Prints events: whole ones as JSON, else their columns.
fn print_events(how: OutputArgs, events: &[ArchivedEvent]) -> anyhow::Result<ExitCode> {
    let item = |event: &ArchivedEvent| -> anyhow::Result<Value> {
        let whole: Value = serde_json::from_str(event.event.get())?;
        if how.json {
            return Ok(json!({"position": event.position, "event": whole}));
        }
        Ok(json!({
            "position": event.position, "at": whole["recorded_at"], "event": whole["event_type"],
            "kind": whole["aggregate_type"], "id": whole["aggregate_id"],
            "sequence": whole["sequence"],
        }))
    };
    let items = events.iter().map(item).collect::<anyhow::Result<Vec<Value>>>()?;
    EVENTS.print(how, items);
    Ok(ExitCode::SUCCESS)
}
