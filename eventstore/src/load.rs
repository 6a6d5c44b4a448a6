//! This module loads streams inside a transaction. Callers use it that decide about several streams
//! at once.

use std::collections::HashMap;

use chrono::{DateTime, Utc};
use cqrs_es::Aggregate;
use domain::event::{Event, UnreadableEvent};
use sqlx::PgConnection;
use uuid::Uuid;

use crate::error::AppendError;
use crate::event::RecordedEvent;
use crate::stored_event::events_where;
use crate::tail::{TailError, read_all};
use crate::upcast::Upcasters;

/// The name of a stream: its kind and its id.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamName {
    /// The kind: the `TYPE` of the aggregate.
    pub aggregate_type: &'static str,
    /// The id of the stream.
    pub aggregate_id: String,
}

/// Loads all events of these streams, each stream's in its order. The call locks nothing. A
/// decision holds if its append gets the next sequence of each stream.
///
/// # Errors
/// [`TailError`]; with [`TailError::Unreadable`], nothing is handed out.
pub async fn load_many(
    connection: &mut PgConnection,
    upcasters: &Upcasters,
    streams: &[StreamName],
) -> Result<Vec<RecordedEvent>, TailError> {
    let (kinds, ids): (Vec<&str>, Vec<&str>) =
        streams.iter().map(|stream| (stream.aggregate_type, stream.aggregate_id.as_str())).unzip();
    let statement = sqlx::query(events_where!(
        "(aggregate_type, aggregate_id) in (select * from unnest($1::text[], $2::text[]))
          order by aggregate_type, aggregate_id, sequence"
    ))
    .bind(kinds)
    .bind(ids);
    read_all(statement, connection, upcasters).await
}

/// Loads the first event of each of these streams.
///
/// # Errors
/// [`TailError`]; with [`TailError::Unreadable`], nothing is handed out.
pub async fn load_first(
    connection: &mut PgConnection,
    upcasters: &Upcasters,
    aggregate_type: &str,
    aggregate_ids: &[&str],
) -> Result<Vec<RecordedEvent>, TailError> {
    // The limit keeps the planner from reading every first event of the type.
    let statement = sqlx::query(concat!(
        "select first.* from unnest($2::text[]) as asked(id)
          cross join lateral (",
        events_where!("aggregate_type = $1 and aggregate_id = asked.id and sequence = 1 limit 1"),
        ") first"
    ))
    .bind(aggregate_type)
    .bind(aggregate_ids);
    read_all(statement, connection, upcasters).await
}

/// Returns when the first event of this type was recorded in each of these streams.
pub async fn load_recorded_at(
    connection: &mut PgConnection,
    aggregate_type: &str,
    event_type: &str,
    aggregate_ids: &[String],
) -> Result<HashMap<String, DateTime<Utc>>, sqlx::Error> {
    let rows: Vec<(String, DateTime<Utc>)> = sqlx::query_as(
        "select asked.id, first.recorded_at from unnest($3::text[]) as asked(id)
          cross join lateral (
                select recorded_at from events
                 where aggregate_type = $1 and aggregate_id = asked.id and event_type = $2
                 order by sequence limit 1) first",
    )
    .bind(aggregate_type)
    .bind(event_type)
    .bind(aggregate_ids)
    .fetch_all(connection)
    .await?;
    Ok(rows.into_iter().collect())
}

/// Loads one stream as its aggregate, with the sequence of its last event. An empty stream has 0.
///
/// # Errors
/// [`AppendError`].
pub async fn load_aggregate<A>(
    connection: &mut PgConnection,
    upcasters: &Upcasters,
    aggregate_id: &str,
) -> Result<(A, i64), AppendError>
where
    A: Aggregate,
    A::Event: TryFrom<Event, Error = UnreadableEvent>,
{
    let stream = StreamName { aggregate_type: A::TYPE, aggregate_id: aggregate_id.to_owned() };
    let mut aggregate = A::default();
    let mut last = 0;
    for recorded in load_many(connection, upcasters, &[stream]).await? {
        last = recorded.sequence;
        aggregate.apply(
            recorded
                .event
                .try_into()
                .map_err(|error: UnreadableEvent| AppendError::Unreadable(error.to_string()))?,
        );
    }
    Ok((aggregate, last))
}

/// Loads several streams as their aggregates, each with the sequence of its last event. Empty
/// streams are left out.
///
/// # Errors
/// [`AppendError`].
pub async fn load_all<A>(
    connection: &mut PgConnection,
    upcasters: &Upcasters,
    aggregate_ids: &[Uuid],
) -> Result<HashMap<Uuid, (A, i64)>, AppendError>
where
    A: Aggregate,
    A::Event: TryFrom<Event, Error = UnreadableEvent>,
{
    let streams: Vec<StreamName> = aggregate_ids
        .iter()
        .map(|id| StreamName { aggregate_type: A::TYPE, aggregate_id: id.to_string() })
        .collect();
    let unreadable = |why: String| AppendError::Unreadable(why);
    let mut loaded: HashMap<Uuid, (A, i64)> = HashMap::new();
    for recorded in load_many(connection, upcasters, &streams).await? {
        let id = recorded.aggregate_id.parse().map_err(|_| unreadable(recorded.aggregate_id))?;
        let event =
            recorded.event.try_into().map_err(|e: UnreadableEvent| unreadable(e.to_string()))?;
        let (aggregate, last) = loaded.entry(id).or_insert_with(|| (A::default(), 0));
        aggregate.apply(event);
        *last = recorded.sequence;
    }
    Ok(loaded)
}
