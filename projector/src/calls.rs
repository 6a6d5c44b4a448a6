//! Calls of keys, and calls with wrong ones: counted in the database, so that every server counts
//! together (contract, section Limits; ruling 4).
//!
//! Each counter is a ring of the last calls that were admitted. The call that the next one would
//! replace decides: if it has left the window there is room, otherwise it says when there will be.
//! A counter's row is locked by its update, so racing calls are counted one after the other. A call that
//! finds the ring full without a lock is refused without one: it cannot have room again before its time.

use chrono::{DateTime, Utc};
use domain::rate::{CALLS_PER_KEY, WINDOW_SECONDS, WRONG_KEYS_PER_ADDRESS};
use sqlx::{FromRow, PgPool};
use uuid::Uuid;

/// `on conflict do update`: counts the call at $2 into the ring of $3 calls, if there is room in the
/// window of $4 seconds. A call from further ahead than a window was counted by a clock that has
/// been put back.
macro_rules! count_into_ring {
    () => {
        concat!(
            "do update
            set admitted = ",
            is_free!(),
            ", calls[c.place] = case when ",
            is_free!(),
            " then $2 else c.calls[c.place] end,
                place = case when ",
            is_free!(),
            " then c.place % $3 + 1 else c.place end"
        )
    };
}

/// Whether the call that the next one would replace is out of the window.
macro_rules! is_free {
    () => {
        "(c.calls[c.place] is null or c.calls[c.place] not between
            $2 - make_interval(secs => $4) + interval '1 microsecond'
            and $2 + make_interval(secs => $4))"
    };
}

/// Who a caller is, and whether the call was within its rate.
#[derive(Debug, Clone, PartialEq, Eq, FromRow)]
pub struct CallerRow {
    /// The key.
    pub key_id: Uuid,
    /// Its label.
    pub key_name: String,
    /// Its first characters.
    pub key_prefix: String,
    /// The firm it belongs to.
    pub firm_id: Uuid,
    /// The firm's name.
    pub firm_name: String,
    /// Whether the firm is neither suspended nor closed.
    pub firm_active: bool,
    /// Whether the firm's plan includes Leads in full.
    pub leads_in_full: bool,
    /// If the call was refused, the oldest call in the window.
    pub full_since: Option<DateTime<Utc>>,
}

/// The holder of the key with this SHA-256, unless it is revoked; counts the call.
///
/// # Errors
/// If the database does not answer.
pub async fn authenticate(
    pool: &PgPool,
    sha256: &[u8; 32],
    now: DateTime<Utc>,
) -> Result<Option<CallerRow>, sqlx::Error> {
    sqlx::query_as(concat!(
        "with caller as (
             select k.key_id, k.name as key_name, k.prefix as key_prefix, f.firm_id,
                    f.name as firm_name, f.status = 'active' as firm_active, f.leads_in_full
               from key_auth k join firms f on f.firm_id = k.firm_id
              where k.sha256 = $1 and k.revoked_at is null
         ), full_ring as (
             select c.calls[c.place] as next from key_calls c join caller using (key_id)
              where not ",
        is_free!(),
        "), counted as (
             insert into key_calls as c (key_id, calls) select key_id, array[$2] from caller
              where not exists (select 1 from full_ring)
                 on conflict (key_id) ",
        count_into_ring!(),
        "    returning admitted, calls[place] as next
         )
         select caller.*, coalesce((select next from full_ring),
                                   (select next from counted where not admitted)) as full_since
           from caller"
    ))
    .bind(sha256.as_slice())
    .bind(now)
    .bind(CALLS_PER_KEY)
    .bind(f64::from(WINDOW_SECONDS))
    .fetch_optional(pool)
    .await
}

/// Counts a call with a wrong key; if there were too many, the oldest in the window.
///
/// # Errors
/// If the database does not answer.
pub async fn count_wrong_key(
    pool: &PgPool,
    counter: i32,
    now: DateTime<Utc>,
) -> Result<Option<DateTime<Utc>>, sqlx::Error> {
    sqlx::query_scalar(concat!(
        "insert into wrong_keys as c (counter, calls) values ($1, array[$2])
             on conflict (counter) ",
        count_into_ring!(),
        " returning case when admitted then null else calls[place] end"
    ))
    .bind(counter)
    .bind(now)
    .bind(WRONG_KEYS_PER_ADDRESS)
    .bind(f64::from(WINDOW_SECONDS))
    .fetch_one(pool)
    .await
}
