//! Counters of calls, by key and by address. The database counts, so that all servers count
//! together (contract, section Limits; ruling 4, rate window).
//!
//! Each counter is a ring of the last admitted calls. A new call would replace the oldest one. If
//! the oldest has left the window, the call is admitted. Otherwise the oldest tells when a call can
//! be admitted again. The update locks the counter's row, so racing calls are counted one after the
//! other. A call that reads a full ring without a lock is refused without one, because the ring
//! stays full until then.

use std::collections::HashMap;

use chrono::{DateTime, Utc};
use domain::access::rate::{
    CALLS_PER_KEY, KeyRate, WINDOW_SECONDS, WRONG_KEYS_PER_ADDRESS, retry_after_seconds,
};
use domain::values::Timestamp;
use sqlx::{FromRow, PgConnection, PgPool};
use uuid::Uuid;

/// The SHA-256 of a key.
pub type KeyHash = [u8; 32];

/// The decision whether a call with a known key is admitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromRow)]
pub struct Admission {
    /// Tells whether the key's firm is neither suspended nor closed.
    pub firm_active: bool,
    /// Calls that the key has left. `None` if this call was over the key's rate.
    pub calls_left: Option<i32>,
    /// The time of the oldest call in the window. When it leaves, one more call passes.
    pub oldest: DateTime<Utc>,
}

impl Admission {
    /// The rest of the key's rate.
    #[must_use]
    pub fn key_rate(&self, now: Timestamp) -> KeyRate {
        let left = self.calls_left.unwrap_or_default().unsigned_abs();
        // A call that was counted by a clock put back since lies ahead, and blocks for a window.
        let seconds =
            retry_after_seconds(self.oldest.into(), now).min(u64::from(2 * WINDOW_SECONDS));
        KeyRate { left, seconds }
    }
}

/// The caller, with the decision whether the call is admitted.
#[derive(Debug, Clone, PartialEq, Eq, FromRow)]
pub struct CallerRow {
    /// The id of the key.
    pub key_id: Uuid,
    /// The label of the key.
    pub key_name: String,
    /// The first characters of the key.
    pub key_prefix: String,
    /// The firm of the key.
    pub firm_id: Uuid,
    /// The name of the firm.
    pub firm_name: String,
    /// Tells whether the firm's plan includes Leads in full.
    pub leads_in_full: bool,
    /// The decision whether the call is admitted.
    #[sqlx(flatten)]
    pub admission: Admission,
}

/// A caller, with the number of the key in the question, from 1.
#[derive(FromRow)]
struct NumberedCaller {
    turn: i64,
    #[sqlx(flatten)]
    caller: CallerRow,
}

/// Finds the callers of these keys, except revoked keys, and counts one call of each. No key may
/// appear twice. The connection still sees no firm's rows afterwards.
///
/// # Errors
/// If the database does not answer. Then no call is counted.
pub async fn authenticate(
    connection: &mut PgConnection,
    keys: &[KeyHash],
    now: DateTime<Utc>,
) -> Result<Vec<Option<CallerRow>>, sqlx::Error> {
    let turns: Vec<NumberedCaller> = sqlx::query_as(
        "select turn, key_id, key_name, key_prefix, firm_id, firm_name, firm_active, leads_in_full,
                calls_left, oldest
           from admit_keys($1, $2, $3, $4)",
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

/// Limits the connection to this firm's rows until it is given back.
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

/// The count of a call with a wrong key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WrongKeyCount {
    /// The call is within the limit, and counts.
    Counted,
    /// There were too many calls. Nothing was written.
    Full {
        /// The time of the oldest call in the window.
        since: DateTime<Utc>,
    },
}

/// Counts a call with a wrong key. A full ring is read without a lock and stays as it is.
pub async fn count_wrong_key(
    pool: &PgPool,
    counter: i32,
    now: DateTime<Utc>,
) -> Result<WrongKeyCount, sqlx::Error> {
    loop {
        // No row: racing calls filled the ring after this statement began. The next one reads it.
        if let Some(full_since) = try_to_count(pool, counter, now).await? {
            return Ok(
                full_since.map_or(WrongKeyCount::Counted, |since| WrongKeyCount::Full { since })
            );
        }
    }
}

/// Returns a row with the oldest call of a full ring, a row without one if the call was counted,
/// and no row if the ring became full meanwhile.
async fn try_to_count(
    pool: &PgPool,
    counter: i32,
    now: DateTime<Utc>,
) -> Result<Option<Option<DateTime<Utc>>>, sqlx::Error> {
    sqlx::query_scalar(
        "with full_ring as (
             select calls[place] as since from wrong_keys
              where counter = $1 and not has_left_window(calls[place], $2, $4)
         ), counted as (
             insert into wrong_keys as c (counter, calls)
             select $1, array[$2] where not exists (select 1 from full_ring)
                 on conflict (counter) do update
                set admitted = true, calls[c.place] = $2, place = c.place % $3 + 1
              where has_left_window(c.calls[c.place], $2, $4)
             returning 1
         )
         select since from full_ring union all select null from counted",
    )
    .bind(counter)
    .bind(now)
    .bind(WRONG_KEYS_PER_ADDRESS)
    .bind(f64::from(WINDOW_SECONDS))
    .fetch_optional(pool)
    .await
}
