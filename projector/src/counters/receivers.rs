//! The counters of attempts by host. The follower of deliveries counts each attempt of the log
//! once. A rebuild does not count.

use std::collections::{BTreeMap, HashMap};

use chrono::{DateTime, Utc};
use domain::delivery::receiver::ReceiverTally;
use domain::delivery::{Attempt, DeliveryEvent};
use domain::event::Event;
use domain::subscription::host_of;
use domain::values::Timestamp;
use eventstore::{JoinedWrites, RecordedEvent};
use sqlx::{FromRow, PgConnection, PgPool};
use uuid::Uuid;

use crate::hooks;

/// The work that waits for a host.
#[derive(Debug, Clone, PartialEq, Eq, FromRow)]
pub struct HostBacklog {
    /// The host.
    pub host: String,
    /// Deliveries that wait for an attempt, up to the limits of the count.
    pub waiting: i64,
    /// The earliest due time of these deliveries.
    pub oldest_due_at: Option<DateTime<Utc>>,
}

/// Counts the attempts among these events. Their deliveries are in the read model.
pub(crate) async fn count_attempts(
    connection: &mut PgConnection,
    writes: &mut JoinedWrites,
    events: &[RecordedEvent],
) -> Result<(), sqlx::Error> {
    let attempts: Vec<(Uuid, &Attempt)> = events.iter().filter_map(delivery_attempt).collect();
    if attempts.is_empty() {
        return Ok(());
    }
    let hosts = delivery_hosts(connection, &attempts).await?;
    let mut tallies: BTreeMap<&str, ReceiverTally> = BTreeMap::new();
    for (delivery_id, attempt) in attempts {
        if let Some(host) = hosts.get(&delivery_id) {
            tallies.entry(host).or_default().take_attempt(attempt);
        }
    }
    tallies.retain(|_, tally| tally.last.is_some());
    if !tallies.is_empty() {
        write_last(writes, &tallies);
        write_hours(writes, &tallies);
    }
    Ok(())
}

fn delivery_attempt(recorded: &RecordedEvent) -> Option<(Uuid, &Attempt)> {
    let Event::Delivery(DeliveryEvent::DeliveryAttempted(attempt)) = &recorded.event else {
        return None;
    };
    Some((recorded.aggregate_id.parse().ok()?, attempt))
}

/// The host of each of these deliveries. The first attempt of a listed delivery names its
/// subscription; the read model knows the others.
async fn delivery_hosts(
    connection: &mut PgConnection,
    attempts: &[(Uuid, &Attempt)],
) -> Result<HashMap<Uuid, String>, sqlx::Error> {
    let mut hook_of: HashMap<Uuid, Uuid> = attempts
        .iter()
        .filter_map(|(delivery_id, attempt)| Some((*delivery_id, attempt.of?.hook_id)))
        .collect();
    let mut unnamed: Vec<Uuid> =
        attempts.iter().map(|(id, _)| *id).filter(|id| !hook_of.contains_key(id)).collect();
    unnamed.sort_unstable();
    unnamed.dedup();
    let mut hosts = HashMap::new();
    for (delivery_id, hook_id, host) in known_deliveries(connection, &unnamed).await? {
        hosts.extend(host.map(|host| (delivery_id, host)));
        hook_of.extend(hook_id.map(|hook_id| (delivery_id, hook_id)));
    }
    let mut hook_ids: Vec<Uuid> = hook_of.values().copied().collect();
    hook_ids.sort_unstable();
    hook_ids.dedup();
    let targets: HashMap<Uuid, String> = hooks::target_urls(connection, &hook_ids)
        .await?
        .into_iter()
        .map(|(hook_id, target)| (hook_id, host_of(&target)))
        .collect();
    let host = |hook_id| targets.get(hook_id).cloned();
    hosts.extend(hook_of.iter().filter_map(|(id, hook_id)| Some((*id, host(hook_id)?))));
    Ok(hosts)
}

async fn known_deliveries(
    connection: &mut PgConnection,
    delivery_ids: &[Uuid],
) -> Result<Vec<(Uuid, Option<Uuid>, Option<String>)>, sqlx::Error> {
    if delivery_ids.is_empty() {
        return Ok(Vec::new());
    }
    sqlx::query_as("select delivery_id, hook_id, host from deliveries where delivery_id = any($1)")
        .bind(delivery_ids)
        .fetch_all(connection)
        .await
}

