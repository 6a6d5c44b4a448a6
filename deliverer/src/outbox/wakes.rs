//! Wakes name lanes with new rows. A transaction that inserts rows adds a wake and locks no lane.
//! So no two transactions wait for each other at a busy lane. The claim absorbs wakes.

use chrono::{DateTime, Utc};
use sqlx::{FromRow, PgConnection};
use uuid::Uuid;

use super::lanes::{has_capacity, not_held, waiting_from};
use crate::limits::FullLimits;

/// Wakes taken at a time.
const WAKES_PER_STEP: i64 = 1_000;

/// Adds a wake for a lane with a new row that is due at this time.
pub(crate) async fn add_wake(
    connection: &mut PgConnection,
    lane_id: Uuid,
    due_at: DateTime<Utc>,
) -> Result<(), sqlx::Error> {
    sqlx::query("insert into lane_wakes (lane_id, due_at) values ($1, $2)")
        .bind(lane_id)
        .bind(due_at)
        .execute(connection)
        .await?;
    Ok(())
}

/// The wakes that an absorption left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromRow)]
pub(crate) struct WakesLeft {
    /// Whether wakes are left.
    pub(crate) are_left: bool,
    /// No wake of an older transaction is left, and none will come.
    pub(crate) from_xid: i64,
}

/// Wakes that a claim absorbed.
#[derive(Debug, FromRow)]
pub(crate) struct AbsorbedWakes {
    #[sqlx(flatten)]
    pub(crate) left: WakesLeft,
    /// Woken lanes that the claim takes at once. They are locked, and not written.
    pub(crate) lane_ids: Vec<Uuid>,
    /// The first due time of a new row, if a wake was taken.
    pub(crate) rows_from: Option<DateTime<Utc>>,
}

/// Takes wakes. `$5` is the time, `$6` the oldest transaction to look for, `$7` the number of lanes
/// that the claim takes, and `$8` the number of wakes. The lanes' columns are read under the lock.
macro_rules! absorb {
    () => {
        concat!(
            "with looked as materialized (
                 select least($6::text::xid8, pg_snapshot_xmin(pg_current_snapshot()))
                        as from_xid),
             taken as materialized (
                 select w.woken_by, w.wake_id, w.due_at, l.lane_id, l.firm_id, l.host,
                        l.cancel_cause is null and l.paused_at is null as is_open
                   from lane_wakes w join lanes l on l.lane_id = w.lane_id
                  where w.woken_by >= (select from_xid from looked)
                  order by w.woken_by, w.wake_id limit $8
                    for no key update of l skip locked),
             gone as (
                 delete from lane_wakes
                  where (woken_by, wake_id) in (select woken_by, wake_id from taken)),
             woken as materialized (
                 select lane_id, firm_id, host, is_open, min(due_at) as due_at from taken
                  group by lane_id, firm_id, host, is_open),
             claimed as materialized (
                 select lane_id from woken
                  where is_open and ",
            has_capacity!(),
            "     limit $7),
             due as (
                 update lanes l
                    set due_at = least(l.due_at, $5),
                        waiting_from = least(",
            waiting_from!("l."),
            ", w.due_at),
                        waiting_from_xid = pg_current_xact_id()::xid
                   from woken w
                  where l.lane_id = w.lane_id
                    and w.lane_id not in (select lane_id from claimed)
                    and (l.due_at is null or l.due_at > $5 or ",
            waiting_from!("l."),
            " > w.due_at)),
             first_left as materialized (
                 select woken_by from lane_wakes
                  where woken_by >= (select from_xid from looked)
                    and (woken_by, wake_id) not in (select woken_by, wake_id from taken)
                  order by woken_by limit 1)
             select exists (select from first_left) as are_left,
                    least((select woken_by from first_left),
                          pg_snapshot_xmin(pg_current_snapshot()))::text::bigint as from_xid,
                    array(select lane_id from claimed) as lane_ids,
                    (select greatest(min(due_at), 'epoch') from woken) as rows_from"
        )
    };
}

/// Makes woken lanes due now, and deletes their wakes. Closed and paused lanes are woken too,
/// because the cancel worker takes back their rows. A lane that another transaction has locked
/// keeps its wakes, and delays no other lane. Wakes of transactions before `from_xid` are not
/// looked for; the transaction ids of a restored server may have gone back.
///
/// A lane that is due already and whose rows are due later than its others stays as it is.
pub(crate) async fn absorb_wakes(
    connection: &mut PgConnection,
    now: DateTime<Utc>,
    from_xid: i64,
) -> Result<WakesLeft, sqlx::Error> {
    let scan = WakeScan { now, from_xid, lanes_max: 0 };
    Ok(absorb_for_claim(connection, scan, &FullLimits::default()).await?.left)
}

/// The wakes that a claim looks for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WakeScan {
    pub(crate) now: DateTime<Utc>,
    /// No wake of an older transaction is left.
    pub(crate) from_xid: i64,
    /// Lanes that the claim takes at once.
    pub(crate) lanes_max: usize,
}

/// [`absorb_wakes()`], for a claim. It takes woken lanes with spare capacity at once. A lane that
/// it empties is then not written, so the versions of a busy lane's row do not pile up.
pub(crate) async fn absorb_for_claim(
    connection: &mut PgConnection,
    WakeScan { now, from_xid, lanes_max }: WakeScan,
    full: &FullLimits,
) -> Result<AbsorbedWakes, sqlx::Error> {
    let (firm_ids, hosts) = full.pair_columns();
    sqlx::query_as(absorb!())
        .bind(&full.firms)
        .bind(&full.hosts)
        .bind(firm_ids)
        .bind(hosts)
        .bind(now)
        .bind(from_xid.to_string())
        .bind(i64::try_from(lanes_max).unwrap_or(i64::MAX))
        .bind(WAKES_PER_STEP)
        .fetch_one(connection)
        .await
}
