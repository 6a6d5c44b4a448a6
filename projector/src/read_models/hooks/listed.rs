//! The list of a key's subscriptions. One statement authenticates the key, counts the call and
//! reads the list.

use chrono::{DateTime, Utc};
use domain::rate::{CALLS_PER_KEY, WINDOW_SECONDS};
use sqlx::PgConnection;
use uuid::Uuid;

use crate::calls::{Admission, KeyHash};

/// A subscription as its key sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HookRow {
    /// The id of the subscription.
    pub hook_id: Uuid,
    /// The key of the trigger.
    pub trigger: String,
    /// The target, exactly as the caller gave it.
    pub target_url: String,
    /// The form, or `None` for all forms.
    pub form_id: Option<Uuid>,
    /// The time at which the subscription was made.
    pub created_at: DateTime<Utc>,
}

/// The answer to a key that asks for its subscriptions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyHookList {
    /// The decision whether the call is admitted.
    pub admission: Admission,
    /// The key's live subscriptions, newest first. A refused call has none.
    pub hooks: Vec<HookRow>,
}

/// One row of the answer: the number of the key, from 1, with one of its subscriptions, if it has
/// any.
type KeyHookRow = (
    i64,
    bool,
    Option<i32>,
    DateTime<Utc>,
    Option<Uuid>,
    Option<String>,
    Option<String>,
    Option<Uuid>,
    Option<DateTime<Utc>>,
);

/// Lists the live subscriptions of these keys, except revoked keys, and counts one call of each. No
/// key may appear twice. Each firm's rows are read under that firm's guard. The connection still
/// sees no firm's rows afterwards.
///
/// # Errors
/// If the database does not answer. Then no call is counted.
pub async fn list_for_keys(
    connection: &mut PgConnection,
    keys: &[KeyHash],
    now: DateTime<Utc>,
) -> Result<Vec<Option<KeyHookList>>, sqlx::Error> {
    let rows: Vec<KeyHookRow> = sqlx::query_as(
        "select a.turn, a.firm_active, a.calls_left, a.oldest,
                h.hook_id, h.trigger, h.target_url, h.form_id, h.created_at
           from admit_keys($1, $2, $3, $4) a
           left join lateral hooks_of_key(
                case when a.firm_active and a.calls_left is not null then a.key_id end, a.firm_id) h
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
    for (
        turn,
        firm_active,
        calls_left,
        oldest,
        hook_id,
        trigger,
        target_url,
        form_id,
        created_at,
    ) in rows
    {
        let Some(of) = usize::try_from(turn - 1).ok().and_then(|turn| listed.get_mut(turn)) else {
            continue;
        };
        let admission = Admission { firm_active, calls_left, oldest };
        let of = of.get_or_insert(KeyHookList { admission, hooks: Vec::new() });
        if let (Some(hook_id), Some(trigger), Some(target_url), Some(created_at)) =
            (hook_id, trigger, target_url, created_at)
        {
            of.hooks.push(HookRow { hook_id, trigger, target_url, form_id, created_at });
        }
    }
    listed
}
