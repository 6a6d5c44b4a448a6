//! Senders: the processes that send from one database. Each holds a session lock as long as it
//! lives, so the server knows their number. A killed process stops counting as soon as its
//! connection is gone.
//!
//! A process that joins others waits before it sends, until they have come down to their shares.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use eventstore::outage::FailureLog;
use eventstore::presence::{self, ProcessGroup};
use sqlx::{Connection, PgConnection, PgPool};
use tokio::time::{Instant, sleep, timeout};

/// Sending processes, at most. The limit of 32 per firm and host has no more shares.
pub(super) const SENDERS_MAX: usize = 32;

/// The wait between two looks at the other senders.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Time limit of a look. A process that has lost its connection does not send until it has a new
/// one.
const LOOK_WITHIN: Duration = Duration::from_secs(5);

/// The number of sending processes at the last look. Clones share it.
#[derive(Debug, Clone)]
pub struct SenderCount {
    count: Arc<AtomicUsize>,
    may_send: Arc<AtomicBool>,
}

impl SenderCount {
    /// A process that sends alone.
    #[must_use]
    pub fn alone() -> Self {
        Self { count: Arc::new(AtomicUsize::new(1)), may_send: Arc::new(AtomicBool::new(true)) }
    }

    /// A process that may have others beside it. It does not send until it has joined them.
    fn unknown() -> Self {
        let senders = Self::alone();
        senders.may_send.store(false, Ordering::Relaxed);
        senders
    }

    /// The number of senders, this process included.
    pub(super) fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// Whether this process may send.
    pub(super) fn may_send(&self) -> bool {
        self.may_send.load(Ordering::Relaxed)
    }
}

/// The membership of a process among the senders of a database.
#[derive(Debug)]
pub struct SenderMembership {
    senders: SenderCount,
    pool: PgPool,
    /// The wait of a process that joins others.
    join_wait: Duration,
}

impl SenderMembership {
    /// The membership of a process that may send after [`Self::keep`] has joined.
    #[must_use]
    pub fn new(pool: PgPool, join_wait: Duration) -> Self {
        Self { senders: SenderCount::unknown(), pool, join_wait }
    }

    /// The count that this membership keeps up to date.
    #[must_use]
    pub fn senders(&self) -> SenderCount {
        self.senders.clone()
    }

    /// Joins the senders and counts them, until dropped. Calls `changed` when the count changes,
    /// and when the process may begin to send.
    pub async fn keep(self, changed: impl Fn()) {
        let mut failures = FailureLog::default();
        loop {
            if let Err(error) = self.join_and_look(&changed).await
                && failures.is_news(&error, Instant::now())
            {
                tracing::warn!(%error, "this process does not send: it is not among the senders");
            }
            self.senders.may_send.store(false, Ordering::Relaxed);
            sleep(LOOK_EVERY).await;
        }
    }

    async fn join_and_look(&self, changed: &impl Fn()) -> Result<(), sqlx::Error> {
        let options = self.pool.connect_options();
        let mut connection = in_time(PgConnection::connect_with(&options)).await?;
        let joined = presence::join_limited(&mut connection, ProcessGroup::Sending, SENDERS_MAX);
        if in_time(joined).await?.is_none() {
            tracing::warn!(
                most = SENDERS_MAX,
                "this process does not send: there are enough senders"
            );
            sleep(LOOK_EVERY).await;
            return Ok(());
        }
        let joined = Instant::now();
        loop {
            let count = in_time(presence::count(&mut connection, ProcessGroup::Sending)).await?;
            let count = count.clamp(1, SENDERS_MAX);
            let before = self.senders.count.swap(count, Ordering::Relaxed);
            let may_send =
                count == 1 || self.senders.may_send() || joined.elapsed() >= self.join_wait;
            let began = may_send && !self.senders.may_send.swap(may_send, Ordering::Relaxed);
            if began || before != count {
                changed();
            }
            sleep(LOOK_EVERY.min(self.join_wait.max(Duration::from_millis(1)))).await;
            // The pool has moved to another server, and the senders with it.
            if !Arc::ptr_eq(&options, &self.pool.connect_options()) {
                return Ok(());
            }
        }
    }
}

async fn in_time<T>(asked: impl Future<Output = Result<T, sqlx::Error>>) -> Result<T, sqlx::Error> {
    timeout(LOOK_WITHIN, asked).await.unwrap_or(Err(sqlx::Error::PoolTimedOut))
}
