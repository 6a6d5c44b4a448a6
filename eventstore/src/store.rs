//! The store appends: one transaction has the events and the few tables that the next request must
//! see.

use std::sync::Arc;
use std::time::{Duration, Instant};

use domain::event::Event;
use domain::values::Timestamp;
use futures::future::BoxFuture;
use sqlx::{PgConnection, PgPool};
use uuid::Uuid;

use crate::append::{OnConflict, insert_at_once, insert_events};
use crate::crash;
use crate::error::AppendError;
use crate::event::{NewEvent, RecordedEvent};
use crate::held::{ConnectionCache, ReusedConnection};
use crate::joined::JoinedWrites;
use crate::life::{LifeNumber, LifeWatch, SeenEvent};
use crate::nudge::{Nudge, WakeScope};
use crate::positions;
use crate::upcast::Upcasters;

/// An append that took longer is checked against the cursors once more before its commit. The check
/// costs a round trip, so a shorter append has only the check of its inserts. The service's own
/// appends take less than 100 ms.
pub const CHECKED_AFTER: Duration = Duration::from_millis(250);

/// A table that changes in the transaction of the append.
///
/// All `before`s run in the order given to [`Store::new`]. Then the insert runs, then all `after`s
/// in the same order. The order of `before`s is the order of locks: firm, member, key, quota, lane.
pub trait WithAppend: Send + Sync {
    /// Takes locks, refuses forbidden appends, and completes events from the tables.
    fn prepare_append<'a>(
        &'a self,
        connection: &'a mut PgConnection,
        events: &'a mut [NewEvent],
    ) -> BoxFuture<'a, Result<(), AppendError>> {
        let _ = (connection, events);
        Box::pin(async { Ok(()) })
    }

    /// Applies the appended events to the table.
    fn apply_appended<'a>(
        &'a self,
        connection: &'a mut PgConnection,
        events: &'a [RecordedEvent],
    ) -> BoxFuture<'a, Result<(), AppendError>> {
        let _ = (connection, events);
        Box::pin(async { Ok(()) })
    }
}

/// The outbox queues the deliveries of occurrences in the transaction that records them.
pub trait Outbox: Send + Sync {
    /// Queues one delivery per occurrence and listed subscription.
    fn queue_deliveries<'a>(
        &'a self,
        connection: &'a mut PgConnection,
        occurrences: &'a [RecordedEvent],
    ) -> BoxFuture<'a, Result<(), AppendError>>;

    /// Queues a pending workflow step that is not in the outbox, and returns whether it was. Only a
    /// database that lost rows has one.
    fn queue_lost_step<'a>(
        &'a self,
        connection: &'a mut PgConnection,
        delivery_id: Uuid,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<bool, AppendError>>;
}

/// The log of one database.
#[derive(Clone)]
pub struct Store {
    connections: ConnectionCache,
    with_append: Arc<[Box<dyn WithAppend>]>,
    outbox: Option<Arc<dyn Outbox>>,
    nudge: Nudge,
}

impl Store {
    /// Makes a store on this pool, with the tables that change with it.
    #[must_use]
    pub fn new(pool: PgPool, with_append: Vec<Box<dyn WithAppend>>) -> Self {
        let connections = ConnectionCache::new(pool);
        let with_append = with_append.into();
        Self { connections, with_append, outbox: None, nudge: Nudge::default() }
    }

    /// Returns the same log with a watch of the server's life. The pool must tell it of new
    /// connections.
    #[must_use]
    pub fn watched_by(self, life: LifeWatch) -> Self {
        Self { connections: ConnectionCache::watched(self.pool().clone(), life), ..self }
    }

    /// Returns the same log with an outbox for its occurrences.
    #[must_use]
    pub fn queueing_in(self, outbox: Arc<dyn Outbox>) -> Self {
        Self { outbox: Some(outbox), ..self }
    }

    /// Returns the same log on another pool, so that workers and callers cannot take each other's
    /// connections. A watch of the server's life goes on, so the pool must tell it, too.
    #[must_use]
    pub fn with_pool(&self, pool: PgPool) -> Self {
        let connections = ConnectionCache::watched(pool, self.life().clone());
        Self { connections, ..self.clone() }
    }

    /// Returns the watch of the server's life.
    #[must_use]
    pub const fn life(&self) -> &LifeWatch {
        self.connections.life()
    }

    /// Returns the pool of this store.
    #[must_use]
    pub const fn pool(&self) -> &PgPool {
        self.connections.pool()
    }

    /// Returns the connections of this store.
    #[must_use]
    pub const fn connections(&self) -> &ConnectionCache {
        &self.connections
    }

    /// Returns the nudge that each commit of an append signals.
    #[must_use]
    pub const fn nudge(&self) -> &Nudge {
        &self.nudge
    }

    /// Returns the one list of upcasters.
    #[must_use]
    pub fn upcasters(&self) -> Upcasters {
        Upcasters::current()
    }

