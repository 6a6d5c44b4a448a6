//! Objects that a shortened id or a name may mean, for a person at a terminal. Every question but
//! that for a firm's name finds its rows by an index. There is one row per firm, so that one reads
//! few.

use domain::values::IdRange;
use sqlx::{FromRow, PgPool};
use uuid::Uuid;

/// Most candidates of one question. More than one is a refusal, and the rest would not help.
pub const CANDIDATES_MAX: i64 = 10;

/// An object that may be meant.
#[derive(Debug, Clone, PartialEq, Eq, FromRow)]
pub struct Candidate {
    /// The id of the object.
    pub id: Uuid,
    /// Words by which a person recognizes the object.
    pub label: String,
}

/// Returns the firms whose id lies in the range.
pub async fn firms_in(pool: &PgPool, range: IdRange) -> Result<Vec<Candidate>, sqlx::Error> {
    sqlx::query_as(
        "select firm_id as id, name as label from firms
          where firm_id between $1 and $2 order by firm_id limit $3",
    )
    .bind(range.first)
    .bind(range.last)
    .bind(CANDIDATES_MAX)
    .fetch_all(pool)
    .await
}

/// Returns the firms with this name, in any case.
pub async fn firms_named(pool: &PgPool, name: &str) -> Result<Vec<Candidate>, sqlx::Error> {
    sqlx::query_as(
        "select firm_id as id, name as label from firms
          where lower(name) = lower($1) order by firm_id limit $2",
    )
    .bind(name)
    .bind(CANDIDATES_MAX)
    .fetch_all(pool)
    .await
}

/// Returns the keys of a firm whose id lies in the range.
pub async fn keys_in(
    pool: &PgPool,
    firm_id: Uuid,
    range: IdRange,
) -> Result<Vec<Candidate>, sqlx::Error> {
    sqlx::query_as(
        "select key_id as id, prefix || ' ' || name as label from key_auth
          where firm_id = $1 and key_id between $2 and $3 order by key_id limit $4",
    )
    .bind(firm_id)
    .bind(range.first)
    .bind(range.last)
    .bind(CANDIDATES_MAX)
    .fetch_all(pool)
    .await
}

/// Returns the keys of a firm whose text begins so.
pub async fn keys_beginning(
    pool: &PgPool,
    firm_id: Uuid,
    text: &str,
) -> Result<Vec<Candidate>, sqlx::Error> {
    sqlx::query_as(
        "select key_id as id, prefix || ' ' || name as label from key_auth
          where firm_id = $1 and starts_with(prefix, $2) order by key_id limit $3",
    )
    .bind(firm_id)
    .bind(text)
    .bind(CANDIDATES_MAX)
    .fetch_all(pool)
    .await
}

/// Returns the members of a firm whose id lies in the range, former ones too.
pub async fn members_in(
    pool: &PgPool,
    firm_id: Uuid,
    range: IdRange,
) -> Result<Vec<Candidate>, sqlx::Error> {
    sqlx::query_as(
        "select member_id as id, coalesce(role, 'former member') as label from members
          where firm_id = $1 and member_id between $2 and $3 order by member_id limit $4",
    )
    .bind(firm_id)
    .bind(range.first)
    .bind(range.last)
    .bind(CANDIDATES_MAX)
    .fetch_all(pool)
    .await
}

/// Returns the subscriptions whose id lies in the range, removed ones too.
pub async fn hooks_in(pool: &PgPool, range: IdRange) -> Result<Vec<Candidate>, sqlx::Error> {
    sqlx::query_as(
        "select hook_id as id, trigger || ' of firm ' || firm_id as label from hooks
          where hook_id between $1 and $2 order by hook_id limit $3",
    )
    .bind(range.first)
    .bind(range.last)
    .bind(CANDIDATES_MAX)
    .fetch_all(pool)
    .await
}

/// Returns the deliveries whose id lies in the range.
pub async fn deliveries_in(pool: &PgPool, range: IdRange) -> Result<Vec<Candidate>, sqlx::Error> {
    sqlx::query_as(
        "select delivery_id as id, trigger || ', ' || state || ', of firm ' || firm_id as label
           from deliveries
          where delivery_id between $1 and $2 order by delivery_id limit $3",
    )
    .bind(range.first)
    .bind(range.last)
    .bind(CANDIDATES_MAX)
    .fetch_all(pool)
    .await
}

/// Returns the tokens whose id lies in the range.
pub async fn tokens_in(pool: &PgPool, range: IdRange) -> Result<Vec<Candidate>, sqlx::Error> {
    sqlx::query_as(
        "select token_id as id, role || ' ' || name as label from tokens
          where token_id between $1 and $2 order by token_id limit $3",
    )
    .bind(range.first)
    .bind(range.last)
    .bind(CANDIDATES_MAX)
    .fetch_all(pool)
    .await
}

/// Returns the replays whose id lies in the range.
pub async fn replays_in(pool: &PgPool, range: IdRange) -> Result<Vec<Candidate>, sqlx::Error> {
    sqlx::query_as(
        "select replay_id as id, state || ', ' || reason as label from replays
          where replay_id between $1 and $2 order by replay_id limit $3",
    )
    .bind(range.first)
    .bind(range.last)
    .bind(CANDIDATES_MAX)
    .fetch_all(pool)
    .await
}
