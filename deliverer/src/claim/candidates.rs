//! Candidates of a claim: the due lanes with spare capacity, and their rows within the limits
//! (ruling 34, limits in flight) and within memory.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use chrono::{DateTime, Utc};
use domain::pressure::{always_within, count_within};
use sqlx::{FromRow, PgConnection};
use uuid::Uuid;
use vault::{KeySubject, bodies, responses};

use crate::limits::{FullLimits, SendLimits, SendReservation};
use crate::outbox::lanes::{has_capacity, not_held, waiting_from};
use crate::outbox::row::{OutboxRow, outbox_columns};

/// Fewest candidates read of a lane. Twice a lane's share of the permits is read, because other
/// lanes may leave some unused.
const CANDIDATES_PER_LANE_MIN: usize = 2;

/// SQL condition: a lane is open and has work that waits.
macro_rules! open {
    () => {
        "due_at is not null and cancel_cause is null and paused_at is null "
    };
}

/// The lanes with spare capacity that are due at `$5`, none before `$6`: `near`, and `far` if the
/// lanes of full or held hosts hide others.
///
/// `near` reads the first 1,000 due lanes, which is enough for four processes side by side. If
/// these are due and do not fill a claim, `far` goes from host to host. It takes one step for a
/// host however many lanes the host has, and hosts share the claim.
macro_rules! due_lanes {
    ($select:literal, $lock:literal) => {
        concat!(
            "with recursive first as materialized (
                 select lane_id, firm_id, host, due_at from lanes
                  where ",
            open!(),
            "       and due_at >= $6 and due_at <= $5
                  order by due_at limit 1000),
             near as materialized (
                 select l.lane_id
                   from (select lane_id, due_at from first
                          where ",
            has_capacity!(),
            "             order by due_at) f
                   join lanes l on l.lane_id = f.lane_id
                  where l.due_at <= $5 and l.cancel_cause is null and l.paused_at is null
                  order by f.due_at limit $7 ",
            $lock,
            "),
             hosts as (
                 (select host, due_at from lanes
                   where ",
            open!(),
            "        and due_at >= $6
                     and (select count(*) from first) = 1000
                     and (select count(*) from near) < $7
                     and not exists (select from pauses where kind = 'all')
                   order by host, due_at limit 1)
                 union all
                 select next.host, next.due_at
                   from hosts h
                  cross join lateral (
                        select host, due_at from lanes
                         where ",
            open!(),
            "              and due_at >= $6 and host > h.host
                         order by host, due_at limit 1) next),
             due_hosts as materialized (
                 select host, due_at from hosts
                  where due_at <= $5 and host <> all($2)
                    and host not in (select host from pauses where kind = 'host')
                  order by due_at limit $7),
             far as materialized (
                 select l.lane_id
                   from due_hosts h
                  cross join lateral (
                        select l.lane_id from lanes l
                         where ",
            open!(),
            "              and due_at >= $6 and due_at <= $5 and host = h.host
                           and l.lane_id not in (select lane_id from near)
                           and ",
            has_capacity!(),
            "            order by due_at
                         limit greatest($7 / (select count(*) from due_hosts), 1) ",
            $lock,
            ") l
                  limit $7) ",
            $select
        )
    };
}

/// The due times that a claim looks for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DueScan {
    pub(crate) now: DateTime<Utc>,
    /// No open lane is due earlier.
    pub(crate) from: DateTime<Utc>,
}

/// Lanes to claim from.
#[derive(FromRow)]
pub(crate) struct LockedLanes {
    pub(crate) lane_ids: Vec<Uuid>,
    /// The first due time of an open lane, also of a lane without spare capacity. `None` if no lane
    /// is due.
    pub(crate) first_due_at: Option<DateTime<Utc>>,
}

/// Locks the lanes with spare capacity that are due first, at most `most` of them.
pub(crate) async fn lock_lanes(
    connection: &mut PgConnection,
    DueScan { now, from }: DueScan,
    full: &FullLimits,
    most: usize,
) -> Result<LockedLanes, sqlx::Error> {
    let (firm_ids, hosts) = full.pair_columns();
    sqlx::query_as(due_lanes!(
        "select array(select lane_id from near union all select lane_id from far limit $7)
                    as lane_ids,
                (select min(due_at) from first) as first_due_at",
        "for no key update of l skip locked"
    ))
    .bind(&full.firms)
    .bind(&full.hosts)
    .bind(firm_ids)
    .bind(hosts)
    .bind(now)
    .bind(from)
    .bind(rows(most))
    .fetch_one(connection)
    .await
}

/// The next time a claim may find a row. `Some` time that has passed if a lane with spare capacity
/// is due. A lane that is due later counts whatever its capacity is now.
pub(crate) async fn next(
    connection: &mut PgConnection,
    DueScan { now, from }: DueScan,
    full: &FullLimits,
) -> Result<Option<DateTime<Utc>>, sqlx::Error> {
    let (firm_ids, hosts) = full.pair_columns();
    sqlx::query_scalar(due_lanes!(
        "select coalesce(
                (select $5 where exists (select from near) or exists (select from far)),
                (select due_at from lanes
                  where due_at is not null and cancel_cause is null and paused_at is null
                    and due_at > $5
                    and not exists (select from pauses where kind = 'all')
                  order by due_at limit 1))",
        ""
    ))
    .bind(&full.firms)
    .bind(&full.hosts)
    .bind(firm_ids)
    .bind(hosts)
    .bind(now)
    .bind(from)
    .bind(1_i64)
    .fetch_one(connection)
    .await
}