/// A batch without a success continues the run of failures before it.
fn write_last(writes: &mut JoinedWrites, tallies: &BTreeMap<&str, ReceiverTally>) {
    let of = || tallies.values();
    let last = || of().map(|tally| tally.last.as_ref());
    writes
        .add(
            "noted as (
         insert into receivers as r (host, attempted_at, last_status, last_error, succeeded_at,
                                     failing_since, failures)
         select host, attempted_at, last_status, last_error, succeeded_at,
                coalesce(failing_since, 'infinity'), failures
           from unnest($1::text[], $2::timestamptz[], $3::int[], $4::text[], $5::timestamptz[],
                       $6::timestamptz[], $7::bigint[])
                as t(host, attempted_at, last_status, last_error, succeeded_at, failing_since,
                     failures)
             on conflict (host) do update
            set attempted_at = excluded.attempted_at, last_status = excluded.last_status,
                last_error = excluded.last_error,
                succeeded_at = coalesce(excluded.succeeded_at, r.succeeded_at),
                failing_since = case when excluded.succeeded_at is not null
                                     then excluded.failing_since
                                     else least(r.failing_since, excluded.failing_since) end,
                failures = excluded.failures
                           + case when excluded.succeeded_at is null then r.failures else 0 end)",
        )
        .bind(tallies.keys().copied().collect::<Vec<_>>())
        .bind(last().map(|last| last.map(|last| last.at.get())).collect::<Vec<_>>())
        .bind(last().map(|last| last?.status.map(i32::from)).collect::<Vec<_>>())
        .bind(last().map(|last| last?.error.clone()).collect::<Vec<_>>())
        .bind(of().map(|tally| tally.succeeded_at.map(Timestamp::get)).collect::<Vec<_>>())
        .bind(of().map(|tally| tally.failing_since.map(Timestamp::get)).collect::<Vec<_>>())
        .bind(of().map(|tally| tally.failures).collect::<Vec<_>>());
}

fn write_hours(writes: &mut JoinedWrites, tallies: &BTreeMap<&str, ReceiverTally>) {
    let rows: Vec<_> = tallies
        .iter()
        .flat_map(|(host, tally)| tally.hours.iter().map(move |(hour, count)| (host, hour, count)))
        .collect();
    writes
        .add(
            "counted as (
         insert into receiver_hours as h (host, hour, attempts, delivered)
         select * from unnest($1::text[], $2::timestamptz[], $3::bigint[], $4::bigint[])
             on conflict (host, hour) do update
            set attempts = h.attempts + excluded.attempts,
                delivered = h.delivered + excluded.delivered)",
        )
        .bind(rows.iter().map(|(host, ..)| **host).collect::<Vec<_>>())
        .bind(rows.iter().map(|(_, hour, _)| **hour).collect::<Vec<_>>())
        .bind(rows.iter().map(|(.., count)| count.attempts).collect::<Vec<_>>())
        .bind(rows.iter().map(|(.., count)| count.delivered).collect::<Vec<_>>());
}

/// A host that deliveries were sent to.
#[derive(Debug, Clone, PartialEq, Eq, FromRow)]
pub struct ReceiverRow {
    /// The host.
    pub host: String,
    /// Its live subscriptions, over all firms.
    pub subscriptions: i64,
    /// Attempts since the start of the window.
    pub attempts: i64,
    /// Attempts among them that were answered 2xx.
    pub delivered: i64,
    /// The end of the last attempt.
    pub attempted_at: DateTime<Utc>,
    /// The status of the last attempt, if any.
    pub last_status: Option<i32>,
    /// The fault of the last attempt, if it got no status.
    pub last_error: Option<String>,
    /// The end of the last success.
    pub succeeded_at: Option<DateTime<Utc>>,
    /// The end of the first failure since the last success.
    pub failing_since: Option<DateTime<Utc>>,
    /// The failures since the last success.
    pub failures: i64,
}

