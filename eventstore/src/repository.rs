//! This repository serves cqrs-es. It reads by postgres-es and writes by [`Store`].

use cqrs_es::persist::{
    PersistedEventRepository, PersistenceError, ReplayStream, SerializedEvent, SerializedSnapshot,
};
use cqrs_es::{Aggregate, DomainEvent};
use postgres_es::PostgresEventRepository;
use serde::Deserialize;
use serde_json::Value;

use crate::error::AppendError;
use crate::event::NewEvent;
use crate::store::Store;
use crate::upcast::Upcasters;

/// Persists a command's events in one transaction with the tables that the next request must see.
pub(crate) struct StoreRepository {
    store: Store,
    reads: PostgresEventRepository,
}

impl StoreRepository {
    pub(crate) fn new(store: Store) -> Self {
        let reads = PostgresEventRepository::new(store.pool().clone());
        Self { store, reads }
    }
}

impl PersistedEventRepository for StoreRepository {
    async fn get_events<A: Aggregate>(
        &self,
        aggregate_id: &str,
    ) -> Result<Vec<SerializedEvent>, PersistenceError> {
        let events = self.reads.get_events::<A>(aggregate_id).await?;
        let upcasters = self.store.upcasters();
        events.iter().try_for_each(|event| require_known_version::<A>(event, &upcasters))?;
        Ok(events)
    }

    async fn get_last_events<A: Aggregate>(
        &self,
        aggregate_id: &str,
        last_sequence: usize,
    ) -> Result<Vec<SerializedEvent>, PersistenceError> {
        self.reads.get_last_events::<A>(aggregate_id, last_sequence).await
    }

    /// Returns no snapshot. Streams are short, and the library's snapshots apply events twice.
    async fn get_snapshot<A: Aggregate>(
        &self,
        _: &str,
    ) -> Result<Option<SerializedSnapshot>, PersistenceError> {
        Ok(None)
    }

    async fn persist<A: Aggregate>(
        &self,
        events: &[SerializedEvent],
        _: Option<(String, Value, usize)>,
    ) -> Result<(), PersistenceError> {
        let events = events
            .iter()
            .map(NewEvent::from_serialized)
            .collect::<Result<Vec<_>, _>>()
            .map_err(persistence_error)?;
        self.store.append(events).await.map(|_| ()).map_err(persistence_error)
    }

    async fn stream_events<A: Aggregate>(
        &self,
        aggregate_id: &str,
    ) -> Result<ReplayStream, PersistenceError> {
        self.reads.stream_events::<A>(aggregate_id).await
    }

    /// Refuses, because the library's stream ends early, as if whole, when the database fails.
    async fn stream_all_events<A: Aggregate>(&self) -> Result<ReplayStream, PersistenceError> {
        Err(PersistenceError::UnknownError("replay reads the tail, not this stream".into()))
    }
}

/// Refuses an event of a version that this build does not write and no upcaster reads.
fn require_known_version<A: Aggregate>(
    event: &SerializedEvent,
    upcasters: &Upcasters,
) -> Result<(), PersistenceError> {
    let SerializedEvent { event_type, event_version, payload, .. } = event;
    if upcasters.reads_version(event_type, event_version) {
        return Ok(());
    }
    let read = A::Event::deserialize(payload)
        .map_err(|error| PersistenceError::DeserializationError(Box::new(error)))?;
    if read.event_version() == *event_version {
        return Ok(());
    }
    let why = format!("unknown version `{event_version}` of `{event_type}`");
    Err(PersistenceError::DeserializationError(why.into()))
}

fn persistence_error(error: AppendError) -> PersistenceError {
    match error {
        AppendError::Conflict => PersistenceError::OptimisticLockError,
        AppendError::Database(error) => PersistenceError::ConnectionError(Box::new(error)),
        AppendError::ActorInactive | AppendError::QuotaFull(_) | AppendError::Unreadable(_) => {
            PersistenceError::UnknownError(Box::new(error))
        }
    }
}
