//! Sessions of users of a provider, and the names of these users. The events of sign-ins hold no
//! hash of a cookie, so these tables are no read models.

mod stored;

use chrono::{DateTime, Utc};
use domain::access::sign_in::{
    FLOW_TIME, SESSION_IDLE_MAX, SESSION_TIME, SignInEvent, SignInScope,
};
use domain::event::Event;
use domain::values::Timestamp;
use eventstore::tail::TailError;
use eventstore::{Upcasters, load_first};
use sqlx::{FromRow, PgConnection, PgPool};
use uuid::Uuid;

pub use stored::{StoredSignIn, StoredUser};

/// A session to insert.
#[derive(Debug, Clone, Copy)]
pub struct NewSignIn<'a> {
    /// The SHA-256 of the cookie.
    pub cookie_sha256: [u8; 32],
    /// The SHA-256 of the way to the provider and back.
    pub flow_sha256: [u8; 32],
    /// The stream of the sign-in.
    pub sign_in_id: Uuid,
    /// The SHA-256 of the settings that granted the role.
    pub grants_sha256: [u8; 32],
    /// The user, the rights and the end.
    pub scope: &'a SignInScope,
    /// The time at which the person proved who it is, if the provider told.
    pub proven_at: Option<Timestamp>,
}

/// Begins a session. Returns `false` if the way to the provider has led to one before.
pub async fn begin(
    connection: &mut PgConnection,
    new: NewSignIn<'_>,
    now: DateTime<Utc>,
) -> Result<bool, sqlx::Error> {
    let begun = sqlx::query(
        "insert into sign_ins
            (cookie_sha256, flow_sha256, sign_in_id, user_id, role, firm_ids, ends_at,
             grants_sha256, proven_at, last_used_at)
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) on conflict (flow_sha256) do nothing",
    )
    .bind(new.cookie_sha256)
    .bind(new.flow_sha256)
    .bind(new.sign_in_id)
    .bind(new.scope.user_id)
    .bind(new.scope.role.name())
    .bind(new.scope.firm_ids.as_deref())
    .bind(new.scope.ends_at.get())
    .bind(new.grants_sha256)
    .bind(new.proven_at.map(|at| at.get()))
    .bind(now)
    .execute(connection)
    .await?;
    Ok(begun.rows_affected() == 1)
}

/// Notes the name and the sign-in of a user.
pub async fn name_user(
    connection: &mut PgConnection,
    new: NewSignIn<'_>,
) -> Result<(), sqlx::Error> {
    sqlx::query(
        "insert into users (user_id, name, sign_in_id) values ($1, $2, $3)
             on conflict (user_id) do update
                set name = excluded.name, sign_in_id = excluded.sign_in_id",
    )
    .bind(new.scope.user_id)
    .bind(&new.scope.name)
    .bind(new.sign_in_id)
    .execute(connection)
    .await?;
    Ok(())
}

/// A session.
#[derive(Debug, Clone, PartialEq, Eq, FromRow)]
pub struct SignInRow {
    /// The user.
    pub user_id: Uuid,
    /// The name of the user.
    pub name: String,
    /// The role: `operator` or `auditor`.
    pub role: String,
    /// The firms that the user may reach; `None` for all.
    pub firm_ids: Option<Vec<Uuid>>,
    /// The time at which the person proved who it is, if the provider told.
    pub proven_at: Option<DateTime<Utc>>,
}

/// Finds the session of a cookie, unless it has ended, was not used for long, or other settings
/// granted its role. A row of release 0.2.0 has no last use, and counts from its sign-in.
pub async fn find(
    pool: &PgPool,
    cookie_sha256: [u8; 32],
    grants_sha256: [u8; 32],
    now: DateTime<Utc>,
) -> Result<Option<SignInRow>, sqlx::Error> {
    sqlx::query_as(
        "select s.user_id, u.name, s.role, s.firm_ids, s.proven_at
           from sign_ins s join users u on u.user_id = s.user_id
          where s.cookie_sha256 = $1 and s.ends_at > $2 and s.grants_sha256 = $3
            and coalesce(s.last_used_at, s.ends_at - $4) > $2 - $5",
    )
    .bind(cookie_sha256)
    .bind(now)
    .bind(grants_sha256)
    .bind(SESSION_TIME)
    .bind(SESSION_IDLE_MAX)
    .fetch_optional(pool)
    .await
}

