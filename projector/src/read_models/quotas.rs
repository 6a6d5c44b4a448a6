//! Quotas limit a firm over several streams. Each firm has one row per kind and period, and the
//! append that uses the quota changes the row.

use std::collections::BTreeMap;

use chrono::NaiveDate;
use domain::event::{Event, Quota};
use eventstore::{AppendError, NewEvent, RecordedEvent, WithAppend};
use futures::future::BoxFuture;
use sqlx::{PgConnection, PgPool};
use uuid::Uuid;

/// The key of a count: firm, kind, and the day if the quota is per day.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct QuotaKey {
    firm_id: Uuid,
    quota: Quota,
    day: Option<NaiveDate>,
}

pub(crate) struct QuotaGuard;

impl WithAppend for QuotaGuard {
    fn prepare_append<'a>(
        &'a self,
        connection: &'a mut PgConnection,
        events: &'a mut [NewEvent],
    ) -> BoxFuture<'a, Result<(), AppendError>> {
        Box::pin(async move {
            let events = events.iter().map(|event| (event.context.firm_id, &event.event));
            apply_changes(connection, sum_changes(events)).await
        })
    }

    fn apply_appended<'a>(
        &'a self,
        connection: &'a mut PgConnection,
        events: &'a [RecordedEvent],
    ) -> BoxFuture<'a, Result<(), AppendError>> {
        Box::pin(async move { Ok(note_changes(connection, events).await?) })
    }
}

/// Notes the position of the last change to each firm's subscriptions. The count has locked the
/// row, so the changes of a firm are ordered by position.
async fn note_changes(
    connection: &mut PgConnection,
    events: &[RecordedEvent],
) -> Result<(), sqlx::Error> {
    let mut last = BTreeMap::new();
    for event in events {
        if Quota::change_from(&event.event).is_some_and(|change| change.quota == Quota::Hooks) {
            last.insert(event.context.firm_id, event.position);
        }
    }
    if last.is_empty() {
        return Ok(());
    }
    sqlx::query(
        "update quotas q set changed_position = greatest(q.changed_position, t.position)
           from unnest($1::uuid[], $2::bigint[]) as t(firm_id, position)
          where q.firm_id = t.firm_id and q.kind = 'hooks' and q.period = '-infinity'",
    )
    .bind(last.keys().copied().collect::<Vec<_>>())
    .bind(last.values().copied().collect::<Vec<_>>())
    .execute(connection)
    .await?;
    Ok(())
}

/// Counts the events of a rebuild. Days before `first_day` are left out, because housekeeping
/// forgets them.
pub(crate) async fn recount(
    connection: &mut PgConnection,
    events: &[RecordedEvent],
    first_day: NaiveDate,
) -> Result<(), AppendError> {
    let mut changes = sum_changes(events.iter().map(|event| (event.context.firm_id, &event.event)));
    changes.retain(|key, _| key.day.is_none_or(|day| day >= first_day));
    apply_changes(connection, changes).await?;
    Ok(note_changes(connection, events).await?)
}

/// Sums the changes of the events for each count.
fn sum_changes<'a>(events: impl Iterator<Item = (Uuid, &'a Event)>) -> BTreeMap<QuotaKey, i32> {
    let mut changes = BTreeMap::new();
    for (firm_id, event) in events {
        if let Some(change) = Quota::change_from(event) {
            let key = QuotaKey { firm_id, quota: change.quota, day: change.day };
            *changes.entry(key).or_default() += change.by;
        }
    }
    changes
}

async fn apply_changes(
    connection: &mut PgConnection,
    changes: BTreeMap<QuotaKey, i32>,
) -> Result<(), AppendError> {
    let (given, taken): (Vec<_>, Vec<_>) = changes.into_iter().partition(|(_, by)| *by < 0);
    for (key, by) in taken {
        if !take_quota(connection, key, by).await? {
            return Err(AppendError::QuotaFull(key.quota));
        }
    }
    // A count below zero means that another append has given the same back. The command is decided
    // again.
    let all = given.is_empty() || give_back(connection, &given).await?;
    if all { Ok(()) } else { Err(AppendError::Conflict) }
}

/// Adds to a count, up to its limit. Only a command does this, for one firm, and no batch does.
async fn take_quota(
    connection: &mut PgConnection,
    key: QuotaKey,
    by: i32,
) -> Result<bool, sqlx::Error> {
    let taken = sqlx::query(
        "insert into quotas as q (firm_id, kind, period, used)
         values ($1, $2, coalesce($3, '-infinity'::date), $4)
             on conflict (firm_id, kind, period) do update set used = q.used + $4
          where q.used + $4 <= $5",
    )
    .bind(key.firm_id)
    .bind(key.quota.name())
    .bind(key.day)
    .bind(by)
    .bind(key.quota.limit())
    .execute(connection)
    .await?;
    Ok(taken.rows_affected() == 1)
}

/// Subtracts from counts, which are locked in order. Returns whether each row had as much. A
/// forgotten row needs nothing.
async fn give_back(
    connection: &mut PgConnection,
    given: &[(QuotaKey, i32)],
) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar(
        "with held as (
             select q.firm_id, q.kind, q.period, t.change
               from unnest($1::uuid[], $2::text[], $3::date[], $4::int[])
                    as t(firm_id, kind, day, change)
               join quotas q on q.firm_id = t.firm_id and q.kind = t.kind
                and q.period = coalesce(t.day, '-infinity'::date)
              order by q.firm_id, q.kind, q.period for update of q
         ), given as (
             update quotas q set used = q.used + held.change from held
              where q.firm_id = held.firm_id and q.kind = held.kind and q.period = held.period
                and q.used + held.change >= 0
             returning 1
         )
         select (select count(*) from held) = (select count(*) from given)",
    )
    .bind(given.iter().map(|(key, _)| key.firm_id).collect::<Vec<_>>())
    .bind(given.iter().map(|(key, _)| key.quota.name()).collect::<Vec<_>>())
    .bind(given.iter().map(|(key, _)| key.day).collect::<Vec<_>>())
    .bind(given.iter().map(|(_, by)| *by).collect::<Vec<_>>())
    .fetch_one(connection)
    .await
}

/// Forgets up to `limit` counts of days before this one.
pub async fn forget(pool: &PgPool, before: NaiveDate, limit: i64) -> Result<u64, sqlx::Error> {
    let gone = sqlx::query(
        "delete from quotas where ctid = any(array(
             select ctid from quotas where period > '-infinity' and period < $1
              limit $2 for update skip locked))",
    )
    .bind(before)
    .bind(limit)
    .execute(pool)
    .await?;
    Ok(gone.rows_affected())
}

/// Locks the firms' counts of subscriptions, for a removal that locks lanes afterwards.
pub async fn lock_hooks(
    connection: &mut PgConnection,
    firm_ids: &[Uuid],
) -> Result<(), sqlx::Error> {
    sqlx::query(
        "select 1 from quotas where firm_id = any($1) and kind = 'hooks'
          order by firm_id for update",
    )
    .bind(firm_ids)
    .execute(connection)
    .await?;
    Ok(())
}
