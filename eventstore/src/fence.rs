//! The fence finds how far the log is settled. A position is settled if no event at or below it
//! can appear any more.
//!
//! PostgreSQL draws a position before the commit. So a row with a lower position may become visible
//! after a row with a higher one. A reader that remembers only the last position loses the slow row
//! for good. The fence uses transaction ids instead:
//!
//! 1. It reads `height`, the highest position drawn so far.
//! 2. It draws a transaction id `xid`. The trigger `events_draw_xid` makes every append draw its id
//!    before its first position. So an append that drew a position at or below `height` has an id
//!    lower than `xid`.
//! 3. Each look checks whether the oldest running transaction is at or above `xid`. If so, all
//!    those appends have ended. A later statement sees every event at or below `height` that will
//!    ever exist. If not, the caller looks again.
//!
//! The oldest transaction can belong to another database of the server. After 10 ms an older
//! transaction counts only if it appends to this log. A transaction that appends holds the lock of
//! an insert on `events`, from before its first position to its end. So a neighbour's long
//! transaction delays the fence only until the first look after 10 ms.
//!
//! A look that finds no new position draws no transaction id. Heights and ids mean nothing in
//! another life of the server, so the fence begins anew with each ([`crate::LifeWatch`]).

use std::sync::{Arc, Mutex as Brief, PoisonError};
use std::time::{Duration, Instant};

use sqlx::PgConnection;
use tokio::sync::Mutex;
use tokio::time::sleep;

use crate::held::ConnectionCache;
use crate::life::{LifeNumber, LifeWatch};
use crate::store::Store;

/// The time for which one patient look waits for running appends. Most appends end within it.
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
    /// The moment since which the pending height waits. It has a lock of its own, so that a metric
    /// never waits for a look.
    unsettled: Arc<Brief<Option<Instant>>>,
}

#[derive(Debug, Default, Clone, Copy)]
struct FenceState {
    /// The life of the server in which the rest was found.
    life: LifeNumber,
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
    fn after_waiting(waited: Duration) -> Self {
        if waited >= CLOSE_LOOK_AFTER { Self::Appends } else { Self::All }
    }
}

/// The time for which [`CaughtUp`] is believed. Another process may move its checkpoint back
/// meanwhile. Workers look in longer intervals than this.
const CAUGHT_UP_VALID_FOR: Duration = Duration::from_secs(25);

/// The look up to which a follower has done everything. Until the log is settled further, the
/// follower opens no transaction of its own.
#[derive(Debug, Default, Clone, Copy)]
pub struct CaughtUp(Option<(SettledUpTo, Instant)>);

impl CaughtUp {
    /// Notes that everything up to this look is done.
    pub fn up_to(&mut self, look: SettledUpTo) {
        self.0 = Some((look, Instant::now()));
    }

    /// Returns whether the note is young enough to be believed.
    #[must_use]
    pub fn is_still_valid(&self) -> bool {
        self.0.is_some_and(|(_, at)| at.elapsed() < CAUGHT_UP_VALID_FOR)
    }

    /// Returns whether the note is still valid and was made in this life of the server.
    #[must_use]
    pub fn is_valid_in(&self, life: LifeNumber) -> bool {
        self.is_still_valid() && self.0.is_some_and(|(done, _)| done.life == life)
    }

    /// Returns whether the note is still valid and this look has settled nothing since.
    #[must_use]
    pub fn covers(&self, look: SettledUpTo) -> bool {
        let same = |done: SettledUpTo| done.settled == look.settled && done.life == look.life;
        self.is_still_valid() && self.0.is_some_and(|(done, _)| same(done))
    }
}

/// The result of a look at the fence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SettledUpTo {
    /// Every event at or below this position is settled.
    pub settled: i64,
    /// The log may have events that are not settled yet, so the caller looks again soon.
    pub more: bool,
    /// The life of the server for which this is true.
    pub life: LifeNumber,
}

impl Fence {
    /// Returns the fence of a log.
    #[must_use]
    pub fn new(store: &Store) -> Self {
        let connections = store.connections().clone();
        Self { connections, state: Arc::default(), unsettled: Arc::default() }
    }

