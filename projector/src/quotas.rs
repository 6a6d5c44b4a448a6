//! Limits that span streams: one row per firm, kind and period, changed in the append that changes it.

use std::collections::BTreeMap;

use chrono::NaiveDate;
use domain::quota::Quota;
use eventstore::{AppendError, NewEvent, WithAppend};
use futures::future::BoxFuture;
use sqlx::{PgConnection, PgPool};
use uuid::Uuid;

/// Whose count of what, and of which day if it is counted by the day.
type Count = (Uuid, Quota, Option<NaiveDate>);

pub(crate) struct Quotas;

impl WithAppend for Quotas {
    fn before<'a>(
        &'a self,
        connection: &'a mut PgConnection,
        events: &'a [NewEvent],
    ) -> BoxFuture<'a, Result<(), AppendError>> {
        Box::pin(async move {
            let mut changes: BTreeMap<Count, i32> = BTreeMap::new();
            for event in events {
                if let Some(change) = Quota::change(&event.event) {
                    let count = (event.context.firm_id, change.quota, change.day);
                    *changes.entry(count).or_default() += change.by;
                }
            }
            for (count, by) in changes {
                if !take(connection, count, by).await? {
                    return Err(refusal(count.1, by));
                }
            }
            Ok(())
        })
    }
}

/// A count that would grow past its limit is full; one that would fall below nothing gives back what
/// somebody else just gave back.
const fn refusal(quota: Quota, change: i32) -> AppendError {
    if change > 0 { AppendError::QuotaFull(quota) } else { AppendError::Conflict }
}

/// Changes a count, within its limits.
async fn take(
    connection: &mut PgConnection,
    (firm_id, quota, day): Count,
    by: i32,
) -> Result<bool, sqlx::Error> {
    let taken = sqlx::query(
        "insert into quotas as q (firm_id, kind, period, used)
         values ($1, $2, coalesce($3, '-infinity'::date), greatest($4, 0))
             on conflict (firm_id, kind, period) do update set used = q.used + $4
          where q.used + $4 between 0 and $5",
    )
    .bind(firm_id)
    .bind(quota.name())
    .bind(day)
    .bind(by)
    .bind(quota.limit())
    .execute(connection)
    .await?;
    Ok(taken.rows_affected() == 1)
}

/// Forgets counts of days before this one, at most `limit`.
///
/// # Errors
/// If the database does not answer.
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

/// Locks the firms' count of subscriptions, for a removal that locks lanes first.
///
/// # Errors
/// If the database does not answer.
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
