//! This module has the one insert into the log. One statement inserts events of any number of
//! streams.

use std::collections::HashMap;

use chrono::{DateTime, Utc};
use serde_json::value::RawValue;
use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row};
use uuid::Uuid;

use crate::digest::{DigestInput, canonical_json, event_digest};
use crate::error::AppendError;
use crate::event::{NewEvent, RecordedEvent};
use crate::joined::JoinedWrites;
use crate::positions::{self, cursor_column};

/// The treatment of an event whose sequence is taken in its stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnConflict {
    /// The insert fails as a conflict, and nothing is appended.
    Refuse,
    /// The event is left out, because it was appended before.
    Skip,
}

/// Inserts the events in order and returns the new ones with their positions. The joined writes are
/// sent with them.
pub(crate) async fn insert_events(
    connection: &mut PgConnection,
    writes: &mut JoinedWrites,
    events: Vec<NewEvent>,
    taken: OnConflict,
) -> Result<Vec<RecordedEvent>, AppendError> {
    if events.is_empty() {
        return Ok(Vec::new());
    }
    let columns = EventColumns::new(&events)?;
    let digests = columns.digests.clone();
    let insert = writes.add_rows(
        events.len(),
        match taken {
            OnConflict::Refuse => {
                concat!(
                    "appended as (",
                    insert_sql!(""),
                    " returning position, ",
                    cursor_column!(),
                    ")"
                )
            }
            OnConflict::Skip => concat!(
                "appended as (",
                insert_sql!(""),
                " on conflict do nothing returning position, ",
                cursor_column!(),
                ", aggregate_type, aggregate_id, sequence)"
            ),
        },
    );
    columns.bind(insert);
    let rows = writes.fetch_all(connection, "* from appended").await?;
    if let Some(first) = rows.first() {
        positions::require_above(connection, first.try_get(0)?, first.try_get(1)?).await?;
    }
    let positions = match taken {
        OnConflict::Refuse => in_order(&events, &rows)?,
        OnConflict::Skip => by_sequence(&events, &rows)?,
    };
    Ok(recorded_events(events, digests, positions))
}

/// Inserts the events in order, in one statement with the joined writes, and returns them with
/// their positions. The statement is a transaction of its own, so it is refused as a conflict
/// unless the conditions of the writes hold and no follower has passed its positions. The writes
/// can read `(select all_of_them from positions)`, the positions of the events in their order.
pub(crate) async fn insert_at_once(
    connection: &mut PgConnection,
    mut writes: JoinedWrites,
    events: Vec<NewEvent>,
) -> Result<Vec<RecordedEvent>, AppendError> {
    let columns = EventColumns::new(&events)?;
    let digests = columns.digests.clone();
    let insert = concat!(
        "appended as (",
        insert_sql!("where (select holds from fresh)"),
        " returning position),
         positions as materialized (
             select array_agg(position order by position) as all_of_them,
                    count(*) = $12 as are_all from appended)"
    );
    let rows = writes.add_rows(events.len(), insert);
    columns.bind(rows);
    rows.bind(i64::try_from(events.len()).unwrap_or(i64::MAX));
    let confirmed =
        "all_of_them, confirm_append(all_of_them[1], are_all and (select holds from fresh))
                     from positions";
    let row = writes.fetch_confirmed(connection, confirmed).await?;
    let positions: Vec<i64> = row.try_get(0)?;
    Ok(recorded_events(events, digests, positions.into_iter().map(Some).collect()))
}

macro_rules! insert_sql {
    ($condition:literal) => {
        concat!(
            "insert into events (aggregate_type, aggregate_id, sequence, event_type, event_version,
                             payload, metadata, firm_id, recorded_at, digest)
         select t.aggregate_type, t.aggregate_id, t.sequence, t.event_type, t.event_version,
                t.payload::json, t.metadata::json, t.firm_id, t.recorded_at, t.digest
           from rows($1::text, $2::text, $3::bigint, $4::text, $5::text, $6::text, $7::text,
                     $8::uuid, $9::timestamptz, $10::bytea, $11::bigint)
                as t(aggregate_type, aggregate_id, sequence, event_type, event_version, payload,
                     metadata, firm_id, recorded_at, digest, place) ",
            $condition,
            " order by t.place"
        )
    };
}
use insert_sql;

