//! How subscriptions and deliveries were, up to a place in the log or an instant, and how a delivery is: their
//! streams, folded up to there. Which there are is found by the read models, and by the log where those have not
//! followed; how they stood is the log's word alone.

mod deliveries;
mod hooks;

use domain::as_of::AsOf;
use eventstore::tail::TailError;
use eventstore::{RecordedEvent, StreamName, Upcasters, load_many};
use sqlx::{PgConnection, PgPool};
use uuid::Uuid;

pub use deliveries::{DeliveryThen, attempts, delivery, list as list_deliveries};
pub use hooks::{HookThen, list as list_hooks};

/// Streams read at a time.
const STREAMS_PER_READ: usize = 200;

/// Where the log ends now.
///
/// # Errors
/// If the database does not answer.
pub async fn end(pool: &PgPool) -> Result<i64, sqlx::Error> {
    eventstore::proof::height(&mut *pool.acquire().await?).await
}

/// The events of these streams that had happened, each stream's in order; of a stream, nothing after the
/// first that had not.
///
/// # Errors
/// [`TailError`]; with [`TailError::Unreadable`], nothing is handed out.
pub async fn had_happened(
    connection: &mut PgConnection,
    (aggregate_type, ids): (&'static str, &[Uuid]),
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
