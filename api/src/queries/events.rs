//! Events of the log, for operators and auditors: one event with its causes and effects, and the
//! events of a stream. Personal data stays out, as in the audit log.

use std::borrow::Cow;

use domain::event::{Event, event_facts};
use eventstore::{RecordedEvent, Upcasters, related};
use projector::audit;
use serde::Serialize;
use serde_json::{Value, json};
use sqlx::PgConnection;
use uuid::Uuid;

use super::as_of::unread_error;
use super::causes::{self, CauseStep};
use super::listing::checked_limit;
use crate::error::Error;
use crate::service::Service;

/// Events in a page, if the caller asks for no number.
pub const EVENTS_LIMIT_DEFAULT: i64 = 50;

/// One event, or the name of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventRef {
    /// The position in the log.
    Position(i64),
    /// The id. Only events with an audit entry are found by it.
    Id(Uuid),
}

impl EventRef {
    /// Reads a position or an id.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        let position = text.parse().ok().filter(|position| *position > 0).map(Self::Position);
        position.or_else(|| domain::values::parse_id(text).map(Self::Id))
    }
}

/// An event with its surroundings.
#[derive(Debug, Serialize)]
pub struct ShownEvent {
    /// The event as a step.
    #[serde(flatten)]
    pub step: CauseStep,
    /// The firm, or the nil UUID for the installation.
    pub firm_id: Uuid,
    sequence: i64,
    version: &'static str,
    correlation_id: Uuid,
    trace: Option<String>,
    /// The operator's terminal, if the command was given at one.
    terminal: Option<Value>,
    digest: String,
    /// The content, without personal data.
    facts: Value,
    /// The entry of the audit log, if the event has one.
    entry: Option<Value>,
    /// The events that caused this one, the nearest first.
    causes: Vec<CauseStep>,
    /// The events that this one caused in its transaction, in order.
    effects: Vec<CauseStep>,
}

/// Events of a stream, in order.
#[derive(Debug, Serialize)]
pub struct StreamPage {
    /// The firm, or the nil UUID for the installation.
    #[serde(skip)]
    pub firm_id: Uuid,
    /// The events.
    pub items: Vec<CauseStep>,
    /// The position of the last event, if the page is full.
    pub next: Option<String>,
}

/// Shows an event.
///
/// # Errors
/// `not_found`.
pub async fn show(service: &Service, event: EventRef) -> Result<ShownEvent, Error> {
    let mut connection = service.store.pool().acquire().await?;
    let upcasters = service.store.upcasters();
    let recorded = find_event(&mut connection, event).await?.ok_or(Error::NotFound)?;
    let up =
        related::causes_of(&mut connection, &upcasters, &recorded).await.map_err(unread_error)?;
    let down =
        related::effects_of(&mut connection, &upcasters, &recorded).await.map_err(unread_error)?;
    drop(connection);
    let entry = audit::find_at(service.store.pool(), recorded.position).await?;
    let all = [&recorded].into_iter().chain(&up).chain(&down);
    let names = causes::find_names(service, all).await?;
    let steps = |events: &[RecordedEvent]| -> Vec<CauseStep> {
        events.iter().map(|event| CauseStep::new(event, &names, service.words)).collect()
    };
    Ok(ShownEvent {
        step: CauseStep::new(&recorded, &names, service.words),
        firm_id: recorded.context.firm_id,
        sequence: recorded.sequence,
        version: recorded.event.version(),
        correlation_id: recorded.context.correlation_id,
        trace: recorded.context.traceparent.map(|trace| trace.to_string()),
        terminal: recorded.context.terminal.as_ref().map(|terminal| json!(**terminal)),
        digest: hex::encode(recorded.digest),
        facts: event_facts(&recorded.event),
        entry: entry.map(|row| json!({"sequence": row.sequence, "hash": hex::encode(row.hash)})),
        causes: steps(&up),
        effects: steps(&down),
    })
}

async fn find_event(
    connection: &mut PgConnection,
    event: EventRef,
) -> Result<Option<RecordedEvent>, Error> {
    let position = match event {
        EventRef::Position(position) => Some(position),
        EventRef::Id(event_id) => audit::position_of_event(connection, event_id).await?,
    };
    let Some(position) = position else { return Ok(None) };
    let upcasters = Upcasters::current();
    related::find_at(connection, &upcasters, position).await.map_err(unread_error)
}

/// The kind of a stream, as a caller writes it.
#[must_use]
pub fn stream_kind(text: &str) -> Option<&'static str> {
    Event::KINDS.iter().copied().find(|kind| kind.eq_ignore_ascii_case(text))
}

/// Events of a stream, after a position of the log. Without a kind, the stream of any kind with
/// this id.
///
/// # Errors
/// `invalid_request`; `not_found`.
pub async fn of_stream(
    service: &Service,
    kind: Option<&'static str>,
    id: &str,
    after: Option<i64>,
    limit: Option<i64>,
) -> Result<StreamPage, Error> {
    let limit = checked_limit(limit.unwrap_or(EVENTS_LIMIT_DEFAULT))?;
    let kinds = kind.map_or(Cow::Borrowed(Event::KINDS), |kind| Cow::Owned(vec![kind]));
    let mut connection = service.store.pool().acquire().await?;
    let upcasters = service.store.upcasters();
    let wanted = related::StreamStretch { kinds: &kinds, id, after: after.unwrap_or(0), limit };
    let events =
        related::of_stream(&mut connection, &upcasters, wanted).await.map_err(unread_error)?;
    drop(connection);
    let first = events.first().ok_or(Error::NotFound)?;
    let firm_id = first.context.firm_id;
    let names = causes::find_names(service, events.iter()).await?;
    let full = i64::try_from(events.len()) == Ok(limit);
    let next = events.last().filter(|_| full).map(|last| last.position.to_string());
    // Streams of one id and of two firms are never shown together.
    let own = events.iter().filter(|event| event.context.firm_id == firm_id);
    let items = own.map(|event| CauseStep::new(event, &names, service.words)).collect();
    Ok(StreamPage { firm_id, items, next })
}
