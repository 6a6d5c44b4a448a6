//! The fence finds how far the log is settled.
//!
//! PostgreSQL draws a position before the commit. So a row with a lower position may become visible
//! after a row with a higher one. A reader that remembers only the last position loses the slow row
//! for good. The fence uses transaction ids instead:
//!
//! 1. It reads `hi`, the highest position drawn so far.
//! 2. It draws a transaction id `f`. The trigger `events_draw_xid` makes every append draw its id
//!    before its first position. So an append that drew a position at or below `hi` has an id lower
//!    than `f`.
//! 3. It waits until the oldest running transaction is at or above `f`. All those appends have then
//!    ended. A later statement sees every event at or below `hi` that will ever exist.
//!
//! The oldest transaction can belong to another database of the server. After 10 ms an older
//! transaction counts only if it appends to this log. A transaction that appends holds the lock of
//! an insert on `events`, from before its first position to its end. So a neighbour's long
//! transaction delays the fence for 10 ms at most.
//!
//! A look that finds no new position draws no transaction id.

use std::sync::{Arc, Mutex as Brief, PoisonError};
use std::time::{Duration, Instant};

use sqlx::PgConnection;
use tokio::sync::Mutex;
use tokio::time::sleep;

use crate::held::ConnectionCache;
use crate::store::Store;

/// The time for which one patient look waits for running appends.
const PATIENT_LOOK_MAX: Duration = Duration::from_millis(7);

/// The wait between two looks of one patient look.
const LOOK_INTERVAL: Duration = Duration::from_millis(1);

/// After this wait the fence reads the server's locks. Most transactions end before.
const CLOSE_LOOK_AFTER: Duration = Duration::from_millis(10);

/// The fence of one process, which all its followers share.
#[derive(Debug, Clone)]
pub struct Fence {
    connections: ConnectionCache,
    state: Arc<Mutex<FenceState>>,
    /// The moment since which the newest appends are not settled. It has a lock of its own, so that
    /// a metric never waits for a look.
    unsettled: Arc<Brief<Option<Instant>>>,
}

#[derive(Debug, Default, Clone, Copy)]
struct FenceState {
    settled: i64,
    pending: Option<PendingHeight>,
}

/// A height that is settled once every transaction below `xid` has ended.
#[derive(Debug, Clone, Copy)]
struct PendingHeight {
    height: i64,
    xid: i64,
}

/// The transactions that a look waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AwaitedTransactions {
    /// All transactions of the server.
    All,
    /// Only transactions that append to this log.
    Appends,
}

impl AwaitedTransactions {
    fn after(waited: Duration) -> Self {
        if waited >= CLOSE_LOOK_AFTER { Self::Appends } else { Self::All }
    }
}

/// The time for which [`CaughtUp`] is believed. Another process may move its checkpoint back
/// meanwhile.
const CAUGHT_UP_VALID_FOR: Duration = Duration::from_secs(1);

/// The height up to which a follower has done everything. The follower asks no database until the
/// log is settled further.
#[derive(Debug, Default, Clone, Copy)]
pub struct CaughtUp(Option<(i64, Instant)>);

impl CaughtUp {
    /// Notes that everything up to this height is done.
    pub fn up_to(&mut self, settled: i64) {
        self.0 = Some((settled, Instant::now()));
    }

    /// Returns whether the note is young enough to be believed.
    #[must_use]
    pub fn is_still_valid(&self) -> bool {
        self.0.is_some_and(|(_, at)| at.elapsed() < CAUGHT_UP_VALID_FOR)
    }

    /// Returns whether this look has settled nothing since the note.
    #[must_use]
    pub fn covers(&self, look: SettledUpTo) -> bool {
        self.is_still_valid() && self.0.is_some_and(|(done, _)| done == look.settled)
    }
}

/// The result of a look at the fence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SettledUpTo {
    /// Every event at or below this position is settled.
    pub settled: i64,
    /// The log has events that are not settled yet, so the caller looks again soon.
    pub more: bool,
}

impl Fence {
    /// Returns the fence of a log.
    #[must_use]
    pub fn of(store: &Store) -> Self {
        let connections = store.connections().clone();
        Self { connections, state: Arc::default(), unsettled: Arc::default() }
    }

