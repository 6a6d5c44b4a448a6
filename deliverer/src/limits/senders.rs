//! Senders: the processes that send from one database. Each holds a session lock as long as it
//! lives, so the server knows their number. A killed process stops counting as soon as its
//! connection is gone, and a vanished one when its heartbeat is too old ([`GroupMembership`]).
//!
//! A process that joins others waits before it sends, until they have come down to their shares. It
//! does not wait for others that are not at work any more.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use eventstore::answer_within;
use eventstore::outage::FailureLog;
use eventstore::presence::{GroupMembership, GroupStanding, ProcessGroup, SILENT_AFTER};
use sqlx::{Connection, PgConnection, PgPool};
use tokio::time::{Instant, sleep};

/// Sending processes, at most. The limit of 32 per firm and host has no more shares.
pub(super) const SENDERS_MAX: usize = 32;

/// Places of senders, living and silent. A silent one keeps its place until the server has closed
/// its connection.
const PLACES_MAX: usize = 4 * SENDERS_MAX;

/// The wait between two looks at the other senders. Each look is a heartbeat, too.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Time limit of a look. A process that has lost its connection does not send until it has a new
/// one. It stops before others take its share.
const LOOK_WITHIN: Duration = Duration::from_secs(3);

/// The shortest wait of a process that joins others. Within it every other sender at work has
/// looked, and has seen this one.
const HEARD_WITHIN: Duration = Duration::from_secs(4);

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
    fn before_joining() -> Self {
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
    /// The membership of a process that may send after [`Self::keep_counting`] has joined.
    #[must_use]
    pub fn new(pool: PgPool, join_wait: Duration) -> Self {
        Self { senders: SenderCount::before_joining(), pool, join_wait }
    }

    /// The count that this membership keeps up to date.
    #[must_use]
    pub fn sender_count(&self) -> SenderCount {
        self.senders.clone()
    }

    /// Joins the senders and counts them, until dropped. Calls `changed` when the count changes,
    /// and when the process may begin to send.
    pub async fn keep_counting(self, changed: impl Fn()) {
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
        let mut connection =
            answer_within(LOOK_WITHIN, PgConnection::connect_with(&options)).await?;
        let joined = GroupMembership::join(&mut connection, ProcessGroup::Sending, PLACES_MAX);
        let Some(mut membership) = answer_within(LOOK_WITHIN, joined).await? else {
            return stay_out().await;
        };
        let joined = Instant::now();
        let mut looked = joined;
        loop {
            let group = answer_within(LOOK_WITHIN, membership.beat(&mut connection)).await?;
            if usize::try_from(group.ahead).is_ok_and(|ahead| ahead >= SENDERS_MAX) {
                return stay_out().await;
            }
            // Others have taken this process's share meanwhile, so it joins them anew.
            if looked.elapsed() >= SILENT_AFTER {
                return Ok(());
            }
            looked = Instant::now();
            let count = usize::try_from(group.living).unwrap_or_default().clamp(1, SENDERS_MAX);
            let before = self.senders.count.swap(count, Ordering::Relaxed);
            let may_send = self.senders.may_send() || self.may_begin(group, joined.elapsed());
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

    /// Whether a process that joined so long ago may begin to send.
    fn may_begin(&self, group: GroupStanding, waited: Duration) -> bool {
        let is_alone = group.living <= 1 || group.heard == 0 && waited >= HEARD_WITHIN;
        is_alone || waited >= self.join_wait
    }
}

/// Waits for a while outside the senders.
async fn stay_out() -> Result<(), sqlx::Error> {
    tracing::warn!(most = SENDERS_MAX, "this process does not send: there are enough senders");
    sleep(LOOK_EVERY).await;
    Ok(())
}

#[cfg(test)]
mod tests {
    use sqlx::postgres::PgConnectOptions;

    use super::*;

    #[tokio::test]
    async fn a_sender_waits_only_for_working_others() {
        let pool = PgPool::connect_lazy_with(PgConnectOptions::new_without_pgpass());
        let membership = SenderMembership::new(pool, Duration::from_secs(12));
        let begins = |living, heard, seconds| {
            let group = GroupStanding { living, heard, ahead: 0 };
            membership.may_begin(group, Duration::from_secs(seconds))
        };
        assert!(begins(1, 0, 0), "it is alone");
        assert!(!begins(2, 1, 11) && begins(2, 1, 12), "another comes down to its share");
        assert!(!begins(2, 0, 3) && begins(2, 0, 4), "another has vanished");
    }
}
