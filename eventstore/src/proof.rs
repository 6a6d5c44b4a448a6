//! What is proved of the log: digests in their order, and events whose digests are made anew.

use sqlx::PgConnection;

use crate::append::RecordedEvent;
use crate::tail::{StoredEvent, TailError, events_where};
use crate::upcast::Upcasters;

/// The positions after the first and up to the second that have an event, with its digest.
///
/// # Errors
/// If the database does not answer.
pub async fn digests(
    connection: &mut PgConnection,
    (after, through): (i64, i64),
) -> Result<Vec<(i64, [u8; 32])>, sqlx::Error> {
    sqlx::query_as(
        "select position, digest from events
          where position > $1 and position <= $2 order by position",
    )
    .bind(after)
    .bind(through)
    .fetch_all(connection)
    .await
}

/// The highest position that is there.
///
/// # Errors
/// If the database does not answer.
pub async fn height(connection: &mut PgConnection) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar("select coalesce(max(position), 0) from events").fetch_one(connection).await
}

/// An event whose digest was made anew.
#[derive(Debug)]
pub struct Checked {
    /// Its place in the log.
    pub position: i64,
    /// Whether its digest is that of what is stored.
    pub intact: bool,
    /// The event; an error if this build cannot read it.
    pub event: Result<RecordedEvent, TailError>,
}

/// The events after the first position and up to the second, each checked.
///
/// # Errors
/// If the database does not answer.
pub async fn checked(
    connection: &mut PgConnection,
    upcasters: &Upcasters,
    (after, through): (i64, i64),
) -> Result<Vec<Checked>, sqlx::Error> {
    let rows: Vec<StoredEvent> =
        sqlx::query_as(events_where!("position > $1 and position <= $2 order by position"))
            .bind(after)
            .bind(through)
            .fetch_all(connection)
            .await?;
    let check = |row: StoredEvent| {
        let (position, stored, computed) = row.checked();
        let intact = computed.is_some_and(|computed| computed == stored);
        Checked { position, intact, event: row.read(upcasters) }
    };
    Ok(rows.into_iter().map(check).collect())
}
