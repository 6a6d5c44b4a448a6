//! What is due, and what of it is sent now: the lanes to take from, and the deliveries that fit the
//! limits of ruling 34.
//!
//! Lanes say what of them is in flight, so the limits hold over all processes. Two who claim for one
//! host take turns: they share an advisory lock of the host, as long as a claim lasts.

use std::collections::{HashMap, HashSet};

use chrono::{DateTime, Utc};
use domain::pressure::{Caps, Flight, Room, always_within, choose, within};
use sqlx::{FromRow, PgConnection};
use tokio::time::Instant;
use uuid::Uuid;
use vault::{Subject, bodies, responses};

use crate::claim::Leased;
use crate::out::Out;
use crate::places::Pair;

/// Candidates read of a lane, at least: the limits of another lane may leave more places than it
/// expects.
const OF_A_LANE: usize = 2;

/// Whether no operator holds a lane.
macro_rules! not_held {
    () => {
        "not exists (select from pauses where kind = 'all')
         and firm_id not in (select firm_id from pauses where kind = 'firm')
         and lane_id not in (select hook_id from pauses where kind = 'hook')
         and host not in (select host from pauses where kind = 'host') "
    };
}
pub(crate) use not_held;

/// `$1` now, `$2` firms that get nothing, `$3` and `$4` the limits. Pauses are read here and not
/// before: a statement of its own would cost each claim a way to the database.
macro_rules! open_lanes {
    ($select:literal) => {
        concat!(
            "with flight as materialized (
                 select firm_id, host, sum(running) as running from lanes
                  where running > 0 and running_until > $1
                  group by firm_id, host),
             open as materialized (
                 select lane_id, host, due_at from lanes
                  where due_at is not null and cancel_cause is null and paused_at is null
                    and firm_id <> all($2)
                    and (firm_id, host) not in (select firm_id, host from flight
                                                 where running >= $3)
                    and host not in (select host from flight
                                      group by host having sum(least(running, $3)) >= $4)
                    and ",
            not_held!(),
            $select
        )
    };
}

/// Locks the lanes that are due first and have a place, at most as many as can be sent, or as are asked for.
pub(crate) async fn lock_lanes(
    connection: &mut PgConnection,
    now: DateTime<Utc>,
    (room, most): (&Room, usize),
    caps: Caps,
) -> Result<Vec<Uuid>, sqlx::Error> {
    sqlx::query_scalar(open_lanes!(
        "and due_at <= $1 order by due_at limit $5 for update skip locked)
         select lane_id from open where pg_try_advisory_xact_lock(hashtextextended(host, 34))"
    ))
    .bind(now)
    .bind(room.sated())
    .bind(rows(caps.per_firm_and_host))
    .bind(rows(caps.per_host))
    .bind(rows(room.free.min(most)))
    .fetch_all(connection)
    .await
}

/// When the next lane with a place is due, if any is.
pub(crate) async fn next(
    connection: &mut PgConnection,
    now: DateTime<Utc>,
    room: &Room,
    caps: Caps,
) -> Result<Option<DateTime<Utc>>, sqlx::Error> {
    sqlx::query_scalar(open_lanes!("order by due_at limit 1) select due_at from open"))
        .bind(now)
        .bind(room.sated())
        .bind(rows(caps.per_firm_and_host))
        .bind(rows(caps.per_host))
        .fetch_optional(connection)
        .await
}

/// What of these locked lanes is sent now, as it is once it is leased.
pub(crate) async fn chosen(
    connection: &mut PgConnection,
    lane_ids: &[Uuid],
    now: DateTime<Utc>,
    room: &Room,
    caps: Caps,
) -> Result<Vec<Leased>, sqlx::Error> {
    let Claims { flight, .. } = claims(connection, now, (None, &[]), caps).await?;
    let per_lane = (room.free * 2 / lane_ids.len().max(1))
        .clamp(OF_A_LANE, caps.per_firm_and_host.max(OF_A_LANE));
    let due = due(connection, lane_ids, now, per_lane).await?;
    let candidates = due.iter().map(|due| due.row.candidate(due.host.clone())).collect();
    let chosen = choose(candidates, room, flight, caps);
    let mut due: HashMap<Uuid, Leased> =
        due.into_iter().map(|due| (due.row.delivery_id, due.row)).collect();
    Ok(chosen.into_iter().filter_map(|delivery_id| due.remove(&delivery_id)).collect())
}