/// A row to send now, and its reserved capacity.
pub(crate) type ReservedRow = (OutboxRow, Arc<SendReservation>);

/// Locked lanes, and the earliest due time of rows that their floors do not cover yet.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LanesToClaim<'a> {
    pub(crate) lane_ids: &'a [Uuid],
    pub(crate) rows_from: Option<DateTime<Utc>>,
}

/// The rows of these locked lanes that the limits allow now.
pub(crate) async fn choose_rows(
    connection: &mut PgConnection,
    lanes: LanesToClaim<'_>,
    now: DateTime<Utc>,
    limits: &SendLimits,
) -> Result<Vec<ReservedRow>, sqlx::Error> {
    let most = limits.per_firm_and_host().max(CANDIDATES_PER_LANE_MIN);
    let per_lane = (limits.permit_usage().free * 2 / lanes.lane_ids.len().max(1))
        .clamp(CANDIDATES_PER_LANE_MIN, most);
    let due = due(connection, lanes, now, per_lane).await?;
    let reserved =
        limits.reserve(due.iter().map(|due| due.row.candidate(due.host.clone())).collect());
    let mut due: HashMap<Uuid, OutboxRow> =
        due.into_iter().map(|due| (due.row.delivery_id, due.row)).collect();
    let row = |(delivery_id, reservation)| Some((due.remove(&delivery_id)?, reservation));
    Ok(reserved.into_iter().filter_map(row).collect())
}

/// The leading rows whose bodies a claim can hold in memory (case F9).
pub(crate) async fn within_memory(
    connection: &mut PgConnection,
    mut chosen: Vec<ReservedRow>,
    max_bytes: usize,
) -> Result<Vec<ReservedRow>, sqlx::Error> {
    if chosen.len() > always_within(max_bytes) {
        let rows: Vec<&OutboxRow> = chosen.iter().map(|(row, _)| row).collect();
        let sources = sources(connection, &rows).await?;
        chosen.truncate(count_within(max_bytes, sources));
    }
    Ok(chosen)
}

/// The source of each row's body, a frozen body or an occurrence, and its size in bytes.
async fn sources(
    connection: &mut PgConnection,
    chosen: &[&OutboxRow],
) -> Result<Vec<(Uuid, usize)>, sqlx::Error> {
    let frozen: Vec<Uuid> = chosen.iter().filter_map(|row| row.body_id).collect();
    let fresh: HashSet<KeySubject> =
        chosen.iter().filter(|row| row.body_id.is_none()).map(|row| row.subject()).collect();
    let bodies = bodies::sizes(connection, &frozen).await?;
    let responses = responses::sizes(connection, &fresh).await?;
    Ok(chosen
        .iter()
        .map(|row| match row.body_id {
            Some(body_id) => (body_id, bodies.get(&body_id)),
            None => (row.occurrence_id, responses.get(&row.subject())),
        })
        .map(|(source, size)| (source, size.copied().unwrap_or_default()))
        .collect())
}

/// A due row and the host of its lane.
#[derive(FromRow)]
struct DueRow {
    #[sqlx(flatten)]
    row: OutboxRow,
    host: String,
}

/// The due rows of these locked lanes, the oldest first.
async fn due(
    connection: &mut PgConnection,
    LanesToClaim { lane_ids, rows_from }: LanesToClaim<'_>,
    now: DateTime<Utc>,
    per_lane: usize,
) -> Result<Vec<DueRow>, sqlx::Error> {
    sqlx::query_as(concat!(
        "select o.*, l.host
           from lanes l
          cross join lateral (
                select ",
        outbox_columns!(""),
        ", due_at
                  from outbox
                 where lane_id = l.lane_id and leased_at is null and due_at <= $2
                   and due_at >= least(",
        waiting_from!("l."),
        ", $4)           order by due_at, position limit $3) o
          where l.lane_id = any($1)
          order by o.due_at, o.position"
    ))
    .bind(lane_ids)
    .bind(now)
    .bind(rows(per_lane))
    .bind(rows_from)
    .fetch_all(connection)
    .await
}

/// A count as a `bigint`.
fn rows(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
