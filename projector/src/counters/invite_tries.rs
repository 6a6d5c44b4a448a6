//! The counter of recipients that a firm tried to invite on a day. Refused and failed invites give
//! their place in the quota back, and stay counted here.

use chrono::NaiveDate;
use domain::invite::INVITE_TRIES_PER_DAY;
use sqlx::{PgConnection, PgPool};
use uuid::Uuid;

/// Counts a try in the transaction of its reservation. Returns whether the firm had one left.
pub async fn count_try(
    connection: &mut PgConnection,
    firm_id: Uuid,
    day: NaiveDate,
) -> Result<bool, sqlx::Error> {
    let counted = sqlx::query(
        "insert into invite_tries as t (firm_id, day, tries) values ($1, $2, 1)
             on conflict (firm_id, day) do update set tries = t.tries + 1 where t.tries < $3",
    )
    .bind(firm_id)
    .bind(day)
    .bind(INVITE_TRIES_PER_DAY)
    .execute(connection)
    .await?;
    Ok(counted.rows_affected() == 1)
}

/// Forgets up to `limit` counts of days before this one.
pub async fn forget(pool: &PgPool, before: NaiveDate, limit: i64) -> Result<u64, sqlx::Error> {
    let gone = sqlx::query(
        "delete from invite_tries where ctid = any(array(
             select ctid from invite_tries where day < $1 limit $2 for update skip locked))",
    )
    .bind(before)
    .bind(limit)
    .execute(pool)
    .await?;
    Ok(gone.rows_affected())
}
