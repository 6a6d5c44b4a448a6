//! Presence counts the processes that work on a database.
//!
//! Each process holds a lock of its session as long as it lives. The server's list of locks then
//! says how many processes there are. A killed process stops counting as soon as the server has
//! closed its connection.
//!
//! The server does not learn that a machine has vanished, or that its network is cut. So a member
//! of a group of numbered places also has a heartbeat: a second lock, whose key is the server's
//! time of the beat. A beat takes the lock of now and releases the one before, so it writes nothing
//! to a table. A member that was silent for [`SILENT_AFTER`] does not count (ruling 57).

use std::time::Duration;

use sqlx::{FromRow, PgConnection};

use crate::pool::OLDER_APPLICATION_NAME;

/// A member without a beat for so long does not count.
pub const SILENT_AFTER: Duration = Duration::from_secs(15);

/// A living member beats each second. One without a beat for so long is not at work now: it has
/// vanished, or its own look has failed by then.
const UNHEARD_AFTER: Duration = Duration::from_secs(4);

/// The name of a session `a` of `pg_stat_activity`, for an operator.
macro_rules! session_name {
    ($pid:literal) => {
        concat!(
            "concat(coalesce(nullif(a.application_name, ''), 'a process'), ' (login ', a.usename,
                    ', pid ', ",
            $pid,
            ", coalesce(', at ' || a.client_addr, ''), ')')"
        )
    };
}

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
    /// The process that archives the log.
    Archiving = 47,
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
pub async fn join(connection: &mut PgConnection, group: ProcessGroup) -> Result<(), sqlx::Error> {
    sqlx::query("select pg_advisory_lock_shared($1, 0)")
        .bind(group as i32)
        .execute(connection)
        .await?;
    Ok(())
}

/// Takes one of `places` numbers in a group for as long as this session lasts. Returns `None` if
/// all numbers are taken.
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

/// The place of a process in a group, and its last beat.
#[derive(Debug, Clone, Copy)]
pub struct GroupMembership {
    group: ProcessGroup,
    place: i32,
    beat: Option<i64>,
}

/// A group, as one of its members finds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromRow)]
pub struct GroupStanding {
    /// Members that are not silent, this one included.
    pub living: i64,
    /// Other members that are at work now. A build without heartbeats counts as one.
    pub heard: i64,
    /// Living members with a lower place.
    pub ahead: i64,
}

/// A beat, and the group as the beating member finds it.
#[derive(FromRow)]
struct BeatAndStanding {
    beat: Option<i64>,
    #[sqlx(flatten)]
    standing: GroupStanding,
}

/// A member that keeps its place and has no heartbeat any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SilentMember {
    /// The session, for an operator.
    pub session: String,
    /// The time since its last beat.
    pub silent_for: Duration,
}

/// The statement that reads the members of a group, with their places and the age of their last
/// beat in seconds. A key of one number has its upper half in `classid`; a place has two numbers.
macro_rules! members {
    () => {
        "members as (
             select pid, min(objid::bigint) filter (where objsubid = 2) as place,
                    extract(epoch from clock_timestamp())::float8
                        - max(objid::bigint) filter (where objsubid = 1) as age
               from pg_locks
              where locktype = 'advisory' and classid = $1::int::oid and granted
                and database = (select oid from pg_database where datname = current_database())
              group by pid
             having bool_or(objsubid = 2))"
    };
}

impl GroupMembership {
    /// Takes one of `places` numbers in a group for as long as this session lasts. Returns `None`
    /// if all numbers are taken.
    pub async fn join(
        connection: &mut PgConnection,
        group: ProcessGroup,
        places: usize,
    ) -> Result<Option<Self>, sqlx::Error> {
        let place = join_limited(connection, group, places).await?;
        Ok(place.map(|place| Self { group, place, beat: None }))
    }

