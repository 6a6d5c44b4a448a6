//! How far the log is settled.
//!
//! Positions are drawn before commit, so a row with a lower position may become visible later than
//! one with a higher. A reader that remembers "the last position I saw" loses the slow one for good.
//! The fence knows better, from transaction ids:
//!
//! 1. take `hi`, the highest position drawn so far;
//! 2. draw a transaction id `f` of our own: whoever drew a position at or below `hi` drew its id
//!    before that (`events_draw_xid`), so its id is lower than `f`;
//! 3. once the oldest transaction still running is at or above `f`, all of those have ended, and
//!    everything at or below `hi` is there or never will be. A later statement may read it.
//!
//! An older one that runs on is not waited for long unless it appends: whoever appends has the lock of an insert
//! on the log, from before its first position to its end. So what others do in the same server holds nothing up
//! for longer than that.
//!
//! A look that finds nothing new draws no id.

use std::sync::{Arc, Mutex as Brief, PoisonError};
use std::time::{Duration, Instant};

use sqlx::PgConnection;
use tokio::sync::Mutex;
use tokio::time::sleep;

use crate::held::ConnectionCache;
use crate::store::Store;

/// How long appends that are under way are waited for in one patient look.
const PATIENT_LOOK_MAX: Duration = Duration::from_millis(7);

/// How long until the next look meanwhile.
const LOOK_INTERVAL: Duration = Duration::from_millis(1);

/// After so long whoever is waited for is looked at closely: most transactions are over before.
const CLOSE_LOOK_AFTER: Duration = Duration::from_millis(10);

/// The shared fence of a process.
#[derive(Debug, Clone)]
pub struct Fence {
    connections: ConnectionCache,
    state: Arc<Mutex<FenceState>>,
    /// Since when the newest appends have not settled: apart, for who watches waits for nobody.
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

/// How long it is believed that there is nothing below a height: another process may take its
/// checkpoint back.
const CAUGHT_UP_VALID_FOR: Duration = Duration::from_secs(1);

/// Up to where a follower has done everything: until the log is settled further, it asks nobody.
#[derive(Debug, Default, Clone, Copy)]
pub struct CaughtUp(Option<(i64, Instant)>);

impl CaughtUp {
    /// Everything up to there is done.
    pub fn up_to(&mut self, settled: i64) {
        self.0 = Some((settled, Instant::now()));
    }

    /// Whether what was done is still believed to be all, if nobody says otherwise.
    #[must_use]
    pub fn is_still_valid(&self) -> bool {
        self.0.is_some_and(|(_, at)| at.elapsed() < CAUGHT_UP_VALID_FOR)
    }

    /// Whether nothing has been settled since.
    #[must_use]
    pub fn covers(&self, look: SettledUpTo) -> bool {
        self.is_still_valid() && self.0.is_some_and(|(done, _)| done == look.settled)
    }
}

/// How far a look got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SettledUpTo {
    /// Everything at or below is settled.
    pub settled: i64,
    /// There is more, not settled yet: look again soon.
    pub more: bool,
}

impl Fence {
    /// The fence of a log.
    #[must_use]
    pub fn of(store: &Store) -> Self {
        let connections = store.connections().clone();
        Self { connections, state: Arc::default(), unsettled: Arc::default() }
    }

    /// For how long this process has waited for the newest appends to settle.
    #[must_use]
    pub fn age(&self) -> Duration {
        let since = *self.unsettled.lock().unwrap_or_else(PoisonError::into_inner);
        since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// Something is waited for from now on, or nothing any more.
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

    /// Looks again, for a moment, while the newest appends are still under way.
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
        // What another look waits for says nothing of what was appended since.
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

    /// Moves what is settled up to what is waited for, if all of that has ended.
    async fn settle(
        &self,
        connection: &mut PgConnection,
        state: &mut FenceState,
    ) -> Result<(), sqlx::Error> {
        if let Some(pending) = state.pending
            && have_ended(connection, pending, self.age() >= CLOSE_LOOK_AFTER).await?
        {
            self.note(None);
            *state = FenceState { settled: pending.height, pending: None };
        }
        Ok(())
    }
}

/// The highest position drawn, and, if it is above what is settled, a transaction id drawn after that
/// was read.
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

/// The statement that asks for the transactions of this database that append and have not ended: whoever inserts
/// into the log has a lock on it to his end.
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

/// Whether every transaction that is waited for has ended; looked at closely, every one of them that appends. A log
/// that is shorter than the height has lost its tail: it is not settled by that.
///
/// A transaction gives its locks back after its end can be seen. A lock tells the lower half of an id: of two that
/// run at the same time, the one that is less than half a round behind is the older.
async fn have_ended(
    connection: &mut PgConnection,
    PendingHeight { height, xid }: PendingHeight,
    closely: bool,
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
    .bind(closely)
    .bind(height)
    .fetch_one(connection)
    .await
}
