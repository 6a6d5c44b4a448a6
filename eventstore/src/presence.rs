//! Presence counts the processes that work on a database.
//!
//! Each process holds a shared lock of its session as long as it lives. The server's list of locks
//! then says how many processes there are. A killed process stops counting as soon as the server
//! has closed its connection.

use sqlx::PgConnection;

/// A group of processes. The value is the number of its lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProcessGroup {
    /// The processes that serve. Each hears the notifications of the others.
    Serving = 1,
    /// The processes that send deliveries (ruling 34a, limits in flight).
    Sending = 34,
}

/// Joins a group of any size for as long as this session lasts.
///
/// # Errors
/// If the database does not answer.
pub async fn join(connection: &mut PgConnection, group: ProcessGroup) -> Result<(), sqlx::Error> {
    sqlx::query("select pg_advisory_lock_shared($1, 0)")
        .bind(group as i32)
        .execute(connection)
        .await?;
    Ok(())
}

/// Takes one of `places` numbers in a group for as long as this session lasts. Returns `None` if
/// all numbers are taken.
///
/// # Errors
/// If the database does not answer.
pub async fn join_limited(
    connection: &mut PgConnection,
    group: ProcessGroup,
    places: usize,
) -> Result<Option<i32>, sqlx::Error> {
    sqlx::query_scalar(
        "select place from generate_series(1, $2) as place
          where pg_try_advisory_lock($1, place) limit 1",
    )
    .bind(group as i32)
    .bind(i32::try_from(places).unwrap_or(i32::MAX))
    .fetch_optional(connection)
    .await
}

/// Counts the sessions of this database in a group.
///
/// # Errors
/// If the database does not answer.
pub async fn count(
    connection: &mut PgConnection,
    group: ProcessGroup,
) -> Result<usize, sqlx::Error> {
    let count: i64 = sqlx::query_scalar(
        "select count(*) from pg_locks
          where locktype = 'advisory' and classid = $1::int::oid and objsubid = 2 and granted
            and database = (select oid from pg_database where datname = current_database())",
    )
    .bind(group as i32)
    .fetch_one(connection)
    .await?;
    Ok(usize::try_from(count).unwrap_or_default())
}
