//! Calls of keys, and calls with wrong ones: counted in the database, so that every server counts
//! together (contract, section Limits; ruling 4).
//!
//! Each counter is a ring of the last calls that were admitted. The call that the next one would
//! replace decides: if it has left the window there is room, otherwise it says when there will be.
//! A counter's row is locked by its update, so racing calls are counted one after the other. A call that
//! finds the ring full without a lock is refused without one: it cannot have room again before its time.

use chrono::{DateTime, Utc};
use domain::rate::{CALLS_PER_KEY, WINDOW_SECONDS, WRONG_KEYS_PER_ADDRESS};
use sqlx::{FromRow, PgConnection, PgPool};
use uuid::Uuid;

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

/// The holder of the key with this SHA-256, unless it is revoked; counts the call. From here on the
/// connection is for the holder's firm and sees no other's rows, until it is given back.
///
/// # Errors
/// If the database does not answer.
pub async fn authenticate(
    connection: &mut PgConnection,
    sha256: &[u8; 32],
    now: DateTime<Utc>,
) -> Result<Option<CallerRow>, sqlx::Error> {
    sqlx::query_as(
        "select a.key_id, a.key_name, a.key_prefix, a.firm_id, a.firm_name, a.firm_active,
                a.leads_in_full, a.full_since,
                set_config('firmforms.firm', a.firm_id::text, false)
           from authenticate_key($1, $2, $3, $4) a",
    )
    .bind(sha256.as_slice())
    .bind(now)
    .bind(CALLS_PER_KEY)
    .bind(f64::from(WINDOW_SECONDS))
    .fetch_optional(connection)
    .await
}

/// From here on the connection is for this firm, as after [`authenticate`]: for a caller who was known
/// by another connection.
///
/// # Errors
/// If the database does not answer.
pub async fn is_for(connection: &mut PgConnection, firm_id: Uuid) -> Result<(), sqlx::Error> {
    sqlx::query("select set_config('firmforms.firm', $1::text, false)")
        .bind(firm_id)
        .execute(connection)
        .await?;
    Ok(())
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
    sqlx::query_scalar(
        "insert into wrong_keys as c (counter, calls) values ($1, array[$2])
             on conflict (counter) do update
            set admitted = has_left_window(c.calls[c.place], $2, $4),
                calls[c.place] = case when has_left_window(c.calls[c.place], $2, $4)
                                      then $2 else c.calls[c.place] end,
                place = case when has_left_window(c.calls[c.place], $2, $4)
                             then c.place % $3 + 1 else c.place end
         returning case when admitted then null else calls[place] end",
    )
    .bind(counter)
    .bind(now)
    .bind(WRONG_KEYS_PER_ADDRESS)
    .bind(f64::from(WINDOW_SECONDS))
    .fetch_one(pool)
    .await
}