    /// Begins a transaction that can append.
    ///
    /// # Errors
    /// [`AppendError::Database`].
    pub async fn begin(&self) -> Result<AppendTransaction<'_>, AppendError> {
        crash::point("begin");
        let transaction = self.connections.begin().await?;
        Ok(AppendTransaction {
            store: self,
            transaction,
            began: Instant::now(),
            occurrences: Vec::new(),
            writes: JoinedWrites::default(),
            first_position: None,
            appended: 0,
            newest: None,
            news: None,
        })
    }

    /// Appends in a transaction of its own, all events or none.
    ///
    /// # Errors
    /// [`AppendError`]; nothing was appended then.
    pub async fn append(&self, events: Vec<NewEvent>) -> Result<Vec<RecordedEvent>, AppendError> {
        let mut appending = self.begin().await?;
        let recorded = appending.append(events).await?;
        appending.commit().await?;
        Ok(recorded)
    }

    /// Appends in one round trip. An ordinary append needs one for its begin, for its commit, and
    /// for each of its reads and writes.
    ///
    /// # Errors
    /// [`AppendError::Conflict`] if a condition of the writes does not hold, or a row is taken.
    /// Nothing was appended then. If the connection was lost, the caller does not know whether the
    /// append happened.
    pub async fn append_at_once(
        &self,
        StatementAppend { events, writes, deliveries_wait, decided_in }: StatementAppend,
    ) -> Result<Vec<RecordedEvent>, AppendError> {
        crash::point("begin");
        let mut connection = self.connections.take().await?;
        if decided_in.is_some_and(|life| life != connection.life()) {
            self.connections.give_back(connection);
            return Err(AppendError::Conflict);
        }
        crash::point("inserted");
        crash::point("committing");
        let recorded = match insert_at_once(&mut connection, writes, events).await {
            Ok(recorded) => recorded,
            Err(error) => {
                let error = taken_row(error);
                if matches!(error, AppendError::Conflict) {
                    self.connections.give_back(connection);
                }
                return Err(error);
            }
        };
        connection.require_this_life()?;
        crash::point("committed");
        self.connections.give_back(connection);
        let mut news = WakeScope { deliveries: deliveries_wait, ..WakeScope::default() };
        for event in &recorded {
            news.add_event(&event.event);
        }
        if let Some(newest) = recorded.last() {
            self.life().remember_event(SeenEvent::new(newest));
        }
        self.nudge.signal(news, recorded.len().try_into().unwrap_or_default());
        Ok(recorded)
    }
}

/// An append under way, for those who queue its deliveries.
pub struct OpenAppend<'a> {
    /// A connection. It is in the append's transaction, unless the append is one statement.
    pub connection: &'a mut PgConnection,
    /// The writes that are sent with the append.
    pub writes: &'a mut JoinedWrites,
    /// The meaning of the positions of its events.
    pub positions: EventPositions,
}

/// The meaning of an event's position while its append is under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventPositions {
    /// The event is inserted, and has its position.
    Known,
    /// The event is inserted by the statement of the writes. Its position is its place among the
    /// events, from 1, and `(select all_of_them from positions)[place]` in the writes.
    OfStatement,
}

/// An append that is one statement, and so a transaction by itself. Its tables are among its
/// writes: no [`WithAppend`] is asked, and no [`Outbox`].
#[derive(Default)]
pub struct StatementAppend {
    /// The events, one at least.
    pub events: Vec<NewEvent>,
    /// The writes and their conditions. They can read the positions of the events, in their order:
    /// `(select all_of_them from positions)`.
    pub writes: JoinedWrites,
    /// Whether deliveries of these writes wait for a worker.
    pub deliveries_wait: bool,
    /// The life of the server that this was decided in, if that matters. In another life positions
    /// are drawn again, so the append is a conflict.
    pub decided_in: Option<LifeNumber>,
}

/// A transaction that can append. Nothing happens if it is dropped without
/// [`AppendTransaction::commit`].
pub struct AppendTransaction<'a> {
    store: &'a Store,
    transaction: ReusedConnection,
    began: Instant,
    /// Occurrences that list a subscription and are not queued yet.
    occurrences: Vec<RecordedEvent>,
    writes: JoinedWrites,
    /// The lowest position of this transaction.
    first_position: Option<i64>,
    /// The number of events in this transaction.
    appended: i64,
    /// The newest event of this transaction.
    newest: Option<SeenEvent>,
    /// The kinds of news, once something was appended.
    news: Option<WakeScope>,
}

