//! The list of a key's subscriptions. One statement authenticates the key, counts the call and
//! reads the list.

use chrono::{DateTime, Utc};
use domain::access::rate::{CALLS_PER_KEY, WINDOW_SECONDS};
use sqlx::{FromRow, PgConnection};
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

/// The row of a key: its number, from 1, and the columns of its subscriptions. A row per
/// subscription would repeat the admission.
#[derive(FromRow)]
struct KeyHookRow {
    turn: i64,
    firm_active: bool,
    calls_left: Option<i32>,
    oldest: DateTime<Utc>,
    hook_ids: Vec<Uuid>,
    triggers: Vec<String>,
    target_urls: Vec<String>,
    form_ids: Vec<Option<Uuid>>,
    created: Vec<DateTime<Utc>>,
}

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
                h.hook_ids, h.triggers, h.target_urls, h.form_ids, h.created
           from admit_keys($1, $2, $3, $4) a cross join lateral (
                select coalesce(array_agg(hook_id), '{}') as hook_ids,
                       coalesce(array_agg(trigger), '{}') as triggers,
                       coalesce(array_agg(target_url), '{}') as target_urls,
                       coalesce(array_agg(form_id), '{}') as form_ids,
                       coalesce(array_agg(created_at), '{}') as created
                  from (select hook_id, trigger, target_url, form_id, created_at
                          from hooks_of_key(
                               case when a.firm_active and a.calls_left is not null
                                    then a.key_id end, a.firm_id)
                         order by created_position desc) as newest_first) as h",
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
    for row in rows {
        let place = usize::try_from(row.turn - 1).ok().and_then(|turn| listed.get_mut(turn));
        if let Some(place) = place {
            *place = Some(row.into());
        }
    }
    listed
}

impl From<KeyHookRow> for KeyHookList {
    fn from(row: KeyHookRow) -> Self {
        let KeyHookRow { firm_active, calls_left, oldest, .. } = row;
        let targets = row.triggers.into_iter().zip(row.target_urls);
        let columns = row.hook_ids.into_iter().zip(targets).zip(row.form_ids).zip(row.created);
        Self {
            admission: Admission { firm_active, calls_left, oldest },
            hooks: columns
                .map(|(((hook_id, (trigger, target_url)), form_id), created_at)| HookRow {
                    hook_id,
                    trigger,
                    target_url,
                    form_id,
                    created_at,
                })
                .collect(),
        }
    }
}