    /// Returns for how long this process has waited for the newest appends to settle.
    #[must_use]
    pub fn age(&self) -> Duration {
        let since = *self.unsettled.lock().unwrap_or_else(PoisonError::into_inner);
        since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// Notes that a wait begins now, or that there is none any more.
    fn note(&self, pending: Option<PendingHeight>) {
        let mut since = self.unsettled.lock().unwrap_or_else(PoisonError::into_inner);
        *since = pending.map(|_| Instant::now());
    }

    /// Looks how far the log is settled now.
    ///
    /// # Errors
    /// If the database does not answer.
    pub async fn look(&self) -> Result<SettledUpTo, sqlx::Error> {
        let mut state = self.state.lock().await;
        let mut connection = self.connections.take().await?;
        let look = self.look_by(&mut connection, &mut state).await?;
        self.connections.give_back(connection);
        Ok(look)
    }

    /// Looks again for up to 7 ms while the newest appends still run.
    ///
    /// # Errors
    /// If the database does not answer.
    pub async fn look_patiently(&self) -> Result<SettledUpTo, sqlx::Error> {
        let began = Instant::now();
        loop {
            let look = self.look().await?;
            if !look.more || began.elapsed() >= PATIENT_LOOK_MAX {
                return Ok(look);
            }
            sleep(LOOK_INTERVAL).await;
        }
    }

    async fn look_by(
        &self,
        connection: &mut PgConnection,
        state: &mut FenceState,
    ) -> Result<SettledUpTo, sqlx::Error> {
        // A height that an earlier look waits for says nothing about later appends.
        self.settle(connection, state).await?;
        if state.pending.is_none() {
            let (height, xid) = height(connection, state.settled).await?;
            if height < state.settled {
                tracing::error!(
                    height,
                    settled = state.settled,
                    "the log is shorter than it was: the database lost its tail"
                );
                *state = FenceState::default();
                return Ok(SettledUpTo { settled: 0, more: true });
            }
            state.pending = xid.map(|xid| PendingHeight { height, xid });
            self.note(state.pending);
            self.settle(connection, state).await?;
        }
        Ok(SettledUpTo { settled: state.settled, more: state.pending.is_some() })
    }

    /// Settles the pending height if all transactions below its id have ended.
    async fn settle(
        &self,
        connection: &mut PgConnection,
        state: &mut FenceState,
    ) -> Result<(), sqlx::Error> {
        if let Some(pending) = state.pending
            && have_ended(connection, pending, AwaitedTransactions::after(self.age())).await?
        {
            self.note(None);
            *state = FenceState { settled: pending.height, pending: None };
        }
        Ok(())
    }
}

/// Returns the highest position drawn. If it is above the settled position, a transaction id drawn
/// afterwards comes with it.
async fn height(
    connection: &mut PgConnection,
    settled: i64,
) -> Result<(i64, Option<i64>), sqlx::Error> {
    sqlx::query_as(
        "with drawn as materialized (
             select case when is_called then last_value else 0 end as height
               from events_position_seq)
         select height, case when height > $1 then pg_current_xact_id()::text::bigint end
           from drawn",
    )
    .bind(settled)
    .fetch_one(connection)
    .await
}

/// The statement that lists the running transactions of this database that append. A transaction
/// that inserts into the log holds a lock on the table to its end.
macro_rules! appending {
    ($columns:literal, $having:literal) => {
        concat!(
            "select ",
            $columns,
            " from pg_locks
               where locktype = 'transactionid' and mode = 'ExclusiveLock'
                  or locktype = 'relation' and mode = 'RowExclusiveLock'
                     and relation = 'events'::regclass
                     and database = (select oid from pg_database
                                      where datname = current_database())
               group by virtualtransaction
              having bool_or(locktype = 'relation')",
            $having
        )
    };
}
pub(crate) use appending;

/// Returns whether every awaited transaction below `xid` has ended. A log that is shorter than the
/// height has lost its tail, so the height is not settled by that.
///
/// A transaction releases its locks after its end is visible. A lock shows only the lower 32 bits
/// of an id. Of two ids that run at the same time, the older is the one less than half a round
/// behind.
async fn have_ended(
    connection: &mut PgConnection,
    PendingHeight { height, xid }: PendingHeight,
    awaited: AwaitedTransactions,
) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar(concat!(
        "select case when pg_snapshot_xmin(pg_current_snapshot())::text::bigint >= $1 then true
                when not $2 then false
                else $3 <= (select last_value from events_position_seq) and not exists (",
        appending!(
            "",
            " and bool_or((($1 - transactionid::text::bigint) & 4294967295)
                          between 1 and 2147483647)"
        ),
        ") end",
    ))
    .bind(xid)
    .bind(awaited == AwaitedTransactions::Appends)
    .bind(height)
    .fetch_one(connection)
    .await
}
