//! Loading streams inside a transaction: for those who decide about more than one command can.

use std::collections::HashMap;

use cqrs_es::Aggregate;
use domain::event::{Event, UnreadableEvent};
use sqlx::PgConnection;
use uuid::Uuid;

use crate::append::RecordedEvent;
use crate::error::AppendError;
use crate::tail::{TailError, events_where, read_all};
use crate::upcast::Upcasters;

/// Which stream: its kind, and its id there.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamName {
    /// The kind: the aggregate's `TYPE`.
    pub aggregate_type: &'static str,
    /// The id.
    pub aggregate_id: String,
}

/// All events of these streams, each stream's in its order. Nothing is locked: what is decided
/// about them stands once their next place in the stream is taken.
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

/// The first event of each of these streams.
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

/// One stream as its aggregate, and the place of its last event; 0 if it has none.
///
/// # Errors
/// [`AppendError`].
pub async fn load<A>(
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

/// Several streams as their aggregates, each with the place of its last event; those without events
/// are left out.
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