/// As many of what was chosen as a claim can hold in memory (case F9).
pub(crate) async fn within_memory(
    connection: &mut PgConnection,
    mut chosen: Vec<Leased>,
    max_bytes: usize,
) -> Result<Vec<Leased>, sqlx::Error> {
    if chosen.len() > always_within(max_bytes) {
        let sources = sources(connection, &chosen).await?;
        chosen.truncate(within(max_bytes, sources));
    }
    Ok(chosen)
}

/// What each of these is read from, a frozen body or an occurrence, and its size in bytes.
async fn sources(
    connection: &mut PgConnection,
    chosen: &[Leased],
) -> Result<Vec<(Uuid, usize)>, sqlx::Error> {
    let frozen: Vec<Uuid> = chosen.iter().filter_map(|row| row.body_id).collect();
    let fresh: HashSet<Subject> =
        chosen.iter().filter(|row| row.body_id.is_none()).map(Leased::subject).collect();
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

#[derive(FromRow)]
struct Busy {
    lane_id: Uuid,
    firm_id: Uuid,
    host: String,
    running: i32,
    /// Whether something in it is due.
    waits: bool,
}

/// What is claimed in all processes, and where nothing is claimed ahead.
#[derive(Default)]
pub(crate) struct Claims {
    /// What is claimed, less what this process knows to be answered.
    pub(crate) flight: Flight,
    /// Where another process has claimed, as far as is known, or something of these firms waits for a claim.
    pub(crate) shared: HashSet<Pair>,
}

/// What is claimed in all processes; of these firms also what waits.
pub(crate) async fn claims(
    connection: &mut PgConnection,
    now: DateTime<Utc>,
    (out, firm_ids): (Option<&Out>, &[Uuid]),
    caps: Caps,
) -> Result<Claims, sqlx::Error> {
    let lanes: Vec<Busy> = sqlx::query_as(concat!(
        "select lane_id, firm_id, host, running, false as waits from lanes
          where running > 0 and running_until > $1
         union all
         select lane_id, firm_id, host, 0, true from lanes
          where firm_id = any($2) and due_at <= $1 and cancel_cause is null and paused_at is null
            and ",
        not_held!()
    ))
    .bind(now)
    .bind(firm_ids)
    .fetch_all(connection)
    .await?;
    let ours = out.map(|out| out.by_lane(Instant::now())).unwrap_or_default();
    let mut claims = Claims::default();
    for lane in lanes {
        let running = usize::try_from(lane.running).unwrap_or(usize::MAX);
        let ours = ours.get(&lane.lane_id).copied().unwrap_or_default();
        let pair = (lane.firm_id, lane.host);
        if lane.waits || running > ours.all {
            claims.shared.insert(pair.clone());
        }
        if running > 0 {
            let unanswered = running.saturating_sub(ours.answered);
            claims.flight.count((lane.lane_id, pair), unanswered, caps);
        }
    }
    Ok(claims)
}

/// A delivery that is due, and where it goes.
#[derive(FromRow)]
struct Due {
    #[sqlx(flatten)]
    row: Leased,
    host: String,
}

/// What is due in these locked lanes, the oldest first.
async fn due(
    connection: &mut PgConnection,
    lane_ids: &[Uuid],
    now: DateTime<Utc>,
    per_lane: usize,
) -> Result<Vec<Due>, sqlx::Error> {
    sqlx::query_as(
        "select o.*, l.host
           from lanes l
          cross join lateral (
                select delivery_id, lane_id, firm_id, occurrence_id, trigger, form_id, response_id,
                       report_id, booking_id, sequence + (leased_at is not null)::int as sequence,
                       tries + 1 as tries, tries_max, step, replay_id, traceparent,
                       lease + 1 as lease, body_id, body_sha256, leased_at as interrupted_at,
                       due_at, position
                  from outbox
                 where lane_id = l.lane_id and due_at <= $2
                 order by due_at, position limit $3) o
          where l.lane_id = any($1)
          order by o.due_at, o.position",
    )
    .bind(lane_ids)
    .bind(now)
    .bind(rows(per_lane))
    .fetch_all(connection)
    .await
}

/// A number of rows, as SQL counts.
fn rows(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
