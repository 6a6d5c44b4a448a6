//! Candidates of a claim: the due lanes with spare capacity, and their rows within the limits
//! (ruling 34, limits in flight) and within memory.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use chrono::{DateTime, Utc};
use domain::delivery::pressure::{always_within, count_within};
use sqlx::postgres::PgArguments;
use sqlx::query::QueryAs;
use sqlx::{FromRow, PgConnection, Postgres};
use uuid::Uuid;
use vault::{KeySubject, bodies, responses};

use crate::limits::{FullLimits, Reservations, SendLimits, SendReservation};
use crate::outbox::lanes::{has_capacity, keep_waiting_from, not_held, waiting_from};
use crate::outbox::row::{OutboxRow, outbox_columns};

/// Fewest candidates read of a lane. Twice a lane's share of the permits is read, because other
/// lanes may leave some unused.
const CANDIDATES_PER_LANE_MIN: usize = 2;

/// Due lanes that a claim reads. These are enough for four processes side by side.
macro_rules! lanes_in_window {
    () => {
        "1000"
    };
}

/// Queues and lanes that a look for the next due time reads, at most.
const QUEUES_OF_A_LOOK: i64 = 64;

/// Queues of unresponsive hosts that a claim visits, if there is room for `$8` attempts to such
/// hosts. Some of these hosts may be at their limit.
macro_rules! unresponsive_queues_max {
    () => {
        "least(16 + 2 * $8, 256)"
    };
}

/// SQL condition: a lane is open and has work that waits.
macro_rules! open {
    () => {
        "due_at is not null and cancel_cause is null and paused_at is null "
    };
}

/// The first due lanes that are not parked: `first`, due at `$5` and none before `$6`.
macro_rules! first_due {
    () => {
        concat!(
            "first as materialized (
                 select lane_id, firm_id, host, due_at from lanes
                  where ",
            open!(),
            "       and parked_in is null and due_at >= $6 and due_at <= $5
                  order by due_at limit ",
            lanes_in_window!(),
            ") "
        )
    };
}

/// SQL condition: a queue of parked lanes has a due lane with spare capacity.
macro_rules! is_claimable {
    ($queue:literal) => {
        concat!(
            "exists (select from (select lane_id, firm_id, host from lanes
                                   where ",
            open!(),
            "                        and parked_in = ",
            $queue,
            ".parked_in and due_at <= $5
                                   order by due_at limit ",
            lanes_in_window!(),
            ") waiting
                      where ",
            has_capacity!(),
            ") "
        )
    };
}

