//! Links to the portal, and the sessions that begin with them (ruling 48). A row is a link until
//! the link is used, and then it is the session. The log has the beginning of each session, and
//! nothing of its link.

use chrono::{DateTime, Utc};
use domain::firm::FirmBrand;
use sqlx::types::Json;
use sqlx::{FromRow, PgConnection, PgPool};
use uuid::Uuid;

/// A new link.
#[derive(Debug, Clone)]
pub struct NewLinkRow<'a> {
    /// The SHA-256 of the code.
    pub link_sha256: [u8; 32],
    /// The firm.
    pub firm_id: Uuid,
    /// The member for whom the link is.
    pub member_id: Uuid,
    /// The language, if one was chosen.
    pub lang: Option<&'a str>,
    /// The origin that may show the portal in a frame, if one was named.
    pub frame_origin: Option<&'a str>,
    /// The end of the link.
    pub ends_at: DateTime<Utc>,
}

/// Keeps a link.
pub async fn insert_link(pool: &PgPool, link: &NewLinkRow<'_>) -> Result<(), sqlx::Error> {
    sqlx::query(
        "insert into portal_sessions (link_sha256, firm_id, member_id, lang, frame_origin, ends_at)
         values ($1, $2, $3, $4, $5, $6)",
    )
    .bind(link.link_sha256)
    .bind(link.firm_id)
    .bind(link.member_id)
    .bind(link.lang)
    .bind(link.frame_origin)
    .bind(link.ends_at)
    .execute(pool)
    .await?;
    Ok(())
}

/// A link that is used now, with the session that begins.
#[derive(Debug, Clone, Copy)]
pub struct UsedLink {
    /// The SHA-256 of the code.
    pub link_sha256: [u8; 32],
    /// The SHA-256 of the new cookie.
    pub cookie_sha256: [u8; 32],
    /// The time of the use.
    pub now: DateTime<Utc>,
    /// The end of the session.
    pub ends_at: DateTime<Utc>,
}

/// Turns a link into a session. Returns the link; `None` if it is over or used. Of two uses at
/// once, one finds the link used.
pub async fn begin(
    connection: &mut PgConnection,
    used: UsedLink,
) -> Result<Option<SpentLinkRow>, sqlx::Error> {
    sqlx::query_as(
        "update portal_sessions set cookie_sha256 = $2, ends_at = $4
          where link_sha256 = $1 and cookie_sha256 is null and ends_at > $3
         returning firm_id, member_id, frame_origin",
    )
    .bind(used.link_sha256)
    .bind(used.cookie_sha256)
    .bind(used.now)
    .bind(used.ends_at)
    .fetch_optional(connection)
    .await
}

/// The name of the table.
pub const TABLE: &str = "portal_sessions";

/// A session as its row says. A verifier compares it with the log.
#[derive(Debug, Clone, FromRow)]
pub struct StoredPortalSession {
    /// The SHA-256 of the cookie.
    pub cookie_sha256: [u8; 32],
    /// The firm.
    pub firm_id: Uuid,
    /// The member.
    pub member_id: Uuid,
    /// The end of the session.
    pub ends_at: DateTime<Utc>,
}

/// Lists up to `limit` sessions after one, in the order of their cookies. Links are not among them.
pub async fn begun_after(
    connection: &mut PgConnection,
    after: Option<[u8; 32]>,
    limit: i64,
) -> Result<Vec<StoredPortalSession>, sqlx::Error> {
    sqlx::query_as(
        "select cookie_sha256, firm_id, member_id, ends_at from portal_sessions
          where cookie_sha256 is not null and ($1::bytea is null or cookie_sha256 > $1)
          order by cookie_sha256 limit $2",
    )
    .bind(after)
    .bind(limit)
    .fetch_all(connection)
    .await
}

/// A session, with its firm and its member as they are now.
#[derive(Debug, Clone, FromRow)]
pub struct PortalSessionRow {
    /// The SHA-256 of the cookie.
    pub cookie_sha256: [u8; 32],
    /// The firm.
    pub firm_id: Uuid,
    /// The name of the firm.
    pub firm_name: String,
    /// The brand of the firm.
    pub brand: Json<FirmBrand>,
    /// The member.
    pub member_id: Uuid,
    /// Whether the firm is active and the member manages it.
    pub manages: bool,
    /// The language, if one was chosen.
    pub lang: Option<String>,
    /// The origin that may show the portal in a frame, if one was named.
    pub frame_origin: Option<String>,
    /// The end of the session.
    pub ends_at: DateTime<Utc>,
}

/// Finds the sessions of these cookies, also ended ones, in the order of the cookies.
pub async fn find(
    pool: &PgPool,
    cookies: &[[u8; 32]],
) -> Result<Vec<PortalSessionRow>, sqlx::Error> {
    sqlx::query_as(
        "select s.cookie_sha256, s.firm_id, f.name as firm_name, f.brand, s.member_id, s.lang,
                s.frame_origin, s.ends_at,
                f.status = 'active' and m.active
                    and coalesce(m.role in ('owner', 'admin'), false) as manages
           from portal_sessions s
           join firms f on f.firm_id = s.firm_id
           join members m on m.firm_id = s.firm_id and m.member_id = s.member_id
          where s.cookie_sha256 = any($1)
          order by array_position($1, s.cookie_sha256)",
    )
    .bind(cookies)
    .fetch_all(pool)
    .await
}

/// A link, also a used one and one that is over.
#[derive(Debug, Clone, FromRow)]
pub struct SpentLinkRow {
    /// The firm.
    pub firm_id: Uuid,
    /// The member for whom the link is.
    pub member_id: Uuid,
    /// The origin that may show the portal in a frame, if one was named.
    pub frame_origin: Option<String>,
}

/// Finds a link, also a used one and one that is over.
pub async fn find_link(
    pool: &PgPool,
    link_sha256: [u8; 32],
) -> Result<Option<SpentLinkRow>, sqlx::Error> {
    sqlx::query_as(
        "select firm_id, member_id, frame_origin from portal_sessions where link_sha256 = $1",
    )
    .bind(link_sha256)
    .fetch_optional(pool)
    .await
}

/// Sets the language of a session.
pub async fn set_lang(
    pool: &PgPool,
    cookie_sha256: [u8; 32],
    lang: &str,
) -> Result<(), sqlx::Error> {
    sqlx::query("update portal_sessions set lang = $2 where cookie_sha256 = $1")
        .bind(cookie_sha256)
        .bind(lang)
        .execute(pool)
        .await?;
    Ok(())
}

/// Ends a session for good.
pub async fn end(pool: &PgPool, cookie_sha256: [u8; 32]) -> Result<(), sqlx::Error> {
    sqlx::query("delete from portal_sessions where cookie_sha256 = $1")
        .bind(cookie_sha256)
        .execute(pool)
        .await?;
    Ok(())
}

/// Forgets up to `limit` links and sessions that have ended by now. Returns their number.
pub async fn forget(pool: &PgPool, now: DateTime<Utc>, limit: i64) -> Result<u64, sqlx::Error> {
    let forgotten = sqlx::query(
        "delete from portal_sessions
          where link_sha256 in (
                select link_sha256 from portal_sessions where ends_at <= $1
                 order by ends_at limit $2 for update skip locked)",
    )
    .bind(now)
    .bind(limit)
    .execute(pool)
    .await?;
    Ok(forgotten.rows_affected())
}
