//! What is asked of the audit log.

use chrono::{DateTime, Utc};
use domain::merkle::Hash;
use sqlx::{FromRow, PgConnection, PgPool};
use uuid::Uuid;

use super::{AuditLog, EntryRow};
use crate::follow::Projection;

/// The statement that reads [`EntryRow`]s where this holds.
macro_rules! entries_where {
    ($condition:literal) => {
        concat!(
            "select firm_id, sequence, position, at, action, actor_kind, actor_id, subject_kind,
                    subject_id, reason, evidence, entry, previous_hash, hash
               from audit_log where ",
            $condition
        )
    };
}

/// Which entries of a firm; what is none is not asked about.
#[derive(Debug, Clone, Default)]
pub struct AuditFilter {
    /// What was done.
    pub action: Option<&'static str>,
    /// Who did it: what they are, or their id.
    pub actor: Option<String>,
    /// What it was done to: what that is, or its id.
    pub subject: Option<String>,
    /// From then on.
    pub since: Option<DateTime<Utc>>,
    /// Before then.
    pub until: Option<DateTime<Utc>>,
    /// Only those before this one of the chain.
    pub before: Option<i64>,
}

/// Entries of a firm, newest first, at most so many.
///
/// # Errors
/// If the database does not answer.
pub async fn list(
    pool: &PgPool,
    firm_id: Uuid,
    filter: &AuditFilter,
    limit: i64,
) -> Result<Vec<EntryRow>, sqlx::Error> {
    sqlx::query_as(entries_where!(
        "firm_id = $1 and ($2::text is null or action = $2)
           and ($3::text is null or actor_kind = $3 or actor_id = $3)
           and ($4::text is null or subject_kind = $4 or subject_id = $4)
           and ($5::timestamptz is null or at >= $5) and ($6::timestamptz is null or at < $6)
           and ($7::bigint is null or sequence < $7)
         order by sequence desc limit $8"
    ))
    .bind(firm_id)
    .bind(filter.action)
    .bind(&filter.actor)
    .bind(&filter.subject)
    .bind(filter.since)
    .bind(filter.until)
    .bind(filter.before)
    .bind(limit)
    .fetch_all(pool)
    .await
}

/// Everything about a subject, first to last.
///
/// # Errors
/// If the database does not answer.
pub async fn of_subject(pool: &PgPool, subject_id: Uuid) -> Result<Vec<EntryRow>, sqlx::Error> {
    sqlx::query_as(entries_where!("subject_id = $1 order by position"))
        .bind(subject_id.to_string())
        .fetch_all(pool)
        .await
}

/// The entry of one event, if it has one.
///
/// # Errors
/// If the database does not answer.
pub async fn find_at(pool: &PgPool, position: i64) -> Result<Option<EntryRow>, sqlx::Error> {
    sqlx::query_as(entries_where!("position = $1")).bind(position).fetch_optional(pool).await
}

/// The entries after the first position and up to the second, in order of position.
///
/// # Errors
/// If the database does not answer.
pub async fn between(
    connection: &mut PgConnection,
    (after, through): (i64, i64),
) -> Result<Vec<EntryRow>, sqlx::Error> {
    sqlx::query_as(entries_where!("position > $1 and position <= $2 order by position"))
        .bind(after)
        .bind(through)
        .fetch_all(connection)
        .await
}

/// A stretch of a firm's chain, from one place to another, both in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromRow)]
pub struct ChainSpan {
    /// The first.
    pub first: i64,
    /// The last.
    pub last: i64,
}

/// The shortest stretch of a chain up to this place that holds all entries of a time; none if there
/// are none.
///
/// # Errors
/// If the database does not answer.
pub async fn span(
    connection: &mut PgConnection,
    (firm_id, through): (Uuid, i64),
    (since, until): (Option<DateTime<Utc>>, Option<DateTime<Utc>>),
) -> Result<Option<ChainSpan>, sqlx::Error> {
    let (first, last): (Option<i64>, Option<i64>) = sqlx::query_as(
        "select min(sequence), max(sequence) from audit_log
          where firm_id = $1 and sequence <= $2
            and ($3::timestamptz is null or at >= $3) and ($4::timestamptz is null or at < $4)",
    )
    .bind(firm_id)
    .bind(through)
    .bind(since)
    .bind(until)
    .fetch_one(connection)
    .await?;
    Ok(first.zip(last).map(|(first, last)| ChainSpan { first, last }))
}

/// A stretch of a firm's chain, in order.
///
/// # Errors
/// If the database does not answer.
pub async fn stretch(
    connection: &mut PgConnection,
    firm_id: Uuid,
    span: ChainSpan,
) -> Result<Vec<EntryRow>, sqlx::Error> {
    sqlx::query_as(entries_where!("firm_id = $1 and sequence between $2 and $3 order by sequence"))
        .bind(firm_id)
        .bind(span.first)
        .bind(span.last)
        .fetch_all(connection)
        .await
}

/// The hashes of a stretch of a firm's chain, in order.
///
/// # Errors
/// If the database does not answer.
pub async fn hashes(
    connection: &mut PgConnection,
    firm_id: Uuid,
    span: ChainSpan,
) -> Result<Vec<Hash>, sqlx::Error> {
    sqlx::query_scalar(
        "select hash from audit_log
          where firm_id = $1 and sequence between $2 and $3 order by sequence",
    )
    .bind(firm_id)
    .bind(span.first)
    .bind(span.last)
    .fetch_all(connection)
    .await
}

/// How far the log was followed.
///
/// # Errors
/// If the database does not answer.
pub async fn followed_to(connection: &mut PgConnection) -> Result<i64, sqlx::Error> {
    let position = sqlx::query_scalar("select position from checkpoints where name = $1")
        .bind(AuditLog::NAME)
        .fetch_optional(connection)
        .await?;
    Ok(position.unwrap_or(0))
}
