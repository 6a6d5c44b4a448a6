//! Lanes: one per subscription, and one per firm and host of workflow steps.
//!
//! A slow or dead receiver delays only its own lane. A claim and a removal lock the same row. The
//! order of their commits decides whether a delivery was in flight (ruling 29, in flight at
//! removal).

use std::collections::{BTreeMap, HashMap, HashSet};

use chrono::{DateTime, Utc};
use domain::delivery::{CancelCause, UnknownCause};
use eventstore::AppendError;
use sqlx::{PgConnection, PgPool};
use uuid::Uuid;

/// SQL condition: no operator holds the lane. Columns `lane_id`, `firm_id` and `host` must be
/// in scope.
macro_rules! not_held {
    () => {
        "not exists (select from pauses where kind = 'all')
         and firm_id not in (select firm_id from pauses where kind = 'firm')
         and lane_id not in (select hook_id from pauses where kind = 'hook')
         and host not in (select host from pauses where kind = 'host') "
    };
}
pub(crate) use not_held;

/// SQL condition: neither a limit nor an operator keeps the lane from a claim. `$1` are firms, `$2`
/// hosts, and `$3` and `$4` pairs of both, that have no spare capacity. Operators' pauses are read
/// in the same statement, because a statement of its own would cost each claim a round trip.
macro_rules! has_capacity {
    () => {
        concat!(
            "firm_id <> all($1) and host <> all($2)
             and (firm_id, host) not in (select * from unnest($3::uuid[], $4::text[]))
             and ",
            not_held!()
        )
    };
}
pub(crate) use has_capacity;

/// SQL expression: a time before which no row of the lane waits, with this prefix of the columns
/// of `lanes`. Row locks do not change `xmin`. Another build, a restore or an operator's update
/// does, and then the scan begins at the lane's first row.
macro_rules! waiting_from {
    ($prefix:literal) => {
        concat!(
            "case when ",
            $prefix,
            "xmin = ",
            $prefix,
            "waiting_from_xid then ",
            $prefix,
            "waiting_from else '-infinity' end"
        )
    };
}
pub(crate) use waiting_from;

/// SQL assignments: an update of `lanes l` that changes neither rows nor due times keeps the floor.
macro_rules! keep_waiting_from {
    () => {
        concat!(
            "waiting_from = ",
            waiting_from!("l."),
            ", waiting_from_xid = pg_current_xact_id()::xid "
        )
    };
}
pub(crate) use keep_waiting_from;

/// Locks these lanes in the order of their ids, and returns the open ones. The lock excludes other
/// work on the lane and its removal. It does not exclude the claim in an append, which takes `for
/// key share`.
pub(crate) async fn lock_open(
    connection: &mut PgConnection,
    lane_ids: &[Uuid],
) -> Result<HashSet<Uuid>, sqlx::Error> {
    let rows: Vec<(Uuid, bool)> = sqlx::query_as(
        "select lane_id, cancel_cause is null from lanes
          where lane_id = any($1) order by lane_id for no key update",
    )
    .bind(lane_ids)
    .fetch_all(connection)
    .await?;
    Ok(rows.into_iter().filter(|(_, open)| *open).map(|(lane_id, _)| lane_id).collect())
}

/// The closed lanes among these, with their causes. A closed lane never opens again, so the look
/// takes no lock. A lane that is being closed may still look open.
///
/// # Errors
/// If the database does not answer, or a cause is unknown.
pub(crate) async fn closed_among(
    connection: &mut PgConnection,
    lane_ids: &[Uuid],
) -> Result<HashMap<Uuid, CancelCause>, AppendError> {
    let closed: Vec<(Uuid, String)> = sqlx::query_as(
        "select lane_id, cancel_cause from lanes
          where lane_id = any($1) and cancel_cause is not null",
    )
    .bind(lane_ids)
    .fetch_all(connection)
    .await?;
    let cause = |(lane_id, cause): (Uuid, String)| Ok((lane_id, parse_cause(&cause)?));
    closed.into_iter().map(cause).collect()
}

/// The cause that a lane's row names.
pub(crate) fn parse_cause(name: &str) -> Result<CancelCause, AppendError> {
    name.parse().map_err(|error: UnknownCause| AppendError::Unreadable(error.to_string()))
}

