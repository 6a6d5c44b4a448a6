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
use crate::outbox::lanes::not_held;
use crate::outbox::row::{OutboxRow, outbox_columns};

/// Fewest candidates read of a lane. Twice a lane's share of the permits is read, because other
/// lanes may leave some unused.
const CANDIDATES_PER_LANE_MIN: usize = 2;

/// Open lanes. `$1` are firms, `$2` hosts, and `$3` and `$4` pairs of both, that have no spare
/// capacity. Operators' pauses are read in this statement, because a statement of its own would
/// cost each claim a round trip.
macro_rules! open_lanes {
    ($select:literal) => {
        concat!(
            "with open as materialized (
                 select lane_id, due_at from lanes
                  where due_at is not null and cancel_cause is null and paused_at is null
                    and firm_id <> all($1) and host <> all($2)
                    and (firm_id, host) not in (select * from unnest($3::uuid[], $4::text[]))
                    and ",
            not_held!(),
            $select
        )
    };
}

/// Locks the lanes with spare capacity that are due first, at most `most` of them.
pub(crate) async fn lock_lanes(
    connection: &mut PgConnection,
    now: DateTime<Utc>,
    full: &FullLimits,
    most: usize,
) -> Result<Vec<Uuid>, sqlx::Error> {
    let (firm_ids, hosts) = columns(full);
    sqlx::query_scalar(open_lanes!(
        "and due_at <= $5 order by due_at limit $6 for no key update skip locked)
         select lane_id from open"
    ))
    .bind(&full.firms)
    .bind(&full.hosts)
    .bind(firm_ids)
    .bind(hosts)
    .bind(now)
    .bind(rows(most))
    .fetch_all(connection)
    .await
}

/// The due time of the next lane with spare capacity.
pub(crate) async fn next(
    connection: &mut PgConnection,
    full: &FullLimits,
) -> Result<Option<DateTime<Utc>>, sqlx::Error> {
    let (firm_ids, hosts) = columns(full);
    sqlx::query_scalar(open_lanes!("order by due_at limit 1) select due_at from open"))
        .bind(&full.firms)
        .bind(&full.hosts)
        .bind(firm_ids)
        .bind(hosts)
        .fetch_optional(connection)
        .await
}

fn columns(full: &FullLimits) -> (Vec<Uuid>, Vec<&str>) {
    full.pairs.iter().map(|(firm_id, host)| (*firm_id, host.as_str())).unzip()
}

/// A row to send now, and its reserved capacity.
pub(crate) type ReservedRow = (OutboxRow, Arc<SendReservation>);

/// The rows of these locked lanes that the limits allow now.
pub(crate) async fn choose_rows(
    connection: &mut PgConnection,
    lane_ids: &[Uuid],
    now: DateTime<Utc>,
    limits: &SendLimits,
) -> Result<Vec<ReservedRow>, sqlx::Error> {
    let most = limits.per_firm_and_host().max(CANDIDATES_PER_LANE_MIN);
    let per_lane = (limits.permit_usage().free * 2 / lane_ids.len().max(1))
        .clamp(CANDIDATES_PER_LANE_MIN, most);
    let due = due(connection, lane_ids, now, per_lane).await?;
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
    lane_ids: &[Uuid],
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
                 order by due_at, position limit $3) o
          where l.lane_id = any($1)
          order by o.due_at, o.position"
    ))
    .bind(lane_ids)
    .bind(now)
    .bind(rows(per_lane))
    .fetch_all(connection)
    .await
}

/// A count as a `bigint`.
fn rows(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
