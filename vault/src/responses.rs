//! Responses: the answers of people, saved on the way and submitted once.

use std::collections::{BTreeSet, HashMap, HashSet};

use chrono::{DateTime, Utc};
use domain::activity::ResponseDocument;
use domain::delivery::FormPart;
use eventstore::JoinedWrites;
use sqlx::postgres::PgRow;
use sqlx::{FromRow, PgConnection, PgExecutor, Row};
use uuid::Uuid;

use crate::entropy::Entropy;
use crate::error::{VaultError, unless_broken};
use crate::keyring::{DataKeys, KeySubject};
use crate::people::NamedOn;
use crate::seal::{BrokenSeal, DataKey, text_size_max};

const PURPOSE: &[u8] = b"response";

/// A response as the product reported it.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredResponse {
    /// The firm.
    pub firm_id: Uuid,
    /// The response.
    pub response_id: Uuid,
    /// The form that the person answered.
    pub form_id: Uuid,
    /// When the response was last saved, or submitted.
    pub saved_at: DateTime<Utc>,
    /// When the response was submitted; `None` while it is unfinished.
    pub submitted_at: Option<DateTime<Utc>>,
    /// The answers.
    pub document: ResponseDocument,
}

/// A new submission that an append records, with everything that its bodies are composed from.
pub struct NewSubmission<'a> {
    /// The response.
    pub response: &'a StoredResponse,
    /// The data key that encrypts the response.
    pub key: &'a DataKey,
    /// The response's form.
    pub form: &'a FormPart,
}

impl StoredResponse {
    /// The response, as the owner of a data key.
    #[must_use]
    pub const fn subject(&self) -> KeySubject {
        KeySubject { firm_id: self.firm_id, subject_id: self.response_id }
    }
}

/// The content that the vault may have for the responses that a caller stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PriorContent {
    /// Neither the responses nor the people that they name. The statement is cheaper. If the caller
    /// is wrong, [`VaultError::is_taken`] says so.
    Nothing,
    /// An earlier state, or the same state.
    Anything,
}

/// Responses that one statement stores.
#[derive(Debug, Clone, Copy)]
pub struct ResponseBatch<'a> {
    /// The responses, each at most once.
    pub responses: &'a [StoredResponse],
    /// The people that these or other responses name.
    pub named: &'a BTreeSet<NamedOn>,
    /// The caller's knowledge of the vault's content.
    pub before: PriorContent,
}

/// SQL: stores responses. [`JoinedWrites::add_rows`] spells `rows(…)` out.
macro_rules! put_sql {
    ($on_conflict:literal) => {
        concat!(
            "kept as (
                 insert into responses as r (firm_id, response_id, form_id, saved_at, submitted_at,
                                             document, person_id)
                 select * from rows($1::uuid, $2::uuid, $3::uuid, $4::timestamptz, $5::timestamptz,
                                    $6::bytea, $7::uuid) as t ",
            $on_conflict,
            " returning firm_id, response_id, person_id)"
        )
    };
}

/// SQL: stores the people that responses name. `further` is false for the person in the row of the
/// response itself.
macro_rules! name_sql {
    ($on_conflict:literal) => {
        concat!(
            "named as (
                 insert into response_people (firm_id, person_id, response_id, further)
                 select n.*, k.person_id is distinct from n.person_id
                   from rows($1::uuid, $2::uuid, $3::uuid) as n(firm_id, person_id, response_id)
                        left join kept k using (firm_id, response_id) ",
            $on_conflict,
            ")"
        )
    };
}

/// Stores responses and returns the responses that changed.
///
/// A submitted response never changes again. A later save or the submission replaces a saved
/// response; the form stays the first one. `batch.responses` holds a response at most once. The
/// people that a response names are stored in the same statement. One person of a new response is
/// kept in the response's own row, so that the response is found by that person's id.
///
/// With [`PriorContent::Nothing`] all responses are new. They are then stored with the joined
/// writes of the transaction.
pub async fn put(
    connection: &mut PgConnection,
    writes: &mut JoinedWrites,
    keys: &DataKeys,
    batch: ResponseBatch<'_>,
    entropy: &dyn Entropy,
) -> Result<Vec<KeySubject>, VaultError> {
    if batch.before == PriorContent::Nothing {
        write_new(writes, keys, batch, entropy)?;
        return Ok(batch.responses.iter().map(StoredResponse::subject).collect());
    }
    let mut write = JoinedWrites::default();
    let put = put_sql!(
        "on conflict (firm_id, response_id) do update
            set saved_at = excluded.saved_at, submitted_at = excluded.submitted_at,
                document = excluded.document,
                person_id = coalesce(r.person_id, excluded.person_id)
          where r.submitted_at is null
            and (excluded.submitted_at is not null or excluded.saved_at > r.saved_at)"
    );
    let name = name_sql!("on conflict (firm_id, person_id, response_id) do nothing");
    add_values(&mut write, [put, name], keys, batch, entropy)?;
    let news = write.fetch_all(connection, "firm_id, response_id from kept").await?;
    let subject =
        |row: &PgRow| Ok(KeySubject { firm_id: row.try_get(0)?, subject_id: row.try_get(1)? });
    Ok(news.iter().map(subject).collect::<Result<_, sqlx::Error>>()?)
}

