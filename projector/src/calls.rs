//! Calls of keys, and calls with wrong ones: counted in the database, so that every server counts
//! together (contract, section Limits; ruling 4).
//!
//! Each counter is a ring of the last calls that were admitted. The call that the next one would
//! replace decides: if it has left the window there is room, otherwise it says when there will be.
//! A counter's row is locked by its update, so racing calls are counted one after the other. A call that
//! finds the ring full without a lock is refused without one: it cannot have room again before its time.

use std::collections::HashMap;

use chrono::{DateTime, Utc};
use domain::rate::{CALLS_PER_KEY, WINDOW_SECONDS, WRONG_KEYS_PER_ADDRESS};
use sqlx::{FromRow, PgConnection, PgPool};
use uuid::Uuid;

/// The SHA-256 of a key.
pub type KeyHash = [u8; 32];

/// Whether a call with a key that somebody has is let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromRow)]
pub struct Admission {
    /// Whether the key's firm is neither suspended nor closed.
    pub firm_active: bool,
    /// If the call was over the key's rate, the oldest call in the window.
    pub full_since: Option<DateTime<Utc>>,
}

/// Who a caller is, and whether the call is let in.
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
    /// Whether the firm's plan includes Leads in full.
    pub leads_in_full: bool,
    /// Whether the call is let in.
    #[sqlx(flatten)]
    pub admission: Admission,
}

/// A key of several that are asked about, by its number from 1, and what is said of it.
#[derive(FromRow)]
struct NumberedCaller {
    turn: i64,
    #[sqlx(flatten)]
    caller: CallerRow,
}

/// The holders of these keys, unless revoked, and one call of each counted. No key is named twice. The
/// connection goes on seeing nobody's rows.
///
/// # Errors
/// If the database does not answer; then no call is counted.
pub async fn authenticate(
    connection: &mut PgConnection,
    keys: &[KeyHash],
    now: DateTime<Utc>,
) -> Result<Vec<Option<CallerRow>>, sqlx::Error> {
    let turns: Vec<NumberedCaller> = sqlx::query_as(
        "select turn, key_id, key_name, key_prefix, firm_id, firm_name, firm_active, leads_in_full,
                full_since
           from authenticate_keys($1, $2, $3, $4)",
    )
    .bind(keys)
    .bind(now)
    .bind(CALLS_PER_KEY)
    .bind(f64::from(WINDOW_SECONDS))
    .fetch_all(connection)
    .await?;
    let mut turns: HashMap<_, _> = turns.into_iter().map(|of| (of.turn, of.caller)).collect();
    Ok((1..).zip(keys).map(|(turn, _)| turns.remove(&turn)).collect())
}

/// From here on the connection is for this firm and sees no other's rows, until it is given back.
///
/// # Errors
/// If the database does not answer.
pub async fn restrict_to_firm(
    connection: &mut PgConnection,
    firm_id: Uuid,
) -> Result<(), sqlx::Error> {
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