/// Returns each event's position. The log leaves an event out whose place is taken, which is a
/// conflict here. PostgreSQL returns the rows in the order of insertion, which is the order of the
/// events.
fn in_order(events: &[NewEvent], rows: &[PgRow]) -> Result<Vec<Option<i64>>, AppendError> {
    if rows.len() != events.len() {
        return Err(AppendError::Conflict);
    }
    Ok(rows.iter().map(|row| row.try_get(0).map(Some)).collect::<Result<_, _>>()?)
}

/// Returns each event's position, found by stream and sequence. An event that was left out has
/// `None`.
fn by_sequence(events: &[NewEvent], rows: &[PgRow]) -> Result<Vec<Option<i64>>, sqlx::Error> {
    let mut inserted: HashMap<(&str, &str, i64), i64> = HashMap::with_capacity(rows.len());
    for row in rows {
        inserted.insert((row.try_get(2)?, row.try_get(3)?, row.try_get(4)?), row.try_get(0)?);
    }
    let positions = events.iter().map(|new| {
        let place = (new.event.aggregate_type(), new.aggregate_id.as_str(), new.sequence);
        inserted.remove(&place)
    });
    Ok(positions.collect())
}

/// Returns the events that have a position, in their order.
fn recorded_events(
    events: Vec<NewEvent>,
    digests: Vec<[u8; 32]>,
    positions: Vec<Option<i64>>,
) -> Vec<RecordedEvent> {
    let recorded = |((new, digest), position): ((NewEvent, _), Option<i64>)| {
        Some(RecordedEvent {
            position: position?,
            digest,
            aggregate_id: new.aggregate_id,
            sequence: new.sequence,
            event: new.event,
            context: new.context,
        })
    };
    events.into_iter().zip(digests).zip(positions).filter_map(recorded).collect()
}

#[derive(Default)]
struct EventColumns {
    aggregate_types: Vec<&'static str>,
    aggregate_ids: Vec<String>,
    sequences: Vec<i64>,
    event_types: Vec<&'static str>,
    event_versions: Vec<&'static str>,
    payloads: Vec<String>,
    metadata: Vec<String>,
    firm_ids: Vec<Uuid>,
    recorded_at: Vec<DateTime<Utc>>,
    digests: Vec<[u8; 32]>,
}

impl EventColumns {
    fn bind(self, insert: &mut JoinedWrites) {
        let places = (1..).take(self.sequences.len()).collect::<Vec<i64>>();
        insert
            .bind_column(self.aggregate_types)
            .bind_column(self.aggregate_ids)
            .bind_column(self.sequences)
            .bind_column(self.event_types)
            .bind_column(self.event_versions)
            .bind_column(self.payloads)
            .bind_column(self.metadata)
            .bind_column(self.firm_ids)
            .bind_column(self.recorded_at)
            .bind_column(self.digests)
            .bind_column(places);
    }

    fn new(events: &[NewEvent]) -> Result<Self, AppendError> {
        let mut columns = Self::default();
        for event in events {
            columns
                .push_event(event)
                .map_err(|error| AppendError::Unreadable(error.to_string()))?;
        }
        Ok(columns)
    }

    fn push_event(&mut self, new: &NewEvent) -> serde_json::Result<()> {
        let payload = canonical_json(&new.event)?;
        let metadata = new.context.to_metadata()?;
        let event_version = new.event.version();
        let digest = event_digest(&DigestInput {
            aggregate_id: &new.aggregate_id,
            aggregate_type: new.event.aggregate_type(),
            event_type: new.event.event_type(),
            event_version,
            firm_id: new.context.firm_id,
            metadata: &metadata,
            payload: &payload,
            recorded_at: new.context.recorded_at,
            sequence: new.sequence,
        })?;
        self.aggregate_types.push(new.event.aggregate_type());
        self.aggregate_ids.push(new.aggregate_id.clone());
        self.sequences.push(new.sequence);
        self.event_types.push(new.event.event_type());
        self.event_versions.push(event_version);
        self.payloads.push(json_text(payload));
        self.metadata.push(json_text(metadata));
        self.firm_ids.push(new.context.firm_id);
        self.recorded_at.push(new.context.recorded_at.get());
        self.digests.push(digest);
        Ok(())
    }
}

fn json_text(json: Box<RawValue>) -> String {
    String::from(Box::<str>::from(json))
}
