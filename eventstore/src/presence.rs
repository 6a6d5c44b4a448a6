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
    /// The process that signs a checkpoint.
    Signing = 43,
    /// The process that verifies the log.
    Verifying = 44,
}

/// The outcome of entering a group that has one place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SolePlace {
    /// This session has the place as long as it lasts.
    Taken,
    /// Another session has the place. The text names it.
    HeldBy(String),
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

/// Takes the only place in a group for as long as this session lasts. Waits for the place as long
/// as the session's `lock_timeout` says.
///
/// # Errors
/// If the database does not answer.
pub async fn join_alone(
    connection: &mut PgConnection,
    group: ProcessGroup,
) -> Result<SolePlace, sqlx::Error> {
    let joined = sqlx::query("select pg_advisory_lock($1, 1)")
        .bind(group as i32)
        .execute(&mut *connection)
        .await;
    match joined {
        Ok(_) => Ok(SolePlace::Taken),
        Err(error) if is_lock_timeout(&error) => {
            Ok(SolePlace::HeldBy(holder(connection, group).await?))
        }
        Err(error) => Err(error),
    }
}

/// Whether the error is SQLSTATE 55P03, lock not available.
fn is_lock_timeout(error: &sqlx::Error) -> bool {
    error.as_database_error().is_some_and(|error| error.code().as_deref() == Some("55P03"))
}

/// Names the session that has the only place in a group, for an operator.
async fn holder(connection: &mut PgConnection, group: ProcessGroup) -> Result<String, sqlx::Error> {
    let name: Option<String> = sqlx::query_scalar(
        "select concat(coalesce(nullif(a.application_name, ''), 'a process'),
                       ' (login ', a.usename, ', pid ', l.pid, coalesce(', at ' || a.client_addr, ''),
                       ')')
           from pg_locks l left join pg_stat_activity a on a.pid = l.pid
          where l.locktype = 'advisory' and l.classid = $1::int::oid and l.objsubid = 2
            and l.granted
            and l.database = (select oid from pg_database where datname = current_database())
          limit 1",
    )
    .bind(group as i32)
    .fetch_optional(connection)
    .await?;
    Ok(name.unwrap_or_else(|| "a process that has just ended".to_owned()))
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
