//! The plan of an expiry: what the expire worker would let expire now (ruling 59).

use chrono::NaiveDate;
use eventstore::proof;
use sqlx::{FromRow, PgPool};
use uuid::Uuid;

/// The responses of a firm that nobody reported about for long.
#[derive(Debug, Clone, PartialEq, Eq, FromRow)]
pub struct PlannedExpiry {
    /// The firm.
    pub firm_id: Uuid,
    /// Responses that expire.
    pub expire: i64,
    /// Bytes of their answers, reports and bookings, as ciphertext.
    pub bytes: i64,
    /// Responses that are kept for now: something of them waits to be sent, or a body is kept.
    pub held: i64,
    /// The oldest day of a last report among both.
    pub oldest: NaiveDate,
}

/// Plans the expiry of responses that were last reported before this day, by firm. It reads all
/// responses.
pub async fn plan_expiry(
    pool: &PgPool,
    kept_since: NaiveDate,
) -> Result<Vec<PlannedExpiry>, sqlx::Error> {
    let mut snapshot = proof::long_snapshot(pool).await?;
    sqlx::query_as(
        "with unreported as materialized (
             select r.firm_id, r.response_id, s.reported_on, octet_length(r.document) as bytes,
                    exists (select 1 from outbox o
                             where o.firm_id = r.firm_id and o.response_id = r.response_id)
                    or exists (select 1 from bodies b
                                where b.firm_id = r.firm_id and b.response_id = r.response_id)
                    or exists (select 1 from partials p
                                where p.firm_id = r.firm_id and p.response_id = r.response_id)
                    or exists (select 1 from unspread u where u.firm_id = r.firm_id)
                        as held
               from responses r
               join subjects s on s.firm_id = r.firm_id and s.subject_id = r.response_id
              where s.reported_on < $1 and not s.erased
                and coalesce(r.submitted_at, r.saved_at) < $1::timestamp at time zone 'UTC'
         ), parts as (
             select firm_id, response_id, octet_length(document) as bytes from reports
              union all
             select firm_id, response_id, octet_length(document) from bookings
         ), of_parts as (
             select u.firm_id, sum(p.bytes) as bytes
               from unreported u join parts p using (firm_id, response_id)
              where not u.held group by u.firm_id
         )
         select u.firm_id, count(*) filter (where not held) as expire,
                (coalesce(sum(u.bytes) filter (where not held), 0)
                 + coalesce(max(p.bytes), 0))::bigint as bytes,
                count(*) filter (where held) as held, min(reported_on) as oldest
           from unreported u left join of_parts p using (firm_id)
          group by u.firm_id order by expire desc, u.firm_id",
    )
    .bind(kept_since)
    .fetch_all(&mut *snapshot)
    .await
}
