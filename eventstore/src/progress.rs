//! This module measures how far followers are behind, with bounded questions that each use an
//! index.

use chrono::{DateTime, Utc};
use sqlx::{FromRow, PgConnection};

/// The progress of one follower.
#[derive(Debug, Clone, PartialEq, Eq, FromRow)]
pub struct FollowerProgress {
    /// The name of the follower's checkpoint.
    pub name: String,
    /// The number of positions between the checkpoint and the newest event that the follower reads.
    pub behind: i64,
    /// The time at which the next unread event was recorded. `None` if the follower has read all
    /// events.
    pub next_at: Option<DateTime<Utc>>,
}

/// The statement that measures followers. `$followed` chooses the events `e` that they follow, and
/// `$named` the checkpoints `c` of the followers.
macro_rules! progress_where {
    ($followed:literal, $named:literal) => {
        concat!(
            "select c.name,
                    greatest(coalesce((select max(e.position) from events e where ",
            $followed,
            "), 0) - c.position, 0) as behind,
                    (select e.recorded_at from events e where e.position > c.position and ",
            $followed,
            " order by e.position limit 1) as next_at
               from checkpoints c where ",
            $named
        )
    };
}

/// The follower of erasures, which have an index of their own.
const ERASURE_FOLLOWER: &str = "erase";

/// Returns the progress of every follower.
pub async fn follower_progress(
    connection: &mut PgConnection,
) -> Result<Vec<FollowerProgress>, sqlx::Error> {
    let mut progress = full_log_progress(connection).await?;
    progress.extend(erasure_progress(connection).await?);
    Ok(progress)
}

async fn full_log_progress(
    connection: &mut PgConnection,
) -> Result<Vec<FollowerProgress>, sqlx::Error> {
    sqlx::query_as(progress_where!("true", "c.name <> $1"))
        .bind(ERASURE_FOLLOWER)
        .fetch_all(connection)
        .await
}

async fn erasure_progress(
    connection: &mut PgConnection,
) -> Result<Option<FollowerProgress>, sqlx::Error> {
    sqlx::query_as(progress_where!("e.aggregate_type = 'Response'", "c.name = $1"))
        .bind(ERASURE_FOLLOWER)
        .fetch_optional(connection)
        .await
}