/// A selection of receivers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReceiverFilter<'a> {
    /// This host only.
    pub host: Option<&'a str>,
    /// Hosts after this one of the list.
    pub after: Option<&'a str>,
    /// The start of the window for attempts.
    pub since: DateTime<Utc>,
    /// Hosts in the answer, at most.
    pub limit: i64,
}

/// The statement that reads the [`ReceiverRow`]s of this part of the table.
macro_rules! receivers_of {
    ($part:literal) => {
        concat!(
            "select r.host, h.subscriptions, d.attempts, d.delivered, r.attempted_at, r.last_status,
                    r.last_error, r.succeeded_at, nullif(r.failing_since, 'infinity') as failing_since,
                    r.failures
               from (select host, attempted_at, last_status, last_error, succeeded_at, failing_since,
                            failures from receivers ",
            $part,
            ") r
              cross join lateral (
                    select coalesce(sum(attempts), 0)::bigint as attempts,
                           coalesce(sum(delivered), 0)::bigint as delivered
                      from receiver_hours where host = r.host and hour >= $1) d
              cross join lateral (
                    select count(*) as subscriptions from hooks
                     where hooks.host = r.host and removed_at is null) h
              order by r.failing_since, r.host"
        )
    };
}

/// Lists receivers of all firms: those that fail first, longest first, then the others by name.
pub async fn list(
    pool: &PgPool,
    wanted: ReceiverFilter<'_>,
) -> Result<Vec<ReceiverRow>, sqlx::Error> {
    if let Some(host) = wanted.host {
        return sqlx::query_as(receivers_of!("where host = $2"))
            .bind(wanted.since)
            .bind(host)
            .fetch_all(pool)
            .await;
    }
    sqlx::query_as(receivers_of!(
        "where (failing_since, host) > (
                   coalesce((select failing_since from receivers where host = $2), '-infinity'),
                   coalesce($2, ''))
         order by failing_since, host limit $3"
    ))
    .bind(wanted.since)
    .bind(wanted.after)
    .bind(wanted.limit)
    .fetch_all(pool)
    .await
}

/// Hosts that fail since this time or longer, longest first.
pub async fn failing_since(
    pool: &PgPool,
    since: DateTime<Utc>,
    failures_min: i64,
) -> Result<Vec<String>, sqlx::Error> {
    sqlx::query_scalar(
        "select host from receivers where failing_since <= $1 and failures >= $2
          order by failing_since, host",
    )
    .bind(since)
    .bind(failures_min)
    .fetch_all(pool)
    .await
}

/// Counts the hosts that fail since this time or longer.
pub async fn count_failing(
    connection: &mut PgConnection,
    since: DateTime<Utc>,
    failures_min: i64,
) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar(
        "select count(*) from receivers where failing_since <= $1 and failures >= $2",
    )
    .bind(since)
    .bind(failures_min)
    .fetch_one(connection)
    .await
}

/// Attempts to all hosts in some hours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromRow)]
pub struct ReceiverTotals {
    /// Hosts that were tried.
    pub hosts: i64,
    /// Attempts.
    pub attempts: i64,
    /// Attempts that were answered 2xx.
    pub delivered: i64,
}

/// Sums the attempts from this hour on.
pub async fn totals(pool: &PgPool, from: DateTime<Utc>) -> Result<ReceiverTotals, sqlx::Error> {
    sqlx::query_as(
        "select count(distinct host) as hosts, coalesce(sum(attempts), 0)::bigint as attempts,
                coalesce(sum(delivered), 0)::bigint as delivered
           from receiver_hours where hour >= $1",
    )
    .bind(from)
    .fetch_one(pool)
    .await
}

/// Forgets up to `limit` hours before this one. A host stays, with its last attempt.
pub async fn forget(pool: &PgPool, before: DateTime<Utc>, limit: i64) -> Result<u64, sqlx::Error> {
    let gone = sqlx::query(
        "delete from receiver_hours where ctid = any(array(
             select ctid from receiver_hours where hour < $1 order by hour limit $2
                for update skip locked))",
    )
    .bind(before)
    .bind(limit)
    .execute(pool)
    .await?;
    Ok(gone.rows_affected())
}
