//! Appending: one transaction holds the events and the few tables the next request must see.

use std::sync::Arc;

use cqrs_es::Aggregate;
use domain::event::Event;
use futures::future::BoxFuture;
use sqlx::{PgConnection, PgPool};

use crate::append::{NewEvent, OnConflict, RecordedEvent, insert};
use crate::command::{self, CommandError};
use crate::crash;
use crate::error::AppendError;
use crate::held::{ConnectionCache, ReusedConnection};
use crate::nudge::{Nudge, WakeScope};
use crate::upcast::Upcasters;

/// A table that changes in the transaction of the append.
///
/// All `before`s run in the order given to [`Store::new`], then the insert, then all `after`s in the
/// same order. The order of `before`s is the order of locks: firm, member, key, quota, lane.
pub trait WithAppend: Send + Sync {
    /// Takes locks, refuses what must not be appended, and completes events with what the tables say.
    fn before<'a>(
        &'a self,
        connection: &'a mut PgConnection,
        events: &'a mut [NewEvent],
    ) -> BoxFuture<'a, Result<(), AppendError>> {
        let _ = (connection, events);
        Box::pin(async { Ok(()) })
    }

    /// Takes in what was appended.
    fn after<'a>(
        &'a self,
        connection: &'a mut PgConnection,
        events: &'a [RecordedEvent],
    ) -> BoxFuture<'a, Result<(), AppendError>> {
        let _ = (connection, events);
        Box::pin(async { Ok(()) })
    }
}

/// The outbox: queues the deliveries of occurrences, in the transaction that records them.
pub trait Outbox: Send + Sync {
    /// Queues what these occurrences list.
    fn queue<'a>(
        &'a self,
        connection: &'a mut PgConnection,
        occurrences: &'a [RecordedEvent],
    ) -> BoxFuture<'a, Result<(), AppendError>>;
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
    /// A store on this pool, with the tables that change with it.
    #[must_use]
    pub fn new(pool: PgPool, with_append: Vec<Box<dyn WithAppend>>) -> Self {
        let connections = ConnectionCache::of(pool);
        let with_append = with_append.into();
        Self { connections, with_append, outbox: None, nudge: Nudge::default() }
    }

    /// The same log, whose occurrences are queued there.
    #[must_use]
    pub fn queueing_in(self, outbox: Arc<dyn Outbox>) -> Self {
        Self { outbox: Some(outbox), ..self }
    }

    /// The same log by another pool, so that workers and callers cannot take each other's
    /// connections.
    #[must_use]
    pub fn with_pool(&self, pool: PgPool) -> Self {
        Self { connections: ConnectionCache::of(pool), ..self.clone() }
    }

    /// The pool it works on.
    #[must_use]
    pub const fn pool(&self) -> &PgPool {
        self.connections.pool()
    }

    /// The connections it works on.
    #[must_use]
    pub const fn connections(&self) -> &ConnectionCache {
        &self.connections
    }

    /// Signalled after each commit of an append of this process.
    #[must_use]
    pub const fn nudge(&self) -> &Nudge {
        &self.nudge
    }

    /// The one list of upcasters.
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
        Ok(AppendTransaction { store: self, transaction, occurrences: Vec::new(), news: None })
    }

    /// Appends in a transaction of its own: all of it or nothing.
    ///
    /// # Errors
    /// [`AppendError`]; nothing was appended then.
    pub async fn append(&self, events: Vec<NewEvent>) -> Result<Vec<RecordedEvent>, AppendError> {
        let mut appending = self.begin().await?;
        let recorded = appending.append(events).await?;
        appending.commit().await?;
        Ok(recorded)
    }

    /// Carries out a command on a stream: loads, decides, appends; again when another came first.
    ///
    /// # Errors
    /// [`CommandError`]: the rule's refusal, or what the store met.
    pub async fn execute<A>(
        &self,
        aggregate_id: &str,
        command: A::Command,
        context: &domain::context::EventContext,
    ) -> Result<(), CommandError<A::Error>>
    where
        A: Aggregate<Services = ()> + 'static,
        A::Command: Clone + Send,
    {
        command::execute::<A>(self, aggregate_id, command, context).await
    }
}

