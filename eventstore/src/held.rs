//! Connections pass from one user to the next without a round trip to the server.
//!
//! A pool checks each connection that comes back, with two round trips. A few hundred transactions
//! a second pay more for these checks than for many statements. So a few connections stay out of
//! the pool. A user that has finished gives its connection back, and the next user takes the newest
//! one, which has its statements prepared. A connection that is dropped in the middle of its work
//! goes back to the pool, which checks it.

use std::io;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use sqlx::pool::PoolConnection;
use sqlx::postgres::PgTransactionManager;
use sqlx::{Connection, PgConnection, PgPool, Postgres, TransactionManager};
use tokio::time::timeout;

use crate::life::{LifeNumber, LifeWatch};
use crate::outage::ACQUIRE_TIMEOUT;
use crate::pool::PING_AFTER_IDLE;

/// One connection in two may stay out of the pool. All other users share the rest.
const POOL_SHARE_DIVISOR: u32 = 2;

/// The longest time a connection stays out of its pool. The pool renews old connections.
const OUTSIDE_POOL_MAX: Duration = Duration::from_secs(600);

/// A pool, and the connections that wait outside of it.
#[derive(Debug, Clone)]
pub struct ConnectionCache {
    pool: PgPool,
    life: LifeWatch,
    waiting: Arc<Mutex<Vec<ReusedConnection>>>,
}

/// A connection that one user holds.
#[derive(Debug)]
pub struct ReusedConnection {
    connection: PoolConnection<Postgres>,
    watch: LifeWatch,
    /// The life of the server that it is connected to.
    life: LifeNumber,
    taken: Instant,
    used: Instant,
}

impl ConnectionCache {
    /// Wraps this pool.
    #[must_use]
    pub fn new(pool: PgPool) -> Self {
        Self::watched(pool, LifeWatch::default())
    }

    /// Wraps this pool, whose new connections tell this watch the life of the server.
    #[must_use]
    pub fn watched(pool: PgPool, life: LifeWatch) -> Self {
        Self { pool, life, waiting: Arc::default() }
    }

    /// Returns the watch of the server's life.
    #[must_use]
    pub const fn life(&self) -> &LifeWatch {
        &self.life
    }

    /// Returns the pool.
    #[must_use]
    pub const fn pool(&self) -> &PgPool {
        &self.pool
    }

    /// Takes a connection outside a transaction: a waiting one that is whole, or one of the pool.
    ///
    /// # Errors
    /// If the database does not answer, or no connection is free in time.
    pub async fn take(&self) -> Result<ReusedConnection, sqlx::Error> {
        while let Some(mut held) = self.next_waiting() {
            if !held.is_of_this_life() {
                continue;
            }
            if held.used.elapsed() <= PING_AFTER_IDLE
                || matches!(timeout(ACQUIRE_TIMEOUT, held.connection.ping()).await, Ok(Ok(())))
            {
                return Ok(held);
            }
        }
        loop {
            let life = self.life.life_number();
            let connection = self.pool.acquire().await?;
            // A new connection may be the first to another life, and an old one the last to an
            // earlier one.
            if self.life.life_number() == life {
                let watch = self.life.clone();
                let now = Instant::now();
                return Ok(ReusedConnection { connection, watch, life, taken: now, used: now });
            }
        }
    }

    /// Takes a connection and begins a transaction.
    ///
    /// # Errors
    /// As [`Self::take`].
    pub async fn begin(&self) -> Result<ReusedConnection, sqlx::Error> {
        let mut held = self.take().await?;
        PgTransactionManager::begin(&mut held.connection, None).await?;
        Ok(held)
    }

    /// Offers the connection to the next user. The caller must have read all answers, because a
    /// statement of a dropped future may still run.
    pub fn give_back(&self, mut held: ReusedConnection) {
        let in_transaction = PgTransactionManager::get_transaction_depth(&held.connection) > 0;
        if in_transaction || held.taken.elapsed() > OUTSIDE_POOL_MAX {
            return;
        }
        let most = self.pool.options().get_max_connections() / POOL_SHARE_DIVISOR;
        held.used = Instant::now();
        let mut waiting = self.waiting_connections();
        // The check happens under the lock of the list. A connection pushed after [`Self::close`]
        // has cleared the list would keep the pool from ever closing.
        let is_open = !self.pool.is_closed();
        if is_open && waiting.len() < usize::try_from(most).unwrap_or(usize::MAX) {
            waiting.push(held);
        }
    }

    /// Closes all connections. The call ends once every user has given its connection back.
    pub async fn close(&self) {
        let closed = self.pool.close();
        self.waiting_connections().clear();
        closed.await;
    }

    fn next_waiting(&self) -> Option<ReusedConnection> {
        self.waiting_connections().pop()
    }

    fn waiting_connections(&self) -> MutexGuard<'_, Vec<ReusedConnection>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ReusedConnection {
    /// Returns the life of the server that it is connected to.
    #[must_use]
    pub const fn life(&self) -> LifeNumber {
        self.life
    }

    /// Commits the transaction, unless the server is in another life or another server is the
    /// primary now. A commit that an old primary answers late is not believed either.
    ///
    /// # Errors
    /// If the connection is lost or of an earlier life. The caller then does not know whether the
    /// commit happened.
    pub async fn commit(&mut self) -> Result<(), sqlx::Error> {
        self.require_this_life()?;
        PgTransactionManager::commit(&mut self.connection).await?;
        self.require_this_life()
    }

    fn is_of_this_life(&self) -> bool {
        self.watch.life_number() == self.life
    }

    /// Refuses to believe what a server of an earlier life has answered.
    ///
    /// # Errors
    /// If the server is in another life by now.
    pub fn require_this_life(&self) -> Result<(), sqlx::Error> {
        let left = "the connection is to an earlier life of the server";
        if self.is_of_this_life() { Ok(()) } else { Err(io::Error::other(left).into()) }
    }

    /// Rolls the transaction back.
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
    /// A transaction that was begun and not ended is rolled back before the connection's next use.
    fn drop(&mut self) {
        PgTransactionManager::start_rollback(&mut self.connection);
    }
}