/// The lanes with spare capacity that are due at `$5`, `$7` of each kind: `near` are not parked,
/// and `far` are parked.
///
/// `far` visits the queues of hosts and firms that have capacity again, one step for each queue.
/// Queues of unresponsive hosts may be many, so a claim visits some of them, beginning behind the
/// queue `$9`, and only if there is room for `$8` attempts to such hosts. The queues of hosts that
/// have answered again are `$10`.
macro_rules! due_lanes {
    ($select:literal, $lock:literal) => {
        concat!(
            "with recursive ",
            first_due!(),
            ",
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
             hidden as materialized (
                 select (select count(*) from first) = ",
            lanes_in_window!(),
            "           and (select count(*) from near) < $7
                        and not exists (select from pauses where kind = 'all') as is_any),
             queues as (
                 (select parked_in, due_at from lanes
                   where ",
            open!(),
            "        and parked_in < 'u:' order by parked_in, due_at limit 1)
                 union all
                 select next.parked_in, next.due_at
                   from queues q
                  cross join lateral (
                        select parked_in, due_at from lanes
                         where ",
            open!(),
            "              and parked_in > q.parked_in and parked_in < 'u:'
                         order by parked_in, due_at limit 1) next),
             unresponsive_queues as (
                 (select parked_in, due_at, 1 as number from lanes
                   where ",
            open!(),
            "        and $8 > 0 and parked_in > $9 order by parked_in, due_at limit 1)
                 union all
                 select next.parked_in, next.due_at, q.number + 1
                   from unresponsive_queues q
                  cross join lateral (
                        select parked_in, due_at from lanes
                         where ",
            open!(),
            "              and parked_in > q.parked_in order by parked_in, due_at limit 1) next
                  where q.number < ",
            unresponsive_queues_max!(),
            "),
             visited as materialized (select * from unresponsive_queues),
             visit_end as materialized (
                 select coalesce((select max(parked_in) from visited having count(*) = ",
            unresponsive_queues_max!(),
            "), 'u:') as last_queue),
             recovered as materialized (
                 select asked.parked_in, due.due_at
                   from unnest($10::text[]) as asked(parked_in)
                   left join lateral (
                        select due_at from lanes
                         where ",
            open!(),
            "              and parked_in = asked.parked_in order by due_at limit 1) due on true),
             open_queues as materialized (
                 (select parked_in from queues
                   where due_at <= $5 and parked_in not in (select 'h:' || unnest($2))
                     and parked_in not in (select 'f:' || unnest($1)::text)
                     and parked_in not in (select 'h:' || host from pauses where kind = 'host')
                     and parked_in not in (select 'f:' || firm_id::text from pauses
                                            where kind = 'firm')
                     and parked_in not in (select 'p:' || hook_id::text from pauses
                                            where kind = 'hook')
                     and ",
            is_claimable!("queues"),
            "      order by due_at limit $7)
                 union
                 (select parked_in from visited
                   where due_at <= $5 and parked_in not in (select 'u:' || unnest($2))
                     and parked_in not in (select 'u:' || host from pauses where kind = 'host')
                     and ",
            is_claimable!("visited"),
            "      limit least($7, $8))
                 union
                 select parked_in from recovered
                  where due_at <= $5 and parked_in not in (select 'u:' || unnest($2))
                    and parked_in not in (select 'u:' || host from pauses where kind = 'host')),
             far as materialized (
                 select l.lane_id
                   from open_queues q
                  cross join lateral (
                        select l.lane_id
                          from (select lane_id, due_at
                                  from (select lane_id, firm_id, host, due_at from lanes
                                         where ",
            open!(),
            "                              and parked_in = q.parked_in and due_at <= $5
                                         order by due_at limit ",
            lanes_in_window!(),
            ") parked
                                 where ",
            has_capacity!(),
            "                    order by due_at) p
                          join lanes l on l.lane_id = p.lane_id
                         where l.due_at <= $5 and l.cancel_cause is null and l.paused_at is null
                         order by p.due_at
                         limit greatest($7 / (select count(*) from open_queues), 1) ",
            $lock,
            ") l
                  where not exists (select from pauses where kind = 'all')
                  limit $7) ",
            $select
        )
    };
}

/// The due times that a claim looks for, and the queue that its last visit ended with.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DueScan<'a> {
    pub(crate) now: DateTime<Utc>,
    /// No open lane that is not parked is due earlier.
    pub(crate) from: DateTime<Utc>,
    /// The visit of unresponsive hosts begins behind this queue.
    pub(crate) behind_queue: &'a str,
}

impl<'a> DueScan<'a> {
    /// Binds the arguments of `due_lanes!`.
    fn bind_arguments<R>(
        self,
        look: QueryAs<'a, Postgres, R, PgArguments>,
        full: &'a FullLimits,
        most: i64,
    ) -> QueryAs<'a, Postgres, R, PgArguments> {
        let (firm_ids, hosts) = full.pair_columns();
        look.bind(&full.firms)
            .bind(&full.hosts)
            .bind(firm_ids)
            .bind(hosts)
            .bind(self.now)
            .bind(self.from)
            .bind(most)
            .bind(to_bigint(full.unresponsive_room))
            .bind(self.behind_queue)
            .bind(&full.recovered_queues)
    }
}

/// Lanes to claim from.
#[derive(FromRow)]
pub(crate) struct LockedLanes {
    pub(crate) lane_ids: Vec<Uuid>,
    /// The first due time of an open lane that is not parked, also of a lane without spare
    /// capacity. `None` if no such lane is due.
    pub(crate) first_due_at: Option<DateTime<Utc>>,
    /// Whether lanes without spare capacity may hide others.
    pub(crate) hides_lanes: bool,
    /// The queue that the visit of unresponsive hosts ended with. `u:` if it came to the end.
    pub(crate) last_queue: String,
    /// Queues of hosts that have answered again, and that are empty.
    pub(crate) drained_queues: Vec<String>,
    /// Queues of unresponsive hosts that this look has visited.
    pub(crate) visited_queues: Vec<String>,
}

/// Locks the lanes with spare capacity that are due first, and returns at most `most` of them.
/// Parked lanes take turns with others.
pub(crate) async fn lock_lanes(
    connection: &mut PgConnection,
    scan: DueScan<'_>,
    full: &FullLimits,
    most: usize,
) -> Result<LockedLanes, sqlx::Error> {
    let look = sqlx::query_as(due_lanes!(
        "select array(select lane_id
                        from (select lane_id, row_number() over () as number, 0 as kind from far
                              union all
                              select lane_id, row_number() over (), 1 from near) both_kinds
                       order by number, kind limit $7) as lane_ids,
                (select min(due_at) from first) as first_due_at,
                (select is_any from hidden) as hides_lanes,
                (select last_queue from visit_end) as last_queue,
                array(select parked_in from recovered where due_at is null) as drained_queues,
                array(select parked_in from visited) as visited_queues",
        "for no key update of l skip locked"
    ));
    scan.bind_arguments(look, full, to_bigint(most)).fetch_one(connection).await
}

/// The next time a claim may find a row. `Some` time that has passed if a lane with spare capacity
/// is due, or may be hidden. A lane that is due later counts whatever its capacity is now.
pub(crate) async fn next_due_at(
    connection: &mut PgConnection,
    scan: DueScan<'_>,
    full: &FullLimits,
) -> Result<Option<DateTime<Utc>>, sqlx::Error> {
    let look = sqlx::query_as(due_lanes!(
        "select coalesce(
                (select $5 where exists (select from near) or exists (select from far)
                              or (select is_any from hidden)),
                (select due_at from lanes
                  where due_at is not null and cancel_cause is null and paused_at is null
                    and due_at > $5
                    and not exists (select from pauses where kind = 'all')
                  order by due_at limit 1))",
        ""
    ));
    let (due_at,) = scan.bind_arguments(look, full, QUEUES_OF_A_LOOK).fetch_one(connection).await?;
    Ok(due_at)
}

/// Parks the lanes without spare capacity that stand before all others. A pause lasts longer than a
/// full limit, so it decides about the queue. Returns the number of these lanes.
pub(crate) async fn park_blocked(
    connection: &mut PgConnection,
    DueScan { now, from, .. }: DueScan<'_>,
    full: &FullLimits,
) -> Result<u64, sqlx::Error> {
    let (firm_ids, hosts) = full.pair_columns();
    let parked = sqlx::query(concat!(
        "with ",
        first_due!(),
        ",
         blocked as materialized (
             select l.lane_id,
                    case when l.lane_id in (select hook_id from pauses where kind = 'hook')
                         then 'p:' || l.lane_id::text
                         when l.firm_id in (select firm_id from pauses where kind = 'firm')
                         then 'f:' || l.firm_id::text
                         when l.host = any($7) then 'u:' || l.host
                         when l.firm_id = any($1) and l.host <> all($2)
                              and l.host not in (select host from pauses where kind = 'host')
                         then 'f:' || l.firm_id::text
                         else 'h:' || l.host end as queue
               from (select lane_id from first where not (",
        has_capacity!(),
        ")) f
               join lanes l on l.lane_id = f.lane_id
              where l.due_at <= $5 and l.cancel_cause is null and l.paused_at is null
                for no key update of l skip locked)
         update lanes l set parked_in = b.queue, ",
        keep_waiting_from!(),
        " from blocked b where l.lane_id = b.lane_id"
    ))
    .bind(&full.firms)
    .bind(&full.hosts)
    .bind(firm_ids)
    .bind(hosts)
    .bind(now)
    .bind(from)
    .bind(&full.unresponsive_hosts)
    .execute(connection)
    .await?;
    Ok(parked.rows_affected())
}

/// Parks these locked lanes in the queues of their unresponsive hosts. Returns the number of lanes
/// that were not parked there.
pub(crate) async fn park_unresponsive(
    connection: &mut PgConnection,
    lane_ids: &[Uuid],
) -> Result<u64, sqlx::Error> {
    if lane_ids.is_empty() {
        return Ok(0);
    }
    let parked = sqlx::query(concat!(
        "update lanes l set parked_in = 'u:' || host, ",
        keep_waiting_from!(),
        " where lane_id = any($1) and due_at is not null
            and parked_in is distinct from 'u:' || host"
    ))
    .bind(lane_ids)
    .execute(connection)
    .await?;
    Ok(parked.rows_affected())
}

/// A row to send now, and its reserved capacity.
pub(crate) type ReservedRow = (OutboxRow, Arc<SendReservation>);

/// Locked lanes, and the earliest due time of rows that their floors do not cover yet.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LanesToClaim<'a> {
    pub(crate) lane_ids: &'a [Uuid],
    pub(crate) rows_from: Option<DateTime<Utc>>,
}

/// The chosen rows of a claim.
pub(crate) struct ChosenRows {
    pub(crate) rows: Vec<ReservedRow>,
    /// Lanes with due rows, none of which the limits allow now.
    pub(crate) blocked: HashSet<Uuid>,
    /// Lanes of these that wait because of their host's standing.
    pub(crate) crowded_out: Vec<Uuid>,
}

/// The rows of these locked lanes that the limits allow now.
pub(crate) async fn choose_rows(
    connection: &mut PgConnection,
    lanes: LanesToClaim<'_>,
    now: DateTime<Utc>,
    limits: &SendLimits,
) -> Result<ChosenRows, sqlx::Error> {
    let most = limits.per_firm_and_host().max(CANDIDATES_PER_LANE_MIN);
    let per_lane = (limits.permit_usage().free * 2 / lanes.lane_ids.len().max(1))
        .clamp(CANDIDATES_PER_LANE_MIN, most);
    let due = due_rows(connection, lanes, now, per_lane).await?;
    let Reservations { deliveries, crowded_out } = limits.reserve_capacity(
        due.iter().map(|due| due.row.claim_candidate(due.host.clone())).collect(),
    );
    let mut blocked: HashSet<Uuid> = due.iter().map(|due| due.row.lane_id).collect();
    let mut due: HashMap<Uuid, OutboxRow> =
        due.into_iter().map(|due| (due.row.delivery_id, due.row)).collect();
    let row = |(delivery_id, reservation)| Some((due.remove(&delivery_id)?, reservation));
    let rows: Vec<ReservedRow> = deliveries.into_iter().filter_map(row).collect();
    for (row, _) in &rows {
        blocked.remove(&row.lane_id);
    }
    Ok(ChosenRows { rows, blocked, crowded_out: crowded_out.into_iter().collect() })
}

/// The leading rows whose bodies a claim can hold in memory (case F9).
pub(crate) async fn within_memory(
    connection: &mut PgConnection,
    mut chosen: Vec<ReservedRow>,
    max_bytes: usize,
) -> Result<Vec<ReservedRow>, sqlx::Error> {
    if chosen.len() > always_within(max_bytes) {
        let rows: Vec<&OutboxRow> = chosen.iter().map(|(row, _)| row).collect();
        let sources = body_sources(connection, &rows).await?;
        chosen.truncate(count_within(max_bytes, sources).max(always_within(max_bytes)));
    }
    Ok(chosen)
}

/// The source of each row's body, a frozen body or an occurrence, and its size in bytes.
async fn body_sources(
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
async fn due_rows(
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
    .bind(to_bigint(per_lane))
    .bind(rows_from)
    .fetch_all(connection)
    .await
}

/// A count as a `bigint`.
fn to_bigint(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