/// Makes the lane due at `until` and not before. A lane that another transaction has locked stays
/// as it is.
pub(crate) async fn put_off(
    pool: &PgPool,
    lane_id: Uuid,
    until: DateTime<Utc>,
) -> Result<(), sqlx::Error> {
    sqlx::query(
        "with free as materialized (
             select lane_id from lanes where lane_id = $1 for no key update skip locked)
         update lanes l set due_at = $2 from free where l.lane_id = free.lane_id and l.lane_id = $1",
    )
    .bind(lane_id)
    .bind(until)
    .execute(pool)
    .await?;
    Ok(())
}

/// Makes each of these locked lanes due at its time or now, unless it is due earlier. The lane got
/// a row that waits.
pub(crate) async fn due_by(
    connection: &mut PgConnection,
    due: &BTreeMap<Uuid, DateTime<Utc>>,
    now: DateTime<Utc>,
) -> Result<(), sqlx::Error> {
    if due.is_empty() {
        return Ok(());
    }
    sqlx::query(concat!(
        "update lanes l
            set due_at = least(l.due_at, greatest(t.due_at, $3)),
                waiting_from = least(",
        waiting_from!("l."),
        ", t.due_at),
                waiting_from_xid = pg_current_xact_id()::xid
           from unnest($1::uuid[], $2::timestamptz[]) as t(lane_id, due_at)
          where l.lane_id = t.lane_id and l.lane_id = any($1)
            and (l.due_at is null or l.due_at > greatest(t.due_at, $3) or ",
        waiting_from!("l."),
        " > t.due_at)"
    ))
    .bind(due.keys().copied().collect::<Vec<_>>())
    .bind(due.values().copied().collect::<Vec<_>>())
    .bind(now)
    .execute(connection)
    .await?;
    Ok(())
}

/// Sets the due times of these locked lanes after rows were taken out. An open lane is due with its
/// first row. A closed lane is due now, as long as it has rows to cancel. A due time never moves
/// back: the claim's scan of due lanes may have passed it. A parked lane joins the due lanes again,
/// and is due from now on for the same reason.
///
/// Each look begins behind the rows that were taken before, so it costs the same in a long lane and
/// beside a held snapshot. An open lane that stays due is written only if its floor has moved by
/// half a second: each write leaves a version of the lane's row.
pub(crate) async fn reschedule(
    connection: &mut PgConnection,
    lane_ids: &[Uuid],
    now: DateTime<Utc>,
) -> Result<(), sqlx::Error> {
    reschedule_from(connection, lane_ids, now, None).await
}

/// [`reschedule`], for lanes with new rows that are due at `rows_from` or later and that their
/// floors do not cover yet.
pub(crate) async fn reschedule_from(
    connection: &mut PgConnection,
    lane_ids: &[Uuid],
    now: DateTime<Utc>,
    rows_from: Option<DateTime<Utc>>,
) -> Result<(), sqlx::Error> {
    sqlx::query(concat!(
        "with looked as materialized (
             select l.lane_id, l.due_at, l.cancel_cause, l.parked_in, ",
        waiting_from!("l."),
        " as waiting_from,
                    (select o.due_at from outbox o
                      where o.lane_id = l.lane_id and o.leased_at is null
                        and o.due_at >= least(",
        waiting_from!("l."),
        ", $3)         order by o.due_at limit 1) as first_due_at
               from lanes l where l.lane_id = any($1)),
         next as materialized (
             select lane_id, waiting_from, first_due_at,
                    case when first_due_at is null then null
                         when cancel_cause is null and parked_in is null
                         then greatest(first_due_at, least(due_at, $2))
                         when cancel_cause is null then greatest(first_due_at, $2)
                         else least(due_at, $2) end as due_at,
                    coalesce(cancel_cause is null and parked_in is null
                             and due_at <= $2 and first_due_at <= $2
                             and first_due_at >= waiting_from
                             and first_due_at < waiting_from + interval '0.5 s', false) as stays
               from looked)
         update lanes l
            set due_at = n.due_at, parked_in = null,
                waiting_from = coalesce(n.first_due_at, 'infinity'),
                waiting_from_xid = pg_current_xact_id()::xid
           from next n
          where l.lane_id = n.lane_id and not n.stays
            and (l.due_at is distinct from n.due_at or l.parked_in is not null
                 or n.waiting_from <> coalesce(n.first_due_at, 'infinity'))"
    ))
    .bind(lane_ids)
    .bind(now)
    .bind(rows_from)
    .execute(connection)
    .await?;
    Ok(())
}