/// Adds the write that stores new responses and the people that they name.
pub fn write_new(
    writes: &mut JoinedWrites,
    keys: &DataKeys,
    batch: ResponseBatch<'_>,
    entropy: &dyn Entropy,
) -> Result<(), VaultError> {
    add_values(writes, [put_sql!(""), name_sql!("")], keys, batch, entropy)
}

fn add_values(
    writes: &mut JoinedWrites,
    [put, name]: [&'static str; 2],
    keys: &DataKeys,
    ResponseBatch { responses, named, .. }: ResponseBatch<'_>,
    entropy: &dyn Entropy,
) -> Result<(), VaultError> {
    let mut sealed = Vec::with_capacity(responses.len());
    for response in responses {
        let bytes = serde_json::to_vec(&response.document)?;
        let key = keys.get(&response.subject()).ok_or(BrokenSeal)?;
        sealed.push(key.seal_text(PURPOSE, &bytes, entropy)?);
    }
    let one_of_each: HashMap<KeySubject, Uuid> =
        named.iter().map(|one| (one.subject(), one.person_id)).collect();
    writes
        .add_rows(responses.len(), put)
        .bind_column(responses.iter().map(|r| r.firm_id).collect())
        .bind_column(responses.iter().map(|r| r.response_id).collect())
        .bind_column(responses.iter().map(|r| r.form_id).collect())
        .bind_column(responses.iter().map(|r| r.saved_at).collect())
        .bind_column(responses.iter().map(|r| r.submitted_at).collect())
        .bind_column(sealed)
        .bind_column(responses.iter().map(|r| one_of_each.get(&r.subject()).copied()).collect());
    // Each part of a statement has a price, also without rows.
    if !named.is_empty() {
        writes
            .add_rows(named.len(), name)
            .bind_column(named.iter().map(|one| one.firm_id).collect())
            .bind_column(named.iter().map(|one| one.person_id).collect())
            .bind_column(named.iter().map(|one| one.response_id).collect());
    }
    Ok(())
}

#[derive(FromRow)]
struct ResponseRow {
    firm_id: Uuid,
    response_id: Uuid,
    form_id: Uuid,
    saved_at: DateTime<Utc>,
    submitted_at: Option<DateTime<Utc>>,
    document: Vec<u8>,
    reported_on: bool,
    booked: bool,
}

/// Which other parts a response has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResponseParts {
    /// The response has reports.
    pub reports: bool,
    /// The response has bookings.
    pub bookings: bool,
}

/// The stored responses that a key of `keys` decrypts. Leaves out a damaged response, so that
/// others are still served.
pub async fn read(
    connection: &mut PgConnection,
    keys: &DataKeys,
) -> Result<Vec<StoredResponse>, sqlx::Error> {
    let whole = read_with_parts(connection, keys).await?;
    Ok(whole.into_iter().map(|(response, _)| response).collect())
}

/// Like [`read`], and for each response which other parts it has.
pub async fn read_with_parts(
    connection: &mut PgConnection,
    keys: &DataKeys,
) -> Result<Vec<(StoredResponse, ResponseParts)>, sqlx::Error> {
    let (firm_ids, response_ids): (Vec<Uuid>, Vec<Uuid>) =
        keys.keys().map(|subject| (subject.firm_id, subject.subject_id)).unzip();
    let rows: Vec<ResponseRow> = sqlx::query_as(
        "select firm_id, response_id, form_id, saved_at, submitted_at, document,
                exists (select from reports p
                         where (p.firm_id, p.response_id) = (r.firm_id, r.response_id))
                    as reported_on,
                exists (select from bookings b
                         where (b.firm_id, b.response_id) = (r.firm_id, r.response_id)) as booked
           from responses r
          where (firm_id, response_id) in (select * from unnest($1::uuid[], $2::uuid[]))",
    )
    .bind(firm_ids)
    .bind(response_ids)
    .fetch_all(connection)
    .await?;
    let parts =
        |row: &ResponseRow| ResponseParts { reports: row.reported_on, bookings: row.booked };
    let opened =
        |row| Some((unless_broken(open_response(row, keys), row.response_id)?, parts(row)));
    Ok(rows.iter().filter_map(opened).collect())
}

