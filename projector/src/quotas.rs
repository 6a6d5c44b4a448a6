//! Limits that span streams: one row per firm and kind, changed in the append that changes it.

use std::collections::BTreeMap;

use domain::quota::Quota;
use eventstore::{AppendError, NewEvent, WithAppend};
use futures::future::BoxFuture;
use sqlx::PgConnection;
use uuid::Uuid;

pub(crate) struct Quotas;

impl WithAppend for Quotas {
    fn before<'a>(
        &'a self,
        connection: &'a mut PgConnection,
        events: &'a [NewEvent],
    ) -> BoxFuture<'a, Result<(), AppendError>> {
        Box::pin(async move {
            let mut changes: BTreeMap<(Uuid, Quota), i32> = BTreeMap::new();
            for event in events {
                if let Some((quota, change)) = Quota::change(&event.event) {
                    *changes.entry((event.context.firm_id, quota)).or_default() += change;
                }
            }
            for ((firm_id, quota), change) in changes {
                if !take(connection, firm_id, quota, change).await? {
                    return Err(refusal(quota, change));
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
    firm_id: Uuid,
    quota: Quota,
    change: i32,
) -> Result<bool, sqlx::Error> {
    let taken = sqlx::query(
        "insert into quotas as q (firm_id, kind, used) values ($1, $2, greatest($3, 0))
             on conflict (firm_id, kind) do update set used = q.used + $3
          where q.used + $3 between 0 and $4",
    )
    .bind(firm_id)
    .bind(quota.name())
    .bind(change)
    .bind(quota.limit())
    .execute(connection)
    .await?;
    Ok(taken.rows_affected() == 1)
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
