//! The alarm for a lost end of the log (ruling 43).
//!
//! After a change of the server's life, this worker looks for the events that this process had seen
//! committed. If one is gone, the server has lost the end of its log: a standby was behind, or the
//! database was restored. A row in `lost_tails` keeps the alarm up, in every process, until an
//! operator acknowledges it.

use chrono::{DateTime, Utc};
use sqlx::{FromRow, PgConnection};

use crate::life::{LifeNumber, SeenEvent, ServerLife};
use crate::positions::leave_out_passed;
use crate::store::Store;
use crate::worker::{NextStep, WakeOn, Worker};

/// A lost end of the log that nobody has acknowledged.
#[derive(Debug, Clone, PartialEq, Eq, FromRow)]
pub struct LostTail {
    /// The time at which a process noticed the loss.
    pub noticed_at: DateTime<Utc>,
    /// The lowest position at which a process missed an event. Events below it may be lost too.
    pub from_position: i64,
    /// The highest position at which a process missed an event.
    pub to_position: i64,
}

/// The worker that begins each life of the server: it moves the sequence of positions above all
/// cursors, and looks for a lost end of the log.
pub struct LogTailCheck {
    store: Store,
    /// The life up to which everything is checked.
    checked: LifeNumber,
    /// The life in which positions are above all cursors.
    above_cursors: Option<LifeNumber>,
}

impl LogTailCheck {
    /// Makes a worker for the pool of this store, which must be watched.
    #[must_use]
    pub fn new(store: Store) -> Self {
        let checked = store.life().life_number();
        Self { store, checked, above_cursors: None }
    }
}

impl Worker for LogTailCheck {
    const NAME: &'static str = "log_tail";
    const WAKES: WakeOn = WakeOn::Timer;
    type Error = sqlx::Error;

    async fn step(&mut self) -> Result<NextStep, sqlx::Error> {
        // A new connection tells whether the server is in another life.
        let mut connection = self.store.connections().take().await?;
        let watch = self.store.life();
        let number = watch.life_number();
        if self.above_cursors != Some(number) {
            leave_out_passed(&mut connection).await?;
            self.above_cursors = Some(number);
        }
        if number != self.checked {
            let missing = missing_positions(&mut connection, &watch.seen_before(number)).await?;
            if let (Some(from), Some(to)) = (missing.iter().min(), missing.iter().max()) {
                let life = ServerLife::new(&mut connection).await?;
                raise_alarm(&mut connection, &life, *from, *to).await?;
                tracing::error!(
                    from,
                    to,
                    "the database lost the end of its log: run `firmforms doctor`"
                );
            }
            watch.forget_before(number);
            self.checked = number;
        }
        self.store.connections().give_back(connection);
        Ok(NextStep::IDLE)
    }
}

/// Returns the positions of these events that the log does not have.
async fn missing_positions(
    connection: &mut PgConnection,
    seen: &[SeenEvent],
) -> Result<Vec<i64>, sqlx::Error> {
    sqlx::query_scalar(
        "select s.position from unnest($1::bigint[], $2::bytea[]) as s(position, digest)
          where not exists (select from events e
                             where e.position = s.position and e.digest = s.digest)",
    )
    .bind(seen.iter().map(|event| event.position).collect::<Vec<_>>())
    .bind(seen.iter().map(|event| event.digest).collect::<Vec<_>>())
    .fetch_all(connection)
    .await
}

/// Raises the alarm of this life. Several processes may notice the same loss.
async fn raise_alarm(
    connection: &mut PgConnection,
    life: &ServerLife,
    from_position: i64,
    to_position: i64,
) -> Result<(), sqlx::Error> {
    sqlx::query(
        "insert into lost_tails as l (system_identifier, timeline, started_at, noticed_at,
                                      from_position, to_position)
         values ($1, coalesce($2, ''), $3, now(), $4, $5)
         on conflict (system_identifier, timeline, started_at) do update
            set from_position = least(l.from_position, excluded.from_position),
                to_position = greatest(l.to_position, excluded.to_position),
                acknowledged_at = null, acknowledged_by = null",
    )
    .bind(life.system_identifier)
    .bind(&life.timeline)
    .bind(life.started_at)
    .bind(from_position)
    .bind(to_position)
    .execute(connection)
    .await?;
    Ok(())
}

/// Returns the losses that nobody has acknowledged, the newest first.
pub async fn unacknowledged_losses(
    connection: &mut PgConnection,
) -> Result<Vec<LostTail>, sqlx::Error> {
    sqlx::query_as(
        "select noticed_at, from_position, to_position from lost_tails
          where acknowledged_at is null order by noticed_at desc",
    )
    .fetch_all(connection)
    .await
}

/// Acknowledges all losses, and returns their number.
pub async fn acknowledge_losses(
    connection: &mut PgConnection,
    by: &str,
    at: DateTime<Utc>,
) -> Result<u64, sqlx::Error> {
    let acknowledged = sqlx::query(
        "update lost_tails set acknowledged_at = $2, acknowledged_by = $1
          where acknowledged_at is null",
    )
    .bind(by)
    .bind(at)
    .execute(connection)
    .await?;
    Ok(acknowledged.rows_affected())
}
