//! Finds objects by their id, by the start of an id, or by a name. Each statement goes by an index.

use domain::audit::merkle::Hash;
use sqlx::{FromRow, PgPool};
use uuid::Uuid;

/// Objects of one kind in an answer, at most.
const FOUND_PER_KIND_MAX: i64 = 10;

/// An object that was found.
#[derive(Debug, Clone, PartialEq, Eq, FromRow)]
pub struct FoundObject {
    /// The kind: `firm`, `key`, `hook` and so on.
    pub kind: String,
    /// The id.
    pub id: Uuid,
    /// The firm, if it is an object of one.
    pub firm_id: Option<Uuid>,
    /// A name for a person: the name of a firm, the label of a key, the target of a subscription.
    pub label: String,
}

/// Finds the objects whose ids lie in this range. A target is whole: the caller masks it.
pub async fn by_id(pool: &PgPool, low: Uuid, high: Uuid) -> Result<Vec<FoundObject>, sqlx::Error> {
    sqlx::query_as(
        "(select 'firm' as kind, firm_id as id, firm_id, name as label
            from firms where firm_id between $1 and $2 limit $3)
          union all
         (select 'member', member_id, firm_id, coalesce(role, 'former member')
            from members where member_id between $1 and $2 limit $3)
          union all
         (select 'form', form_id, firm_id, title
            from forms where form_id between $1 and $2 limit $3)
          union all
         (select 'key', key_id, firm_id, name || ' (' || prefix || ')'
            from key_auth where key_id between $1 and $2 limit $3)
          union all
         (select 'hook', hook_id, firm_id, target_url
            from hooks where hook_id between $1 and $2 limit $3)
          union all
         (select 'delivery', delivery_id, firm_id, trigger || ', ' || state
            from deliveries where delivery_id between $1 and $2 limit $3)
          union all
         (select 'replay', replay_id, firm_id, state
            from replays where replay_id between $1 and $2 limit $3)
          union all
         (select 'pause', pause_id, firm_id, kind
            from pauses where pause_id between $1 and $2 limit $3)
          union all
         (select 'token', token_id, null, name
            from tokens where token_id between $1 and $2 limit $3)
          union all
         (select 'sign_in', sign_in_id, null, name
            from users where user_id between $1 and $2 limit $3)",
    )
    .bind(low)
    .bind(high)
    .bind(FOUND_PER_KIND_MAX)
    .fetch_all(pool)
    .await
}

/// Finds the keys that begin so, revoked ones too.
pub async fn by_key_start(pool: &PgPool, start: &str) -> Result<Vec<FoundObject>, sqlx::Error> {
    sqlx::query_as(
        "select 'key' as kind, key_id as id, firm_id, name || ' (' || prefix || ')' as label
           from key_auth where prefix ~>=~ $1 and prefix ~<~ $2
          order by prefix using ~<~ limit $3",
    )
    .bind(start)
    .bind(after_all(start))
    .bind(FOUND_PER_KIND_MAX)
    .fetch_all(pool)
    .await
}

/// Finds the key with this SHA-256.
pub async fn by_key_hash(pool: &PgPool, hash: Hash) -> Result<Option<FoundObject>, sqlx::Error> {
    sqlx::query_as(
        "select 'key' as kind, key_id as id, firm_id, name || ' (' || prefix || ')' as label
           from key_auth where sha256 = $1",
    )
    .bind(hash.as_slice())
    .fetch_optional(pool)
    .await
}

/// Finds the firms whose names begin so, in any case.
pub async fn by_firm_name(pool: &PgPool, start: &str) -> Result<Vec<FoundObject>, sqlx::Error> {
    sqlx::query_as(
        "select 'firm' as kind, firm_id as id, firm_id, name as label
           from firms where lower_name ~>=~ $1 and lower_name ~<~ $2
          order by lower_name using ~<~ limit $3",
    )
    .bind(start)
    .bind(after_all(start))
    .bind(FOUND_PER_KIND_MAX)
    .fetch_all(pool)
    .await
}

/// Finds subscriptions to this host, live ones first.
pub async fn by_host(pool: &PgPool, host: &str) -> Result<Vec<FoundObject>, sqlx::Error> {
    sqlx::query_as(
        "select 'hook' as kind, hook_id as id, firm_id, target_url as label from hooks
          where host = $1
          order by removed_at desc nulls first limit $2",
    )
    .bind(host)
    .bind(FOUND_PER_KIND_MAX)
    .fetch_all(pool)
    .await
}

/// A text behind all texts that begin with `start`, in the order of bytes.
fn after_all(start: &str) -> String {
    format!("{start}\u{10ffff}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bound lies before all other texts.
    #[test]
    fn a_bound_follows_all_texts_beginning_so() {
        for begins in ["ffk_", "ffk_zzz", "ffk_é🎉"] {
            assert!(begins < after_all("ffk_").as_str(), "{begins}");
        }
        assert!("ffl" > after_all("ffk_").as_str());
    }
}
