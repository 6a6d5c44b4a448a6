//! Reading the log in order, below the fence, and remembering how far one came.

use chrono::{DateTime, Utc};
use cqrs_es::persist::SerializedEvent;
use domain::context::EventContext;
use domain::event::Event;
use futures::TryStreamExt;
use serde_json::Value;
use serde_json::value::RawValue;
use sqlx::postgres::{PgArguments, PgRow};
use sqlx::query::Query;
use sqlx::types::Json;
use sqlx::{PgConnection, Postgres, Row};
use uuid::Uuid;

use crate::append::RecordedEvent;
use crate::digest::{DigestInput, canonical, digest, to_timestamp};
use crate::upcast::Upcasters;

/// Why reading stopped. An event is never skipped.
#[derive(Debug, thiserror::Error)]
pub enum TailError {
    /// The database did not answer.
    #[error("the database: {0}")]
    Database(#[from] sqlx::Error),
    /// An event this build cannot read; a newer build may.
    #[error("position {position}: {why}")]
    Unreadable {
        /// Where.
        position: i64,
        /// Why.
        why: String,
    },
}

/// A stretch of the log: what lies after one position, up to where it is settled.
#[derive(Debug, Clone, Copy)]
pub struct LogRange {
    /// Where the reader is.
    pub after: i64,
    /// How far the log is settled.
    pub settled: i64,
    /// The most events to read.
    pub limit: i64,
}

/// The columns of a [`StoredEvent`], in its order.
macro_rules! columns {
    () => {
        "position, aggregate_type, aggregate_id, sequence, event_type, event_version,
         payload, metadata, firm_id, recorded_at, digest "
    };
}
pub(crate) use columns;

/// The statement that reads [`StoredEvent`]s where this holds.
macro_rules! events_where {
    ($condition:literal) => {
        concat!("select ", $crate::tail::columns!(), "from events where ", $condition)
    };
}
pub(crate) use events_where;

/// The events of a stretch, in order.
///
/// # Errors
/// [`TailError`]; with [`TailError::Unreadable`], nothing of the batch is handed out.
pub async fn read(
    connection: &mut PgConnection,
    upcasters: &Upcasters,
    stretch: LogRange,
) -> Result<Vec<RecordedEvent>, TailError> {
    read_except(connection, upcasters, (stretch, &[])).await
}

/// The same without the events of some names: they are not read at all.
///
/// # Errors
/// [`TailError`]; with [`TailError::Unreadable`], nothing of the batch is handed out.
pub async fn read_except(
    connection: &mut PgConnection,
    upcasters: &Upcasters,
    (stretch, passed): (LogRange, &[&str]),
) -> Result<Vec<RecordedEvent>, TailError> {
    let statement = events_where!(
        "position > $1 and position <= $2 and event_type <> all($4) order by position limit $3"
    );
    let statement = sqlx::query(statement)
        .bind(stretch.after)
        .bind(stretch.settled)
        .bind(stretch.limit)
        .bind(passed);
    read_all(statement, connection, upcasters).await
}

/// The erasures of a stretch, in order: few of them, by an index of their own.
///
/// # Errors
/// [`TailError`]; with [`TailError::Unreadable`], nothing of the batch is handed out.
pub async fn read_erasures(
    connection: &mut PgConnection,
    upcasters: &Upcasters,
    stretch: LogRange,
) -> Result<Vec<RecordedEvent>, TailError> {
    let statement = events_where!(
        "aggregate_type = 'Response' and position > $1 and position <= $2
          order by position limit $3"
    );
    let statement =
        sqlx::query(statement).bind(stretch.after).bind(stretch.settled).bind(stretch.limit);
    read_all(statement, connection, upcasters).await
}

/// A firm's events that begin deliveries and that a follower has not read, the newest first: occurrences
/// that list somebody, and what queues a delivery. `until` bounds when they were recorded, and where. Of
/// those that were recorded at one instant all are read, or none.
///
/// # Errors
/// [`TailError`]; with [`TailError::Unreadable`], nothing is handed out.
pub async fn begun_after(
    follower: &str,
    connection: &mut PgConnection,
    (firm_id, until): (Uuid, (Option<DateTime<Utc>>, Option<i64>)),
    most: usize,
) -> Result<Vec<RecordedEvent>, TailError> {
    let statement = events_where!(
        "position > coalesce((select position from checkpoints where name = $1), 0)
            and firm_id = $2
            and (aggregate_type = 'Occurrence'
                 and payload->'OccurrenceRecorded'->'hooks' is not null
                 or aggregate_type = 'Delivery' and sequence = 1
                 and event_type not in ('DeliveryAttempted', 'DeliveryCancelled'))
            and ($3::timestamptz is null or recorded_at <= $3)
            and ($4::bigint is null or position <= $4)
          order by recorded_at desc fetch first $5 rows with ties"
    );
    let (recorded_by, position) = until;
    let statement = sqlx::query(statement)
        .bind(follower)
        .bind(firm_id)
        .bind(recorded_by)
        .bind(position)
        .bind(i64::try_from(most).unwrap_or(i64::MAX));
    read_all(statement, connection, &Upcasters::current()).await
}

/// Locks a follower's checkpoint and says how far it has come; nothing if another process holds it.
///
/// # Errors
/// If the database does not answer.
pub async fn take_checkpoint(
    connection: &mut PgConnection,
    name: &str,
) -> Result<Option<i64>, sqlx::Error> {
    let locked = "select position from checkpoints where name = $1 for update skip locked";
    if let Some(position) =
        sqlx::query_scalar(locked).bind(name).fetch_optional(&mut *connection).await?
    {
        return Ok(Some(position));
    }
    make_checkpoint(connection, name).await?;
    sqlx::query_scalar(locked).bind(name).fetch_optional(connection).await
}

/// Makes a follower's checkpoint before the first event; whether there was none.
///
/// # Errors
/// If the database does not answer.
pub async fn make_checkpoint(
    connection: &mut PgConnection,
    name: &str,
) -> Result<bool, sqlx::Error> {
    let made = sqlx::query(
        "insert into checkpoints (name, position) values ($1, 0) on conflict do nothing",
    )
    .bind(name)
    .execute(connection)
    .await?;
    Ok(made.rows_affected() == 1)
}

/// How far a follower has come, if it has begun.
///
/// # Errors
/// If the database does not answer.
pub async fn checkpoint(
    connection: &mut PgConnection,
    name: &str,
) -> Result<Option<i64>, sqlx::Error> {
    sqlx::query_scalar("select position from checkpoints where name = $1")
        .bind(name)
        .fetch_optional(connection)
        .await
}

/// Moves a locked checkpoint.
///
/// # Errors
/// If the database does not answer.
pub async fn move_checkpoint(
    connection: &mut PgConnection,
    name: &str,
    position: i64,
) -> Result<(), sqlx::Error> {
    sqlx::query("update checkpoints set position = $2 where name = $1")
        .bind(name)
        .bind(position)
        .execute(connection)
        .await?;
    Ok(())
}

/// The events that a statement of [`events_where`] finds, each read as its row comes: they are not kept twice.
pub(crate) async fn read_all(
    statement: Query<'_, Postgres, PgArguments>,
    connection: &mut PgConnection,
    upcasters: &Upcasters,
) -> Result<Vec<RecordedEvent>, TailError> {
    let (mut rows, mut events) = (statement.fetch(connection), Vec::new());
    while let Some(row) = rows.try_next().await? {
        events.push(StoredEvent::of(&row)?.read(upcasters)?);
    }
    Ok(events)
}

/// An event as it lies in a row: nothing is copied before it is read.
pub(crate) struct StoredEvent<'r> {
    position: i64,
    aggregate_type: &'r str,
    aggregate_id: &'r str,
    sequence: i64,
    event_type: &'r str,
    event_version: &'r str,
    payload: &'r RawValue,
    metadata: &'r RawValue,
    firm_id: Uuid,
    recorded_at: DateTime<Utc>,
    digest: &'r [u8],
}

