//! Events related to one event: the event that caused it, and the events that it caused.
//!
//! Cause and effect are appended in one transaction, so their positions are close. No index leads
//! from one to the other: the search reads a bounded range of positions.

use sqlx::PgConnection;

use crate::event::RecordedEvent;
use crate::stored_event::events_where;
use crate::tail::{TailError, read_all};
use crate::upcast::Upcasters;

/// Positions between a cause and its last effect. A firm has at most some hundred keys and
/// subscriptions that go at once. Concurrent appends take positions in between.
const POSITIONS_APART: i64 = 5_000;

/// The event at this position, if there is one.
pub async fn find_at(
    connection: &mut PgConnection,
    upcasters: &Upcasters,
    position: i64,
) -> Result<Option<RecordedEvent>, TailError> {
    let statement = sqlx::query(events_where!("position = $1")).bind(position);
    Ok(read_all(statement, connection, upcasters).await?.pop())
}

/// A stretch of the streams with one id.
#[derive(Debug, Clone, Copy)]
pub struct StreamStretch<'a> {
    /// The kinds of the streams.
    pub kinds: &'a [&'a str],
    /// The id of the streams.
    pub id: &'a str,
    /// Only events after this position.
    pub after: i64,
    /// Events, at most.
    pub limit: i64,
}

/// The events of a stretch, in the order of the log.
pub async fn of_stream(
    connection: &mut PgConnection,
    upcasters: &Upcasters,
    StreamStretch { kinds, id, after, limit }: StreamStretch<'_>,
) -> Result<Vec<RecordedEvent>, TailError> {
    let statement = sqlx::query(events_where!(
        "(aggregate_type, aggregate_id) in (select kind, $2 from unnest($1::text[]) as t(kind))
            and position > $3 order by position limit $4"
    ))
    .bind(kinds)
    .bind(id)
    .bind(after)
    .bind(limit);
    read_all(statement, connection, upcasters).await
}

/// The event that caused this one, if it names one of its own transaction.
pub async fn cause_of(
    connection: &mut PgConnection,
    upcasters: &Upcasters,
    effect: &RecordedEvent,
) -> Result<Option<RecordedEvent>, TailError> {
    let Some(cause) = effect.context.causation_id else { return Ok(None) };
    let statement = sqlx::query(events_where!(
        "position >= $1 - $2 and position < $1 and firm_id = $3
            and metadata->>'correlation_id' = $4 order by position desc"
    ))
    .bind(effect.position)
    .bind(POSITIONS_APART)
    .bind(effect.context.firm_id)
    .bind(effect.context.correlation_id.to_string());
    let before = read_all(statement, connection, upcasters).await?;
    Ok(before.into_iter().find(|event| event.id() == cause))
}

/// The events that caused this one, the nearest first.
pub async fn causes_of(
    connection: &mut PgConnection,
    upcasters: &Upcasters,
    effect: &RecordedEvent,
) -> Result<Vec<RecordedEvent>, TailError> {
    let mut causes = Vec::new();
    let mut next = cause_of(connection, upcasters, effect).await?;
    while let Some(cause) = next {
        next = cause_of(connection, upcasters, &cause).await?;
        causes.push(cause);
    }
    Ok(causes)
}

/// The events that this one caused in its own transaction, in order.
pub async fn effects_of(
    connection: &mut PgConnection,
    upcasters: &Upcasters,
    cause: &RecordedEvent,
) -> Result<Vec<RecordedEvent>, TailError> {
    let statement = sqlx::query(events_where!(
        "position > $1 and position <= $1 + $2 and firm_id = $3
            and metadata->>'causation_id' = $4 order by position"
    ))
    .bind(cause.position)
    .bind(POSITIONS_APART)
    .bind(cause.context.firm_id)
    .bind(cause.id().to_string());
    read_all(statement, connection, upcasters).await
}
