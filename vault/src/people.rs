//! The people that a response names: its respondent, the invitee of a booking, or the lead. The
//! table holds keyed hashes of people. The erasure of a person finds the person's responses in the
//! table.

use chrono::{DateTime, Utc};
use sqlx::{FromRow, PgConnection};
use uuid::Uuid;

use crate::keyring::KeySubject;

/// A person and a response that names the person.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, FromRow)]
pub struct NamedOn {
    /// The firm.
    pub firm_id: Uuid,
    /// The person.
    pub person_id: Uuid,
    /// The response.
    pub response_id: Uuid,
}

impl NamedOn {
    /// The response, as the owner of a data key. The person's erasure erases the response too.
    #[must_use]
    pub const fn subject(&self) -> KeySubject {
        KeySubject { firm_id: self.firm_id, subject_id: self.response_id }
    }
}

/// The responses that name these people, each given by firm and person id.
pub async fn responses_naming(
    connection: &mut PgConnection,
    people: &[(Uuid, Uuid)],
) -> Result<Vec<NamedOn>, sqlx::Error> {
    if people.is_empty() {
        return Ok(Vec::new());
    }
    let (firm_ids, person_ids): (Vec<Uuid>, Vec<Uuid>) = people.iter().copied().unzip();
    sqlx::query_as(
        "select firm_id, person_id, response_id from response_people
          where (firm_id, person_id) in (select * from unnest($1::uuid[], $2::uuid[]))
          order by firm_id, person_id, response_id",
    )
    .bind(firm_ids)
    .bind(person_ids)
    .fetch_all(connection)
    .await
}

/// A response that names a person, without its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromRow)]
pub struct PersonResponse {
    /// The response.
    pub response_id: Uuid,
    /// The form.
    pub form_id: Uuid,
    /// The time of the last save.
    pub saved_at: DateTime<Utc>,
    /// The time of the submission, if it was submitted.
    pub submitted_at: Option<DateTime<Utc>>,
}

/// The responses of a firm that name this person.
pub async fn responses_of(
    connection: &mut PgConnection,
    firm_id: Uuid,
    person_id: Uuid,
) -> Result<Vec<PersonResponse>, sqlx::Error> {
    sqlx::query_as(
        "select r.response_id, r.form_id, r.saved_at, r.submitted_at
           from response_people p
           join responses r on r.firm_id = p.firm_id and r.response_id = p.response_id
          where p.firm_id = $1 and p.person_id = $2
          order by r.saved_at, r.response_id",
    )
    .bind(firm_id)
    .bind(person_id)
    .fetch_all(connection)
    .await
}