impl<'r> StoredEvent<'r> {
    /// By the places of its columns: names would be looked up in each of thousands of rows.
    pub(crate) fn of(row: &'r PgRow) -> Result<Self, sqlx::Error> {
        let Json(payload) = row.try_get(6)?;
        let Json(metadata) = row.try_get(7)?;
        Ok(Self {
            position: row.try_get(0)?,
            aggregate_type: row.try_get(1)?,
            aggregate_id: row.try_get(2)?,
            sequence: row.try_get(3)?,
            event_type: row.try_get(4)?,
            event_version: row.try_get(5)?,
            payload,
            metadata,
            firm_id: row.try_get(8)?,
            recorded_at: row.try_get(9)?,
            digest: row.try_get(10)?,
        })
    }

    /// Its place, the digest that is stored, and the one it ought to have.
    pub(crate) fn checked(&self) -> (i64, &'r [u8], Option<[u8; 32]>) {
        let whole = self.recorded_at.timestamp_subsec_nanos().is_multiple_of(1_000_000);
        let whole = whole && self.is_canonical().unwrap_or_default();
        let computed = whole.then(|| self.digest().ok()).flatten();
        (self.position, self.digest, computed)
    }

    /// Whether its bytes are the ones that were appended. Their digest is one of what they say, and more than one
    /// text says the same.
    fn is_canonical(&self) -> serde_json::Result<bool> {
        let is_canonical = |json: &RawValue| Ok(canonical(&value(json)?)?.get() == json.get());
        Ok(is_canonical(self.payload)? && is_canonical(self.metadata)?)
    }

