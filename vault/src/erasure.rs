//! Erasure: deletes every row that belongs to a response. The caller drops the response's data key
//! from the keyring first.

use sqlx::PgConnection;
use uuid::Uuid;

use crate::keyring::KeySubject;

/// Statements that delete the contents of responses. The respondent's row is found by its key, and
/// the rows of further people by their index.
const CONTENTS: [&str; 4] = [
    "with gone as (
         delete from responses
          where (firm_id, response_id) in (select * from unnest($1::uuid[], $2::uuid[]))
         returning firm_id, person_id, response_id)
     delete from response_people
      where (firm_id, person_id, response_id) in (select * from gone)",
    "delete from response_people
      where (firm_id, response_id) in (select * from unnest($1::uuid[], $2::uuid[])) and further",
    "delete from reports
      where (firm_id, response_id) in (select * from unnest($1::uuid[], $2::uuid[]))",
    "delete from bookings
      where (firm_id, response_id) in (select * from unnest($1::uuid[], $2::uuid[]))",
];

/// Deletes all rows of these responses. Also works on a response that a restored backup brought
/// back.
pub async fn erase_responses(
    connection: &mut PgConnection,
    subjects: &[KeySubject],
) -> Result<(), sqlx::Error> {
    clear_contents(connection, subjects).await?;
    let (firm_ids, response_ids): (Vec<Uuid>, Vec<Uuid>) =
        subjects.iter().map(|subject| (subject.firm_id, subject.subject_id)).unzip();
    for statement in [
        // The purge deletes bodies in the same order, so the two cannot deadlock.
        "delete from bodies where body_id in (
             select body_id from bodies
              where (firm_id, response_id) in (select * from unnest($1::uuid[], $2::uuid[]))
              order by body_id for update)",
        "delete from answers
          where (firm_id, response_id) in (select * from unnest($1::uuid[], $2::uuid[]))",
        "delete from step_headers
          where (firm_id, response_id) in (select * from unnest($1::uuid[], $2::uuid[]))",
    ] {
        sqlx::query(statement)
            .bind(&firm_ids)
            .bind(&response_ids)
            .execute(&mut *connection)
            .await?;
    }
    Ok(())
}

/// Deletes the remaining contents of these responses, so that they can be stored anew. Bodies and
/// answers stay: they go after their own retention.
pub async fn clear_contents(
    connection: &mut PgConnection,
    subjects: &[KeySubject],
) -> Result<(), sqlx::Error> {
    let (firm_ids, response_ids): (Vec<Uuid>, Vec<Uuid>) =
        subjects.iter().map(|subject| (subject.firm_id, subject.subject_id)).unzip();
    for statement in CONTENTS {
        sqlx::query(statement)
            .bind(&firm_ids)
            .bind(&response_ids)
            .execute(&mut *connection)
            .await?;
    }
    Ok(())
}

/// Deletes reports and bookings of erased responses, by firm and id. A part may have arrived before
/// its response was known, so [`erase_responses`] cannot find it.
pub async fn erase_parts(
    connection: &mut PgConnection,
    parts: &[(Uuid, Uuid)],
) -> Result<(), sqlx::Error> {
    let (firm_ids, part_ids): (Vec<Uuid>, Vec<Uuid>) = parts.iter().copied().unzip();
    for statement in [
        "delete from reports
          where (firm_id, report_id) in (select * from unnest($1::uuid[], $2::uuid[]))",
        "delete from bookings
          where (firm_id, booking_id) in (select * from unnest($1::uuid[], $2::uuid[]))",
    ] {
        sqlx::query(statement).bind(&firm_ids).bind(&part_ids).execute(&mut *connection).await?;
    }
    Ok(())
}
