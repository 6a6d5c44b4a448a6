//! Connections that go from one user to the next without a word to the server.
//!
//! A pool asks a connection that comes back whether it is whole, twice: what is done a few hundred times
//! a second pays more for that than for many a statement. So a few connections stay out of it: whoever
//! was done with one says so, and the next one takes the one that came back last, which has everything
//! prepared. One that was dropped in the middle of something goes the way of the pool, which looks at it.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use sqlx::pool::PoolConnection;
use sqlx::postgres::PgTransactionManager;
use sqlx::{Connection, PgConnection, PgPool, Postgres, TransactionManager};
use tokio::time::timeout;

use crate::pool::{ACQUIRE_TIMEOUT, PING_AFTER_IDLE};

/// Of so many connections of a pool one may stay out of it: its other users have the rest.
const POOL_SHARE_DIVISOR: u32 = 2;

/// How long a connection stays out of its pool, which renews what is old.
const OUTSIDE_POOL_MAX: Duration = Duration::from_secs(600);

/// The connections of a pool, and those of them that wait outside of it.
#[derive(Debug, Clone)]
pub struct ConnectionCache {
    pool: PgPool,
    waiting: Arc<Mutex<Vec<ReusedConnection>>>,
}

/// A connection that somebody uses.
#[derive(Debug)]
pub struct ReusedConnection {
    connection: PoolConnection<Postgres>,
    taken: Instant,
    used: Instant,
}

impl ConnectionCache {
    /// Those of this pool.
    #[must_use]
    pub fn of(pool: PgPool) -> Self {
        Self { pool, waiting: Arc::default() }
    }

    /// The pool.
    #[must_use]
    pub const fn pool(&self) -> &PgPool {
        &self.pool
    }

    /// A connection outside a transaction: one that waits and is whole, or one of the pool.
    ///
    /// # Errors
    /// If the database does not answer, or no connection is free in time.
    pub async fn take(&self) -> Result<ReusedConnection, sqlx::Error> {
        while let Some(mut held) = self.next_waiting() {
            if held.used.elapsed() <= PING_AFTER_IDLE
                || matches!(timeout(ACQUIRE_TIMEOUT, held.connection.ping()).await, Ok(Ok(())))
            {
                return Ok(held);
            }
        }
        let (connection, now) = (self.pool.acquire().await?, Instant::now());
        Ok(ReusedConnection { connection, taken: now, used: now })
    }

    /// A connection in a new transaction.
    ///
    /// # Errors
    /// As [`Self::take`].
    pub async fn begin(&self) -> Result<ReusedConnection, sqlx::Error> {
        let mut held = self.take().await?;
        PgTransactionManager::begin(&mut held.connection, None).await?;
        Ok(held)
    }

    /// The next one may have it. Only for one that has answered everything: what was asked of one that is
    /// dropped may be under way.
    pub fn give_back(&self, mut held: ReusedConnection) {
        let in_transaction = PgTransactionManager::get_transaction_depth(&held.connection) > 0;
        if in_transaction || held.taken.elapsed() > OUTSIDE_POOL_MAX {
            return;
        }
        let most = self.pool.options().get_max_connections() / POOL_SHARE_DIVISOR;
        held.used = Instant::now();
        let mut waiting = self.waiting();
        // Asked with the others in hand: one that is left here after they were let go of would keep the
        // pool from closing for good.
        let is_open = !self.pool.is_closed();
        if is_open && waiting.len() < usize::try_from(most).unwrap_or(usize::MAX) {
            waiting.push(held);
        }
    }

    /// Closes all of them, once they are given back.
    pub async fn close(&self) {
        let closed = self.pool.close();
        self.waiting().clear();
        closed.await;
    }

    fn next_waiting(&self) -> Option<ReusedConnection> {
        self.waiting().pop()
    }

    fn waiting(&self) -> MutexGuard<'_, Vec<ReusedConnection>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ReusedConnection {
    /// Ends its transaction: makes it so.
    ///
    /// # Errors
    /// Whether it happened is not known if the connection was lost.
    pub async fn commit(&mut self) -> Result<(), sqlx::Error> {
        PgTransactionManager::commit(&mut self.connection).await
    }

    /// Ends its transaction: leaves everything as it was.
    ///
    /// # Errors
    /// If the database does not answer.
    pub async fn rollback(&mut self) -> Result<(), sqlx::Error> {
        PgTransactionManager::rollback(&mut self.connection).await
    }
}

impl Deref for ReusedConnection {
    type Target = PgConnection;

    fn deref(&self) -> &PgConnection {
        &self.connection
    }
}

impl DerefMut for ReusedConnection {
    fn deref_mut(&mut self) -> &mut PgConnection {
        &mut self.connection
    }
}

impl Drop for ReusedConnection {
    /// What was begun and not ended is rolled back before anybody uses it again.
    fn drop(&mut self) {
        PgTransactionManager::start_rollback(&mut self.connection);
    }
}