/// A transaction that can append; dropped without [`AppendTransaction::commit`], nothing happened.
pub struct AppendTransaction<'a> {
    store: &'a Store,
    transaction: ReusedConnection,
    /// Occurrences that list somebody and are not queued yet.
    occurrences: Vec<RecordedEvent>,
    /// What of, once something was appended.
    news: Option<WakeScope>,
}

impl AppendTransaction<'_> {
    /// The connection, for reads and writes that belong to the same transaction.
    pub fn connection(&mut self) -> &mut PgConnection {
        &mut self.transaction
    }

    /// Appends; a taken place in a stream is a conflict.
    ///
    /// # Errors
    /// [`AppendError`]; the transaction must be dropped then.
    pub async fn append(
        &mut self,
        events: Vec<NewEvent>,
    ) -> Result<Vec<RecordedEvent>, AppendError> {
        self.insert(events, OnConflict::Refuse).await
    }

    /// Appends those whose place is free, and returns just those.
    ///
    /// # Errors
    /// [`AppendError`]; the transaction must be dropped then.
    pub async fn append_new(
        &mut self,
        events: Vec<NewEvent>,
    ) -> Result<Vec<RecordedEvent>, AppendError> {
        self.insert(events, OnConflict::Skip).await
    }

    async fn insert(
        &mut self,
        mut events: Vec<NewEvent>,
        taken: OnConflict,
    ) -> Result<Vec<RecordedEvent>, AppendError> {
        for table in self.store.with_append.iter() {
            table.before(&mut self.transaction, &mut events).await?;
        }
        let recorded = insert(&mut self.transaction, events, taken).await?;
        for event in &recorded {
            self.news.get_or_insert_default().add(&event.event);
            if lists_somebody(&event.event) {
                self.occurrences.push(event.clone());
            }
        }
        crash::point("inserted");
        for table in self.store.with_append.iter() {
            table.after(&mut self.transaction, &recorded).await?;
        }
        Ok(recorded)
    }

    /// The occurrences that list somebody and are not queued yet, for a caller that queues them by
    /// itself in this transaction.
    pub fn take_occurrences(&mut self) -> Vec<RecordedEvent> {
        std::mem::take(&mut self.occurrences)
    }

    /// Deliveries of this transaction wait for a worker.
    pub fn deliveries_wait(&mut self) {
        self.news.get_or_insert_default().deliveries = true;
    }

    /// Leaves everything as it was. Its locks are free at once; those of one that is dropped, some
    /// time later.
    ///
    /// # Errors
    /// [`AppendError::Database`].
    pub async fn rollback(mut self) -> Result<(), AppendError> {
        self.transaction.rollback().await?;
        self.store.connections.give_back(self.transaction);
        Ok(())
    }

    /// Makes it so, with the deliveries of its occurrences, and tells the followers if there is something
    /// to follow.
    ///
    /// # Errors
    /// [`AppendError`]; whether it happened is then not known if the connection was lost.
    pub async fn commit(mut self) -> Result<(), AppendError> {
        let occurrences = self.take_occurrences();
        if let Some(outbox) = self.store.outbox.as_ref().filter(|_| !occurrences.is_empty()) {
            outbox.queue(&mut self.transaction, &occurrences).await?;
            self.deliveries_wait();
        }
        crash::point("committing");
        self.transaction.commit().await?;
        crash::point("committed");
        self.store.connections.give_back(self.transaction);
        if let Some(news) = self.news {
            self.store.nudge.signal(news);
        }
        Ok(())
    }
}

fn lists_somebody(event: &Event) -> bool {
    event.happening().is_some_and(|happening| !happening.hooks.is_empty())
}