    /// Returns for how long the pending height has waited to be settled. Each new height starts at
    /// zero.
    #[must_use]
    pub fn pending_age(&self) -> Duration {
        let since = *self.unsettled.lock().unwrap_or_else(PoisonError::into_inner);
        since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// Notes that a wait begins now, or that there is none any more.
    fn note_pending(&self, pending: Option<PendingHeight>) {
        let mut since = self.unsettled.lock().unwrap_or_else(PoisonError::into_inner);
        *since = pending.map(|_| Instant::now());
    }

    /// Looks how far the log is settled now.
    pub async fn look(&self) -> Result<SettledUpTo, sqlx::Error> {
        let mut state = self.state.lock().await;
        let mut connection = self.connections.take().await?;
        let life = connection.life();
        if state.life != life {
            *state = FenceState { life, ..FenceState::default() };
            self.note_pending(None);
        }
        let look = self.look_by(&mut connection, &mut state).await?;
        self.connections.give_back(connection);
        Ok(look)
    }

    /// Returns whether the server is still in the life of this look. A caller asks once its own
    /// transaction has begun, and acts on the look only then.
    #[must_use]
    pub fn still_holds(&self, look: SettledUpTo) -> bool {
        self.life().life_number() == look.life
    }

    const fn life(&self) -> &LifeWatch {
        self.connections.life()
    }

    /// Looks again for up to 7 ms while the newest appends still run.
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
        self.settle_pending(connection, state).await?;
        if state.pending.is_none() {
            let (height, xid) = drawn_height(connection, state.settled).await?;
            state.pending = xid.map(|xid| PendingHeight { height, xid });
            self.note_pending(state.pending);
            self.settle_pending(connection, state).await?;
        }
        let FenceState { life, settled, pending } = *state;
        Ok(SettledUpTo { settled, more: pending.is_some(), life })
    }

    /// Settles the pending height if all transactions below its id have ended.
    async fn settle_pending(
        &self,
        connection: &mut PgConnection,
        state: &mut FenceState,
    ) -> Result<(), sqlx::Error> {
        if let Some(pending) = state.pending
            && have_ended(
                connection,
                pending,
                AwaitedTransactions::after_waiting(self.pending_age()),
            )
            .await?
        {
            self.note_pending(None);
            *state = FenceState { settled: pending.height, pending: None, ..*state };
        }
        Ok(())
    }
}

/// The transactions that run at a moment, and write. A worker that deletes rows waits for them: a
/// transaction that decided before the moment may still insert such rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunningWriters {
    /// All of them have lower ids, or none yet.
    below: i64,
    /// The transactions that were about to write the table. A transaction of one statement has its
    /// lock before its snapshot, and its id after it.
    starting: Vec<String>,
}

impl RunningWriters {
    /// The transactions that run now and write this table. A transaction counts once it has locked
    /// the table for writes, or has locked or written a row.
    pub async fn now(connection: &mut PgConnection, table: &str) -> Result<Self, sqlx::Error> {
        let (below, starting) = sqlx::query_as(
            "select pg_snapshot_xmax(pg_current_snapshot())::text::bigint,
                    array(select virtualtransaction from pg_locks
                           where locktype = 'relation' and mode = 'RowExclusiveLock'
                             and relation = $1::regclass
                             and database = (select oid from pg_database
                                              where datname = current_database()))",
        )
        .bind(table)
        .fetch_one(connection)
        .await?;
        Ok(Self { below, starting })
    }

    /// Returns whether all of them that have read or written this table have ended. Transactions of
    /// other tables and of other databases of the server are not waited for.
    pub async fn have_left(
        &self,
        connection: &mut PgConnection,
        table: &str,
    ) -> Result<bool, sqlx::Error> {
        // A lock shows only the lower 32 bits of an id, as in `have_ended`.
        sqlx::query_scalar(
            "select not exists (select from pg_locks where virtualtransaction = any($3))
                and case when pg_snapshot_xmin(pg_current_snapshot())::text::bigint >= $1 then true
                    else not exists (
                        select from pg_locks
                         where locktype = 'transactionid' and mode = 'ExclusiveLock'
                            or locktype = 'relation' and relation = $2::regclass
                               and database = (select oid from pg_database
                                                where datname = current_database())
                         group by virtualtransaction
                        having bool_or(locktype = 'relation')
                           and bool_or((($1 - transactionid::text::bigint) & 4294967295)
                                       between 1 and 2147483647)) end",
        )
        .bind(self.below)
        .bind(table)
        .bind(&self.starting)
        .fetch_one(connection)
        .await
    }
}

/// Returns the highest position drawn. If it is above the settled position, a transaction id drawn
/// afterwards comes with it.
async fn drawn_height(
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

/// Returns whether every awaited transaction below `xid` has ended.
///
/// A transaction releases its locks after its end is visible. A lock shows only the lower 32 bits
/// of an id. Of two ids that run at the same time, the older is the one less than half a round
/// behind.
async fn have_ended(
    connection: &mut PgConnection,
    PendingHeight { xid, .. }: PendingHeight,
    awaited: AwaitedTransactions,
) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar(concat!(
        "select case when pg_snapshot_xmin(pg_current_snapshot())::text::bigint >= $1 then true
                when not $2 then false
                else not exists (",
        appending!(
            "",
            " and bool_or((($1 - transactionid::text::bigint) & 4294967295)
                          between 1 and 2147483647)"
        ),
        ") end",
    ))
    .bind(xid)
    .bind(awaited == AwaitedTransactions::Appends)
    .fetch_one(connection)
    .await
}
