//! `events`: one event of the log with its causes and effects, and the events of an object.

use anyhow::Context;
use api::Service;
use api::commands::readings;
use api::queries::events::{self, EVENTS_LIMIT_DEFAULT, EventRef};
use clap::{Args, Subcommand};
use domain::operations::{ReadAs, ReadingDetails, ReadingSubject};
use serde_json::json;
use service::StorageSettings;
use uuid::Uuid;

use super::why::step_line;
use super::{list_field, text_field};
use crate::databases;
use crate::failure::terminal_error;
use crate::names::{self, NamedKind};
use crate::output::{
    Column, ListTable, OutputArgs, RecordView, ReportArgs, print_json, print_line, print_note,
};

const EVENT: RecordView = RecordView::new(&[
    Column::number("position"),
    Column::id("event_id"),
    Column::id("type"),
    Column::text("sentence"),
    Column::time("at"),
    Column::text("by"),
    Column::text("terminal"),
    Column::id("firm_id"),
    Column::id("object"),
    Column::number("sequence"),
    Column::text("facts"),
    Column::id("digest"),
    Column::text("entry"),
]);

const EVENTS: ListTable = ListTable::new(
    &[
        Column::number("position"),
        Column::time("at"),
        Column::text("event"),
        Column::text("by"),
        Column::prose("sentence"),
    ],
    "no further events",
);

/// The commands of events.
#[derive(Debug, Subcommand)]
pub(crate) enum EventsCommand {
    /// Show an event of the log, with its causes and effects.
    Show(EventShowArgs),
    /// List the events of one object, oldest first.
    Of(EventListArgs),
}

#[derive(Debug, Args)]
pub(crate) struct EventShowArgs {
    /// The event: its position in the log, or its id if it has an entry in the audit log.
    event: String,
    #[command(flatten)]
    json: ReportArgs,
}

#[derive(Debug, Args)]
pub(crate) struct EventListArgs {
    /// The object: its id, the beginning of its id, or a firm's name.
    object: String,
    /// The kind of its stream, if streams of several kinds have this id: Firm, Key, Delivery, ...
    #[arg(long, value_parser = kind)]
    kind: Option<&'static str>,
    /// Only events after this position: the last one of the page before.
    #[arg(long)]
    after: Option<i64>,
    /// The most events to list, up to 500.
    #[arg(long, default_value_t = EVENTS_LIMIT_DEFAULT)]
    limit: i64,
    #[command(flatten)]
    json: OutputArgs,
}

fn kind(text: &str) -> Result<&'static str, String> {
    let known = || format!("one of {}", domain::event::Event::KINDS.join(", "));
    events::stream_kind(text).ok_or_else(known)
}

pub(crate) async fn run(storage: &StorageSettings, command: EventsCommand) -> anyhow::Result<()> {
    let system = databases::open(storage).await?;
    match command {
        EventsCommand::Show(asked) => show_event(&system.service, &asked).await?,
        EventsCommand::Of(asked) => of_object(&system.service, &asked).await?,
    }
    system.stop().await
}

async fn show_event(service: &Service, asked: &EventShowArgs) -> anyhow::Result<()> {
    let event = EventRef::read(asked.event.trim());
    let event = event.context("the event is a position of the log, or a whole id")?;
    let shown = events::show(service, event).await.map_err(terminal_error)?;
    record_reading(service, shown.firm_id).await?;
    let mut shown = json!(shown);
    if asked.json.json {
        print_json(&shown);
        return Ok(());
    }
    let object = format!("{} {}", text_field(&shown, "kind"), text_field(&shown, "id"));
    shown["object"] = object.into();
    shown["type"] = shown["event"].take();
    shown["facts"] = shown["facts"].to_string().into();
    EVENT.print(asked.json.into(), &shown);
    for (word, field) in [("cause", "causes"), ("effect", "effects")] {
        list_field(&shown, field)
            .for_each(|step| print_line(&format!("{word}: {}", step_line(step))));
    }
    Ok(())
}

async fn of_object(service: &Service, asked: &EventListArgs) -> anyhow::Result<()> {
    let id = names::find_id(service.store.pool(), NamedKind::Stream, &asked.object).await?;
    let id = id.to_string();
    let found = events::of_stream(service, asked.kind, &id, asked.after, Some(asked.limit)).await;
    let page = found.map_err(terminal_error)?;
    record_reading(service, page.firm_id).await?;
    EVENTS.print(asked.json, page.items.iter().map(|step| json!(step)).collect());
    if let Some(next) = page.next.filter(|_| asked.json.is_text()) {
        print_note(&format!("there may be more: --after {next}"));
    }
    Ok(())
}

/// Records the reading in the chain of the event's firm.
async fn record_reading(service: &Service, firm_id: Uuid) -> anyhow::Result<()> {
    let look = ReadingDetails::at(ReadingSubject::Events, ReadAs::Page);
    readings::record(service, firm_id, service.operator(), look).await.map_err(terminal_error)
}
