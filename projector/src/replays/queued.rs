//! The proof asks here for the deliveries that replays have queued.

use sqlx::{FromRow, PgConnection};
use uuid::Uuid;

/// A delivery that a replay has queued, without an outcome yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromRow)]
pub struct QueuedItem {
    /// The replay.
    pub replay_id: Uuid,
    /// The place in the replay.
    pub place: i64,
    /// The delivery.
    pub delivery_id: Uuid,
}

/// Lists the queued deliveries of replays after this place, of one firm or of all firms.
///
/// # Errors
/// If the database does not answer.
pub async fn queued_after(
    connection: &mut PgConnection,
    replay_id: Uuid,
    place: i64,
    firm_id: Option<Uuid>,
    limit: i64,
) -> Result<Vec<QueuedItem>, sqlx::Error> {
    sqlx::query_as(
        "select i.replay_id, i.place, i.delivery_id from replay_items i join replays r using (replay_id)
          where i.outcome = 'queued' and (i.replay_id, i.place) > ($1, $2)
            and ($3::uuid is null or r.firm_id = $3)
          order by i.replay_id, i.place limit $4",
    )
    .bind(replay_id)
    .bind(place)
    .bind(firm_id)
    .bind(limit)
    .fetch_all(connection)
    .await
}
