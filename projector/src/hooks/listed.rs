//! What keys list: their subscriptions, in the statement that says who they are.

use chrono::{DateTime, Utc};
use domain::rate::{CALLS_PER_KEY, WINDOW_SECONDS};
use sqlx::PgConnection;
use uuid::Uuid;

use crate::calls::{Admission, KeyHash};

/// A subscription as its key sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HookRow {
    /// Its id.
    pub hook_id: Uuid,
    /// What it listens to.
    pub trigger: String,
    /// Where deliveries go, exactly as sent.
    pub target_url: String,
    /// Only this form's events, or every form's.
    pub form_id: Option<Uuid>,
    /// When it was made.
    pub created_at: DateTime<Utc>,
}

/// What a key is told that asks for its subscriptions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyHookList {
    /// Whether the call is let in.
    pub admission: Admission,
    /// The key's live subscriptions, newest first; none of a call that is not let in.
    pub hooks: Vec<HookRow>,
}

/// A key of several, by its number from 1, with one of its subscriptions, if it has any.
type KeyHookRow = (
    i64,
    bool,
    Option<DateTime<Utc>>,
    Option<Uuid>,
    Option<String>,
    Option<String>,
    Option<Uuid>,
    Option<DateTime<Utc>>,
);

/// The live subscriptions of these keys, unless revoked, and one call of each counted. No key is named
/// twice. Each firm's rows are seen with the guard of that firm; the connection goes on seeing nobody's.
///
/// # Errors
/// If the database does not answer; then no call is counted.
pub async fn list_for_keys(
    connection: &mut PgConnection,
    keys: &[KeyHash],
    now: DateTime<Utc>,
) -> Result<Vec<Option<KeyHookList>>, sqlx::Error> {
    let rows: Vec<KeyHookRow> = sqlx::query_as(
        "select a.turn, a.firm_active, a.full_since,
                h.hook_id, h.trigger, h.target_url, h.form_id, h.created_at
           from authenticate_keys($1, $2, $3, $4) a
           left join lateral hooks_of_key(
                case when a.firm_active and a.full_since is null then a.key_id end, a.firm_id) h
             on true
          order by a.turn, h.created_position desc",
    )
    .bind(keys)
    .bind(now)
    .bind(CALLS_PER_KEY)
    .bind(f64::from(WINDOW_SECONDS))
    .fetch_all(connection)
    .await?;
    Ok(by_key(keys.len(), rows))
}

fn by_key(keys: usize, rows: Vec<KeyHookRow>) -> Vec<Option<KeyHookList>> {
    let mut listed: Vec<Option<KeyHookList>> = vec![None; keys];
    for (turn, firm_active, full_since, hook_id, trigger, target_url, form_id, created_at) in rows {
        let Some(of) = usize::try_from(turn - 1).ok().and_then(|turn| listed.get_mut(turn)) else {
            continue;
        };
        let admission = Admission { firm_active, full_since };
        let of = of.get_or_insert(KeyHookList { admission, hooks: Vec::new() });
        if let (Some(hook_id), Some(trigger), Some(target_url), Some(created_at)) =
            (hook_id, trigger, target_url, created_at)
        {
            of.hooks.push(HookRow { hook_id, trigger, target_url, form_id, created_at });
        }
    }
    listed
}
