//! The work that waits for each host, as operators see it.

use projector::receivers::HostBacklog;
use sqlx::PgPool;

/// Lanes of a host that are looked at, the longest due first.
const LANES_PER_HOST_MAX: i64 = 200;

/// Deliveries of a lane that are counted.
const COUNTED_PER_LANE_MAX: i64 = 1_000;

/// The work that waits for these hosts. Hosts without work are left out, and so are closed lanes
/// and suspended firms.
pub async fn of_hosts(pool: &PgPool, hosts: &[String]) -> Result<Vec<HostBacklog>, sqlx::Error> {
    sqlx::query_as(
        "select asked.host, sum(o.waiting)::bigint as waiting, min(o.oldest_due_at) as oldest_due_at
           from unnest($1::text[]) as asked(host)
          cross join lateral (
                select lane_id from lanes
                 where host = asked.host and due_at is not null and cancel_cause is null
                   and paused_at is null
                 order by due_at limit $2) l
          cross join lateral (
                select count(*) as waiting, min(due_at) as oldest_due_at
                  from (select due_at from outbox
                         where lane_id = l.lane_id and leased_at is null
                         order by due_at limit $3) o) o
          group by asked.host",
    )
    .bind(hosts)
    .bind(LANES_PER_HOST_MAX)
    .bind(COUNTED_PER_LANE_MAX)
    .fetch_all(pool)
    .await
}
