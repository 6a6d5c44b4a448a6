//! How far the service is. An activity is done with when its deliveries are in the outbox and in
//! history.

use std::time::Duration;

use anyhow::ensure;
use eventstore::worker::Worker;
use projector::deliveries::DeliveryProjection;
use projector::follow::Follower;
use sqlx::PgPool;
use tokio::time::{Instant, sleep};

/// How often to look.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// When a follower has not moved for so long, it never will.
const STANDSTILL: Duration = Duration::from_secs(20);

/// The counts of the database.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counts {
    pub(super) occurrences: i64,
    /// Deliveries that are to be sent.
    pub(super) queued: i64,
    /// Deliveries in the history.
    pub(super) listed: i64,
}

/// Waits until all occurrences are spread into the outbox.
pub(super) async fn spread(pool: &PgPool) -> anyhow::Result<()> {
    let look = "select count(*) from unspread";
    let (mut last, mut moved) = (-1_i64, Instant::now());
    loop {
        let left: i64 = sqlx::query_scalar(look).fetch_one(pool).await?;
        if left == 0 {
            return Ok(());
        }
        if left != last {
            (last, moved) = (left, Instant::now());
        }
        ensure!(moved.elapsed() < STANDSTILL, "{left} occurrences are not spread");
        sleep(LOOK_EVERY).await;
    }
}

/// Waits until the history of deliveries has all of the log.
pub(super) async fn listed(pool: &PgPool) -> anyhow::Result<()> {
    let follower = <Follower<DeliveryProjection> as Worker>::NAME;
    let look = "select coalesce((select position from checkpoints where name = $1), 0),
                       coalesce((select max(position) from events), 0)";
    let (mut last, mut moved) = (-1, Instant::now());
    loop {
        let (at, end): (i64, i64) = sqlx::query_as(look).bind(follower).fetch_one(pool).await?;
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