/// The most bytes that the document of each response can have, by its encrypted size.
pub async fn sizes(
    connection: &mut PgConnection,
    subjects: &HashSet<KeySubject>,
) -> Result<HashMap<KeySubject, usize>, sqlx::Error> {
    let (firm_ids, response_ids): (Vec<Uuid>, Vec<Uuid>) =
        subjects.iter().map(|subject| (subject.firm_id, subject.subject_id)).unzip();
    let rows: Vec<(Uuid, Uuid, i32)> = sqlx::query_as(
        "select firm_id, response_id, octet_length(document) from responses
          where (firm_id, response_id) in (select * from unnest($1::uuid[], $2::uuid[]))",
    )
    .bind(firm_ids)
    .bind(response_ids)
    .fetch_all(connection)
    .await?;
    Ok(rows
        .into_iter()
        .map(|(firm_id, subject_id, size)| {
            (KeySubject { firm_id, subject_id }, text_size_max(size))
        })
        .collect())
}

/// The responses among `subjects` that are submitted. No other transaction can submit one of the
/// other stored responses before this transaction ends. A response without a row is not locked.
pub async fn lock_submitted(
    connection: &mut PgConnection,
    subjects: &HashSet<KeySubject>,
) -> Result<HashSet<KeySubject>, sqlx::Error> {
    let (firm_ids, response_ids): (Vec<Uuid>, Vec<Uuid>) =
        subjects.iter().map(|subject| (subject.firm_id, subject.subject_id)).unzip();
    let rows: Vec<(Uuid, Uuid, bool)> = sqlx::query_as(
        "select firm_id, response_id, submitted_at is not null from responses
          where (firm_id, response_id) in (select * from unnest($1::uuid[], $2::uuid[]))
          order by firm_id, response_id for share",
    )
    .bind(firm_ids)
    .bind(response_ids)
    .fetch_all(connection)
    .await?;
    Ok(rows
        .into_iter()
        .filter(|(.., submitted)| *submitted)
        .map(|(firm_id, subject_id, _)| KeySubject { firm_id, subject_id })
        .collect())
}

/// The form of a response, if the vault holds the response.
pub async fn form_of(
    connection: &mut PgConnection,
    subject: KeySubject,
) -> Result<Option<Uuid>, sqlx::Error> {
    sqlx::query_scalar("select form_id from responses where firm_id = $1 and response_id = $2")
        .bind(subject.firm_id)
        .bind(subject.subject_id)
        .fetch_optional(connection)
        .await
}

/// The newest submissions of a firm or of one form, by `submitted_at`, then id (ruling 14b,
/// sample).
pub async fn latest_submissions(
    executor: impl PgExecutor<'_>,
    firm_id: Uuid,
    form_id: Option<Uuid>,
    limit: i64,
) -> Result<Vec<KeySubject>, sqlx::Error> {
    let ids: Vec<Uuid> = match form_id {
        None => {
            sqlx::query_scalar(
                "select response_id from responses
                  where firm_id = $1 and submitted_at is not null
                  order by submitted_at desc, response_id desc limit $2",
            )
            .bind(firm_id)
            .bind(limit)
            .fetch_all(executor)
            .await?
        }
        Some(form_id) => {
            sqlx::query_scalar(
                "select response_id from responses
                  where firm_id = $1 and submitted_at is not null and form_id = $3
                  order by submitted_at desc, response_id desc limit $2",
            )
            .bind(firm_id)
            .bind(limit)
            .bind(form_id)
            .fetch_all(executor)
            .await?
        }
    };
    Ok(ids.into_iter().map(|subject_id| KeySubject { firm_id, subject_id }).collect())
}

fn open_response(row: &ResponseRow, keys: &DataKeys) -> Result<StoredResponse, VaultError> {
    let subject = KeySubject { firm_id: row.firm_id, subject_id: row.response_id };
    let key = keys.get(&subject).ok_or(BrokenSeal)?;
    Ok(StoredResponse {
        firm_id: row.firm_id,
        response_id: row.response_id,
        form_id: row.form_id,
        saved_at: row.saved_at,
        submitted_at: row.submitted_at,
        document: serde_json::from_slice(&key.open_text(PURPOSE, &row.document)?)?,
    })
}