    /// Beats once, and returns the standing of the group.
    pub async fn beat(
        &mut self,
        connection: &mut PgConnection,
    ) -> Result<GroupStanding, sqlx::Error> {
        // The locks are taken from left to right, so there is a beat at each moment. A shared lock
        // waits for nobody, since every member shares it.
        let standing: BeatAndStanding = sqlx::query_as(concat!(
            "with beat as materialized (
                 select at, case when at is distinct from $5
                            then pg_try_advisory_lock_shared(($1::bigint << 32) | at)
                                 and coalesce(pg_advisory_unlock_shared(($1::bigint << 32) | $5),
                                              true)
                            else true end as is_taken
                   from (select floor(extract(epoch from clock_timestamp()))::bigint as at) clock),
             ",
            members!(),
            " select (select at from beat where is_taken) as beat,
                     count(*) as living,
                     count(*) filter (where place <> $2 and (age is null or age < $3)) as heard,
                     count(*) filter (where place < $2) as ahead
                from members where age is null or age < $4"
        ))
        .bind(self.group as i32)
        .bind(i64::from(self.place))
        .bind(UNHEARD_AFTER.as_secs_f64())
        .bind(SILENT_AFTER.as_secs_f64())
        .bind(self.beat)
        .fetch_one(connection)
        .await?;
        self.beat = standing.beat.or(self.beat);
        Ok(standing.standing)
    }
}

/// Returns the members of a group that keep their places and are silent.
pub async fn silent_members(
    connection: &mut PgConnection,
    group: ProcessGroup,
) -> Result<Vec<SilentMember>, sqlx::Error> {
    let members: Vec<(String, f64)> = sqlx::query_as(concat!(
        "with ",
        members!(),
        " select ",
        session_name!("m.pid"),
        ", m.age
            from members m left join pg_stat_activity a on a.pid = m.pid
           where m.age >= $2 order by m.age desc"
    ))
    .bind(group as i32)
    .bind(SILENT_AFTER.as_secs_f64())
    .fetch_all(connection)
    .await?;
    let silent = |(session, seconds): (String, f64)| SilentMember {
        session,
        silent_for: Duration::try_from_secs_f64(seconds).unwrap_or_default(),
    };
    Ok(members.into_iter().map(silent).collect())
}

/// Takes the only place in a group for as long as this session lasts. Waits for the place as long
/// as the session's `lock_timeout` says.
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
            Ok(SolePlace::HeldBy(holder_name(connection, group).await?))
        }
        Err(error) => Err(error),
    }
}

/// Whether the error is SQLSTATE 55P03, lock not available.
fn is_lock_timeout(error: &sqlx::Error) -> bool {
    error.as_database_error().is_some_and(|error| error.code().as_deref() == Some("55P03"))
}

/// Names the session that has the only place in a group, for an operator.
async fn holder_name(
    connection: &mut PgConnection,
    group: ProcessGroup,
) -> Result<String, sqlx::Error> {
    let name: Option<String> = sqlx::query_scalar(concat!(
        "select ",
        session_name!("l.pid"),
        " from pg_locks l left join pg_stat_activity a on a.pid = l.pid
              where l.locktype = 'advisory' and l.classid = $1::int::oid and l.objsubid = 2
                and l.granted
                and l.database = (select oid from pg_database where datname = current_database())
              limit 1"
    ))
    .bind(group as i32)
    .fetch_optional(connection)
    .await?;
    Ok(name.unwrap_or_else(|| "a process that has just ended".to_owned()))
}

/// The processes that serve this database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromRow)]
pub struct ServingProcesses {
    /// All of them.
    pub all: i64,
    /// Sessions of builds before 0.3.0, which cannot read what this build may write.
    pub older: i64,
}

/// Counts the processes that serve this database.
pub async fn count_serving(connection: &mut PgConnection) -> Result<ServingProcesses, sqlx::Error> {
    sqlx::query_as(concat!(
        "with ",
        members!(),
        " select count(*) as all,
                 (select count(*) from pg_stat_activity
                   where datname = current_database() and application_name = $3) as older
            from members where age is null or age < $2"
    ))
    .bind(ProcessGroup::Serving as i32)
    .bind(SILENT_AFTER.as_secs_f64())
    .bind(OLDER_APPLICATION_NAME)
    .fetch_one(connection)
    .await
}

/// Counts the members of a group in this database that are not silent.
pub async fn count_members(
    connection: &mut PgConnection,
    group: ProcessGroup,
) -> Result<usize, sqlx::Error> {
    let count: i64 = sqlx::query_scalar(concat!(
        "with ",
        members!(),
        " select count(*) from members where age is null or age < $2"
    ))
    .bind(group as i32)
    .bind(SILENT_AFTER.as_secs_f64())
    .fetch_one(connection)
    .await?;
    Ok(usize::try_from(count).unwrap_or_default())
}
