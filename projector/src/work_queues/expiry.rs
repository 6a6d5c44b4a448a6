//! Expiry: a response that nobody reported about for a long time loses its contents (ruling 59).
//!
//! An expired response is marked as erased, so that all readers take it for erased. A later report
//! of the response brings its contents back and ends the mark.

use chrono::NaiveDate;
use sqlx::PgConnection;
use uuid::Uuid;

use super::subjects::{ExpiredAs, SubjectId};

/// Locks the responses of a firm among these that were last reported before this day and are not
/// erased. A response that a batch reports just now is left out.
pub async fn lock_unreported(
    connection: &mut PgConnection,
    firm_id: Uuid,
    response_ids: &[Uuid],
    kept_since: NaiveDate,
) -> Result<Vec<Uuid>, sqlx::Error> {
    sqlx::query_scalar(
        "select subject_id from subjects
          where firm_id = $1 and subject_id = any($2) and reported_on < $3 and not erased
          order by subject_id for update skip locked",
    )
    .bind(firm_id)
    .bind(response_ids)
    .bind(kept_since)
    .fetch_all(connection)
    .await
}

/// Marks locked responses of a firm as expired.
pub async fn mark_expired(
    connection: &mut PgConnection,
    firm_id: Uuid,
    responses: &[(Uuid, ExpiredAs)],
) -> Result<(), sqlx::Error> {
    let (response_ids, stood): (Vec<Uuid>, Vec<&str>) =
        responses.iter().map(|(response_id, stood)| (*response_id, stood.name())).unzip();
    sqlx::query(
        "update subjects s set erased = true, expired_as = t.stood
           from unnest($2::uuid[], $3::text[]) as t(response_id, stood)
          where s.firm_id = $1 and s.subject_id = t.response_id",
    )
    .bind(firm_id)
    .bind(response_ids)
    .bind(stood)
    .execute(connection)
    .await?;
    Ok(())
}

/// Unlinks the reports and bookings of responses whose contents come back. Facts about them wait
/// until they are reported again. The caller writes the links of `known` itself. The parts are not
/// locked in one order with their responses: of two batches that wait for each other, one is made
/// again.
pub async fn unlink_parts(
    connection: &mut PgConnection,
    responses: &[SubjectId],
    known: &[SubjectId],
) -> Result<(), sqlx::Error> {
    let (firm_ids, response_ids): (Vec<Uuid>, Vec<Uuid>) = responses.iter().copied().unzip();
    let (of_firms, known): (Vec<Uuid>, Vec<Uuid>) = known.iter().copied().unzip();
    sqlx::query(
        "update subjects set response_id = null
          where (firm_id, response_id) in (select * from unnest($1::uuid[], $2::uuid[]))
            and (firm_id, subject_id) not in (select * from unnest($3::uuid[], $4::uuid[]))",
    )
    .bind(firm_ids)
    .bind(response_ids)
    .bind(of_firms)
    .bind(known)
    .execute(connection)
    .await?;
    Ok(())
}

/// Locks the responses among these that are still expired. Nobody can bring their contents back
/// before the transaction ends.
pub async fn lock_expired(
    connection: &mut PgConnection,
    responses: &[SubjectId],
) -> Result<Vec<SubjectId>, sqlx::Error> {
    if responses.is_empty() {
        return Ok(Vec::new());
    }
    let (firm_ids, response_ids): (Vec<Uuid>, Vec<Uuid>) = responses.iter().copied().unzip();
    sqlx::query_as(
        "select firm_id, subject_id from subjects
          where (firm_id, subject_id) in (select * from unnest($1::uuid[], $2::uuid[]))
            and expired_as is not null
          order by firm_id, subject_id for no key update",
    )
    .bind(firm_ids)
    .bind(response_ids)
    .fetch_all(connection)
    .await
}
