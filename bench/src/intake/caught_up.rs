//! How far the log's followers are: what was taken in is done with when its deliveries are queued
//! and in their history.

use std::time::Duration;

use anyhow::ensure;
use deliverer::fan_out::FanOut;
use eventstore::worker::Worker;
use projector::deliveries::Deliveries;
use projector::follow::Follower;
use sqlx::PgPool;
use tokio::time::{Instant, sleep};

/// How often to look.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// When a follower has not moved for so long, it never will.
const STANDSTILL: Duration = Duration::from_secs(20);

/// What is in the database.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counts {
    pub(super) occurrences: i64,
    /// Deliveries that are to be sent.
    pub(super) queued: i64,
    /// Deliveries in the history.
    pub(super) listed: i64,
}

/// Waits until all occurrences are fanned out.
pub(super) async fn fanned_out(pool: &PgPool) -> anyhow::Result<()> {
    let occurrences = "where aggregate_type = 'Occurrence'";
    reached(pool, <FanOut as Worker>::NAME, occurrences).await
}

/// Waits until the history of deliveries has all of the log.
pub(super) async fn listed(pool: &PgPool) -> anyhow::Result<()> {
    reached(pool, <Follower<Deliveries> as Worker>::NAME, "").await
}

async fn reached(pool: &PgPool, follower: &str, of: &str) -> anyhow::Result<()> {
    let look = format!(
        "select coalesce((select position from checkpoints where name = $1), 0),
                coalesce((select max(position) from events {of}), 0)"
    );
    let (mut last, mut moved) = (-1, Instant::now());
    loop {
        let (at, end): (i64, i64) = sqlx::query_as(&look).bind(follower).fetch_one(pool).await?;
        if at >= end {
            return Ok(());
        }
        if at != last {
            (last, moved) = (at, Instant::now());
        }
        ensure!(moved.elapsed() < STANDSTILL, "{follower} stands at {at} of {end}");
        sleep(LOOK_EVERY).await;
    }
}

pub(super) async fn counts(pool: &PgPool) -> Result<Counts, sqlx::Error> {
    let (occurrences, queued, listed) = sqlx::query_as(
        "select (select count(*) from events where aggregate_type = 'Occurrence'),
                (select count(*) from outbox),
                (select count(*) from deliveries)",
    )
    .fetch_one(pool)
    .await?;
    Ok(Counts { occurrences, queued, listed })
}
