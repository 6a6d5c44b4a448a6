//! Senders: the processes that send from one database. Each holds a lock of its session as long as it
//! lives, so that the server itself says how many there are: a process that is killed counts no more as
//! soon as its connection is gone.
//!
//! A process that joins others waits before it sends, until they have come down to their shares.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use eventstore::presence::{self, ProcessGroup};
use sqlx::{Connection, PgConnection, PgPool};
use tokio::time::{Instant, sleep, timeout};

/// At most so many processes send: the limits per firm and host have so many shares.
pub(super) const SENDERS_MAX: usize = 32;

/// From one look at the other senders to the next.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How long a look may take. A process whose connection is lost does not send until it has another.
const LOOK_WITHIN: Duration = Duration::from_secs(5);

/// How many processes send, as this one saw it last. Clones share it.
#[derive(Debug, Clone)]
pub struct SenderCount {
    count: Arc<AtomicUsize>,
    may_send: Arc<AtomicBool>,
}

impl SenderCount {
    /// This process alone.
    #[must_use]
    pub fn alone() -> Self {
        Self { count: Arc::new(AtomicUsize::new(1)), may_send: Arc::new(AtomicBool::new(true)) }
    }

    /// Others may be there: this process does not send until it has joined them.
    fn unknown() -> Self {
        let senders = Self::alone();
        senders.may_send.store(false, Ordering::Relaxed);
        senders
    }

    /// How many there are, this one included.
    pub(super) fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// Whether this one may send by now.
    pub(super) fn may_send(&self) -> bool {
        self.may_send.load(Ordering::Relaxed)
    }
}

/// The membership of a process among the senders of a database.
#[derive(Debug)]
pub struct SenderMembership {
    senders: SenderCount,
    pool: PgPool,
    /// How long a process that joins others waits before it sends.
    join_wait: Duration,
}

impl SenderMembership {
    /// The membership of a process that may send once [`Self::keep`] has joined.
    #[must_use]
    pub fn new(pool: PgPool, join_wait: Duration) -> Self {
        Self { senders: SenderCount::unknown(), pool, join_wait }
    }

    /// What it sees.
    #[must_use]
    pub fn senders(&self) -> SenderCount {
        self.senders.clone()
    }

    /// Joins the senders, and looks how many there are, until dropped. `changed` is told each time that
    /// the number changes or the process may begin to send.
    pub async fn keep(self, changed: impl Fn()) {
        loop {
            if let Err(error) = self.join_and_look(&changed).await {
                tracing::warn!(%error, "this process does not send: it is not among the senders");
            }
            self.senders.may_send.store(false, Ordering::Relaxed);
            sleep(LOOK_EVERY).await;
        }
    }

    async fn join_and_look(&self, changed: &impl Fn()) -> Result<(), sqlx::Error> {
        let options = self.pool.connect_options();
        let mut connection = in_time(PgConnection::connect_with(&options)).await?;
        let place = presence::join_limited(&mut connection, ProcessGroup::Sending, SENDERS_MAX);
        if in_time(place).await?.is_none() {
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
        }
    }
}

async fn in_time<T>(asked: impl Future<Output = Result<T, sqlx::Error>>) -> Result<T, sqlx::Error> {
    timeout(LOOK_WITHIN, asked).await.unwrap_or(Err(sqlx::Error::PoolTimedOut))
}