/// Notes a use of the session of a cookie.
pub async fn note_use(
    pool: &PgPool,
    cookie_sha256: [u8; 32],
    now: DateTime<Utc>,
) -> Result<(), sqlx::Error> {
    sqlx::query("update sign_ins set last_used_at = $2 where cookie_sha256 = $1")
        .bind(cookie_sha256)
        .bind(now)
        .execute(pool)
        .await?;
    Ok(())
}

/// An open session.
#[derive(Debug, Clone, PartialEq, Eq, FromRow)]
pub struct OpenSignIn {
    /// The user.
    pub user_id: Uuid,
    /// The name of the user.
    pub name: String,
    /// The role: `operator` or `auditor`.
    pub role: String,
    /// The firms that the user may reach; `None` for all.
    pub firm_ids: Option<Vec<Uuid>>,
    /// The end.
    pub ends_at: DateTime<Utc>,
}

/// Lists the sessions that have not ended, the last one first.
pub async fn list_open(pool: &PgPool, now: DateTime<Utc>) -> Result<Vec<OpenSignIn>, sqlx::Error> {
    sqlx::query_as(
        "select s.user_id, u.name, s.role, s.firm_ids, s.ends_at
           from sign_ins s join users u on u.user_id = s.user_id
          where s.ends_at > $1 and coalesce(s.last_used_at, s.ends_at - $2) > $1 - $3
          order by s.ends_at desc, s.sign_in_id",
    )
    .bind(now)
    .bind(SESSION_TIME)
    .bind(SESSION_IDLE_MAX)
    .fetch_all(pool)
    .await
}

/// Ends the open session of a cookie for good. Returns its sign-in, if there was one. The row stays
/// until [`forget`], so that its way to the provider leads to no other session.
pub async fn end(
    connection: &mut PgConnection,
    cookie_sha256: [u8; 32],
    now: DateTime<Utc>,
) -> Result<Vec<Uuid>, sqlx::Error> {
    sqlx::query_scalar(
        "update sign_ins set ends_at = $2 where cookie_sha256 = $1 and ends_at > $2
         returning sign_in_id",
    )
    .bind(cookie_sha256)
    .bind(now)
    .fetch_all(connection)
    .await
}

/// Ends all open sessions of a user for good, like [`end`]. Returns their sign-ins.
pub async fn end_of_user(
    connection: &mut PgConnection,
    user_id: Uuid,
    now: DateTime<Utc>,
) -> Result<Vec<Uuid>, sqlx::Error> {
    sqlx::query_scalar(
        "update sign_ins set ends_at = $2 where user_id = $1 and ends_at > $2 returning sign_in_id",
    )
    .bind(user_id)
    .bind(now)
    .fetch_all(connection)
    .await
}

/// The names of these users, as the event of the last sign-in of each says. The table leads to the
/// event, and its own name is not asked: a row can be changed, and the event cannot.
pub async fn user_names(
    connection: &mut PgConnection,
    user_ids: &[Uuid],
) -> Result<Vec<(Uuid, String)>, TailError> {
    let sign_ins: Vec<String> =
        sqlx::query_scalar("select sign_in_id::text from users where user_id = any($1)")
            .bind(user_ids)
            .fetch_all(&mut *connection)
            .await?;
    let ids: Vec<&str> = sign_ins.iter().map(String::as_str).collect();
    let events = load_first(connection, &Upcasters::current(), "SignIn", &ids).await?;
    let names = events.into_iter().filter_map(|recorded| match recorded.event {
        Event::SignIn(SignInEvent::UserSignedIn(scope)) => Some((scope.user_id, scope.name)),
        _ => None,
    });
    Ok(names.filter(|(user_id, _)| user_ids.contains(user_id)).collect())
}

/// Forgets up to `limit` sessions whose end and whose way to the provider are past. Returns their
/// number.
pub async fn forget(pool: &PgPool, now: DateTime<Utc>, limit: i64) -> Result<u64, sqlx::Error> {
    let forgotten = sqlx::query(
        "delete from sign_ins
          where cookie_sha256 in (
                select cookie_sha256 from sign_ins where ends_at <= $1
                 order by ends_at limit $2 for update skip locked)",
    )
    .bind(now - FLOW_TIME)
    .bind(limit)
    .execute(pool)
    .await?;
    Ok(forgotten.rows_affected())
}
