//! Subscriptions and deliveries at a position of the log or at an instant. Their streams are folded
//! up to there.
//!
//! The read models find the objects, and the log finds newer objects beyond a read model's
//! checkpoint. The state of each object comes from the log alone.

mod deliveries;
mod hooks;
mod left;

use domain::values::AsOf;
use eventstore::tail::TailError;
use eventstore::{RecordedEvent, StreamName, Upcasters, load_many};
use sqlx::{PgConnection, PgPool};
use uuid::Uuid;

pub use deliveries::{DeliveryThen, find_delivery, list_deliveries, stream_attempts};
pub use hooks::{HookThen, list_hooks};
pub use left::{AsOfError, LeftStreams};

/// The number of streams read at once.
const STREAMS_PER_READ: usize = 200;

/// Returns the last position of the log.
pub async fn last_position(pool: &PgPool) -> Result<i64, sqlx::Error> {
    eventstore::proof::height(&mut *pool.acquire().await?).await
}

/// Returns the events of these streams up to the moment, each stream's in order. A stream ends
/// before its first event after the moment.
///
/// # Errors
/// [`TailError`]; with [`TailError::Unreadable`], nothing is handed out.
pub async fn had_happened(
    connection: &mut PgConnection,
    aggregate_type: &'static str,
    ids: &[Uuid],
    as_of: AsOf,
) -> Result<Vec<Vec<RecordedEvent>>, TailError> {
    let name = |id: &Uuid| StreamName { aggregate_type, aggregate_id: id.to_string() };
    let streams: Vec<StreamName> = ids.iter().map(name).collect();
    let events = load_many(connection, &Upcasters::current(), &streams).await?;
    let same = |one: &RecordedEvent, other: &RecordedEvent| one.aggregate_id == other.aggregate_id;
    let then = |stream: &[RecordedEvent]| {
        let had =
            |event: &&RecordedEvent| as_of.includes(event.position, event.context.recorded_at);
        stream.iter().take_while(had).cloned().collect::<Vec<_>>()
    };
    Ok(events.chunk_by(same).map(then).filter(|stream| !stream.is_empty()).collect())
}