impl AppendTransaction<'_> {
    /// Returns the connection, for reads and writes of the same transaction.
    pub fn connection(&mut self) -> &mut PgConnection {
        &mut self.transaction
    }

    /// Returns the writes that are sent together, with the next events or before the commit.
    pub const fn writes(&mut self) -> &mut JoinedWrites {
        &mut self.writes
    }

    /// Returns the connection and the joined writes.
    pub fn connection_and_writes(&mut self) -> (&mut PgConnection, &mut JoinedWrites) {
        (&mut self.transaction, &mut self.writes)
    }

    /// Returns this append for those who queue its deliveries.
    pub fn open(&mut self) -> OpenAppend<'_> {
        OpenAppend {
            connection: &mut self.transaction,
            writes: &mut self.writes,
            positions: EventPositions::Known,
        }
    }

    /// Sends the joined writes now, because their failure has a meaning for the caller.
    ///
    /// # Errors
    /// [`AppendError`]; the transaction must be dropped then.
    pub async fn send_writes(&mut self) -> Result<(), AppendError> {
        Ok(self.writes.execute(&mut self.transaction).await?)
    }

    /// Appends all events. A taken place in a stream is a conflict.
    ///
    /// # Errors
    /// [`AppendError`]; the transaction must be dropped then.
    pub async fn append(
        &mut self,
        events: Vec<NewEvent>,
    ) -> Result<Vec<RecordedEvent>, AppendError> {
        self.append_with(events, OnConflict::Refuse).await
    }

    /// Appends only the events whose place in the stream is free, and returns these.
    ///
    /// # Errors
    /// [`AppendError`]; the transaction must be dropped then.
    pub async fn append_new(
        &mut self,
        events: Vec<NewEvent>,
    ) -> Result<Vec<RecordedEvent>, AppendError> {
        self.append_with(events, OnConflict::Skip).await
    }

    async fn append_with(
        &mut self,
        mut events: Vec<NewEvent>,
        taken: OnConflict,
    ) -> Result<Vec<RecordedEvent>, AppendError> {
        for table in self.store.with_append.iter() {
            table.prepare_append(&mut self.transaction, &mut events).await?;
        }
        let recorded =
            insert_events(&mut self.transaction, &mut self.writes, events, taken).await?;
        for event in &recorded {
            self.news.get_or_insert_default().add_event(&event.event);
            self.appended += 1;
            self.first_position.get_or_insert(event.position);
            self.newest = Some(SeenEvent::new(event));
            if lists_somebody(&event.event) {
                self.occurrences.push(event.clone());
            }
        }
        crash::point("inserted");
        for table in self.store.with_append.iter() {
            table.apply_appended(&mut self.transaction, &recorded).await?;
        }
        Ok(recorded)
    }

    /// Takes the occurrences that list a subscription and are not queued yet. The caller then
    /// queues them in this transaction.
    pub fn take_occurrences(&mut self) -> Vec<RecordedEvent> {
        std::mem::take(&mut self.occurrences)
    }

    /// Queues a pending workflow step if its row is lost.
    ///
    /// # Errors
    /// [`AppendError`]; the transaction must be dropped then.
    pub async fn queue_lost_step(
        &mut self,
        delivery_id: Uuid,
        now: Timestamp,
    ) -> Result<(), AppendError> {
        let Some(outbox) = &self.store.outbox else { return Ok(()) };
        if outbox.queue_lost_step(&mut self.transaction, delivery_id, now).await? {
            self.deliveries_wait();
        }
        Ok(())
    }

    /// Notes that deliveries of this transaction wait for a worker.
    pub fn deliveries_wait(&mut self) {
        self.news.get_or_insert_default().deliveries = true;
    }

    /// Rolls back and releases all locks at once. A dropped transaction releases its locks some
    /// time later.
    ///
    /// # Errors
    /// [`AppendError::Database`].
    pub async fn rollback(mut self) -> Result<(), AppendError> {
        self.transaction.rollback().await?;
        self.store.connections.give_back(self.transaction);
        Ok(())
    }

    /// Queues the deliveries of its occurrences, sends the joined writes, commits, and wakes the
    /// followers if there are new events.
    ///
    /// # Errors
    /// [`AppendError`]. If the connection was lost, the caller does not know whether the commit
    /// happened.
    pub async fn commit(mut self) -> Result<(), AppendError> {
        let occurrences = self.take_occurrences();
        if let Some(outbox) = self.store.outbox.as_ref().filter(|_| !occurrences.is_empty()) {
            outbox.queue_deliveries(&mut self.transaction, &occurrences).await?;
            self.deliveries_wait();
        }
        self.send_writes().await?;
        self.require_unpassed().await?;
        crash::point("committing");
        self.transaction.commit().await?;
        crash::point("committed");
        self.store.connections.give_back(self.transaction);
        if let Some(newest) = self.newest {
            self.store.life().remember_event(newest);
        }
        if let Some(news) = self.news {
            self.store.nudge.signal(news, self.appended);
        }
        Ok(())
    }
}

impl AppendTransaction<'_> {
    /// Refuses a long append that a follower has passed meanwhile.
    async fn require_unpassed(&mut self) -> Result<(), AppendError> {
        let Some(first) = self.first_position.filter(|_| self.began.elapsed() >= CHECKED_AFTER)
        else {
            return Ok(());
        };
        let cursor = positions::highest_cursor(&mut self.transaction).await?;
        positions::require_above(&mut self.transaction, first, cursor).await
    }
}

/// Classifies a taken row as a conflict. The writes of a statement expect none.
fn taken_row(error: AppendError) -> AppendError {
    match error {
        AppendError::Database(sqlx::Error::Database(error)) if error.is_unique_violation() => {
            AppendError::Conflict
        }
        other => other,
    }
}

/// Returns whether the event is an occurrence that lists a subscription.
#[must_use]
pub fn lists_somebody(event: &Event) -> bool {
    event.happening().is_some_and(|happening| !happening.hooks.is_empty())
}