    /// The digest it ought to have.
    fn digest(&self) -> serde_json::Result<[u8; 32]> {
        digest(&DigestInput {
            aggregate_id: self.aggregate_id,
            aggregate_type: self.aggregate_type,
            event_type: self.event_type,
            event_version: self.event_version,
            firm_id: self.firm_id,
            metadata: &canonical(&value(self.metadata)?)?,
            payload: &canonical(&value(self.payload)?)?,
            recorded_at: to_timestamp(self.recorded_at),
            sequence: self.sequence,
        })
    }

    pub(crate) fn read(self, upcasters: &Upcasters) -> Result<RecordedEvent, TailError> {
        let position = self.position;
        self.try_read(upcasters).map_err(|why| TailError::Unreadable { position, why })
    }

    fn try_read(self, upcasters: &Upcasters) -> Result<RecordedEvent, String> {
        let event = self.event(upcasters)?;
        let context = EventContext::from_metadata(
            self.firm_id,
            to_timestamp(self.recorded_at),
            self.metadata,
        )
        .map_err(|error| error.to_string())?;
        let digest = self.digest.try_into().map_err(|_| "not a digest".to_owned())?;
        Ok(RecordedEvent {
            position: self.position,
            digest,
            aggregate_id: self.aggregate_id.to_owned(),
            sequence: self.sequence,
            event,
            context,
        })
    }

    fn event(&self, upcasters: &Upcasters) -> Result<Event, String> {
        let (of, name) = (self.aggregate_type, self.event_type);
        if !upcasters.touch(name, self.event_version) {
            return Event::from_payload(of, name, self.payload).map_err(|error| error.to_string());
        }
        let unreadable = |error: serde_json::Error| error.to_string();
        let stored = upcasters.apply(SerializedEvent::new(
            self.aggregate_id.to_owned(),
            usize::try_from(self.sequence).map_err(|error| error.to_string())?,
            of.to_owned(),
            name.to_owned(),
            self.event_version.to_owned(),
            value(self.payload).map_err(unreadable)?,
            value(self.metadata).map_err(unreadable)?,
        ));
        Event::from_payload(&stored.aggregate_type, &stored.event_type, stored.payload)
            .map_err(|error| error.to_string())
    }
}

fn value(json: &RawValue) -> serde_json::Result<Value> {
    serde_json::from_str(json.get())
}
