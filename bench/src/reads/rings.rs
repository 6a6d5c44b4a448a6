//! The rate limit's counters, as they are when every key has been at work for long: full rings of
//! calls that have left the window. Each key has room for a whole minute's calls, and none is so
//! young that it costs less than in the long run.

use domain::access::rate::CALLS_PER_KEY;
use sqlx::{Executor, PgPool};

/// Calls of one key before it is refused.
pub(super) const CALLS: usize = CALLS_PER_KEY as usize;

/// Fills every key's ring with calls long past.
pub(super) async fn fill(pool: &PgPool) -> Result<(), sqlx::Error> {
    pool.execute("truncate key_calls").await?;
    sqlx::query(
        "insert into key_calls (key_id, calls, place)
         select key_id, array_fill(timestamptz '2000-01-01', array[$1]), 1 from key_auth",
    )
    .bind(CALLS_PER_KEY)
    .execute(pool)
    .await?;
    pool.execute("vacuum (analyze) key_calls").await?;
    pool.execute("checkpoint").await?;
    Ok(())
}

/// The calls that were counted since.
pub(super) async fn counted(pool: &PgPool) -> anyhow::Result<usize> {
    let counted: i64 = sqlx::query_scalar(
        "select count(*) from key_calls, unnest(calls) as at where at > '2001-01-01'",
    )
    .fetch_one(pool)
    .await?;
    Ok(usize::try_from(counted)?)
}
