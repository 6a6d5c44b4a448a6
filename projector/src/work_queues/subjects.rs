//! Subjects: the responses, reports and calls that activities are about, which arrive in any order.
//!
//! A response is known once its form is known. A report or a call is known once its response is
//! known. A fact that arrives earlier waits here (rulings, section Occurrences). Intake locks the
//! rows of its subjects first, so of two batches about one subject the later sees the result of the
//! earlier.

use std::collections::{BTreeMap, HashSet};

use chrono::{DateTime, NaiveDate, TimeDelta, Utc};
use domain::activity::Fact;
use eventstore::JoinedWrites;
use sqlx::types::Json;
use sqlx::{FromRow, PgConnection, PgPool};
use uuid::Uuid;

/// A firm, with the id of one of its responses, reports or calls.
pub type SubjectId = (Uuid, Uuid);

/// The links of a subject, as far as they are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromRow)]
pub struct SubjectRow {
    /// The firm.
    pub firm_id: Uuid,
    /// The response, report or call.
    pub subject_id: Uuid,
    /// The response of a report or call, once known.
    pub response_id: Option<Uuid>,
    /// The form of a response, once known.
    pub form_id: Option<Uuid>,
    /// Tells whether the subject is an erased response. An expired one is erased as well.
    pub erased: bool,
    /// Tells how the response stood when it expired.
    pub expired_as: Option<ExpiredAs>,
}

impl SubjectRow {
    /// The row of a subject without links.
    #[must_use]
    pub const fn without_links(id: SubjectId) -> Self {
        let (firm_id, subject_id) = id;
        Self {
            firm_id,
            subject_id,
            response_id: None,
            form_id: None,
            erased: false,
            expired_as: None,
        }
    }
}

/// How a response stood when it expired (ruling 59).
#[derive(Debug, Clone, Copy, PartialEq, Eq, sqlx::Type)]
#[sqlx(type_name = "text", rename_all = "lowercase")]
pub enum ExpiredAs {
    /// It was saved, and not submitted.
    Saved,
    /// It was submitted.
    Submitted,
}

impl ExpiredAs {
    /// The word in the table.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Saved => "saved",
            Self::Submitted => "submitted",
        }
    }
}

/// The links of a subject, as a report gives them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SubjectLinks {
    /// The response of a report or call.
    pub response_id: Option<Uuid>,
    /// The form of a response.
    pub form_id: Option<Uuid>,
}

/// A locked subject.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromRow)]
pub struct LockedSubject {
    /// The row of the subject.
    #[sqlx(flatten)]
    pub row: SubjectRow,
    /// Tells whether this call has inserted the row. Then the row has the reported links, and no
    /// fact waited for the subject.
    pub is_new: bool,
}

/// Locks these subjects and their responses, in one order, and notes the day of the report. Unknown
/// subjects are inserted with the reported links, which most subjects keep for good.
pub async fn lock(
    connection: &mut PgConnection,
    reported: &BTreeMap<SubjectId, SubjectLinks>,
    today: NaiveDate,
) -> Result<Vec<LockedSubject>, sqlx::Error> {
    if reported.is_empty() {
        return Ok(Vec::new());
    }
    let (firm_ids, subject_ids): (Vec<Uuid>, Vec<Uuid>) = reported.keys().copied().unzip();
    // An insert that meets a row locks the row first. Only such a row has an `xmax`.
    sqlx::query_as(
        "with reported as (
             select * from unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::uuid[])
                    as t(firm_id, subject_id, response_id, form_id)
         ), related as (
             select firm_id, subject_id, response_id, form_id from reported
              union all
             select distinct s.firm_id, s.response_id, null::uuid, null::uuid
               from reported r
               join subjects s on s.firm_id = r.firm_id and s.subject_id = r.subject_id
              where s.response_id is not null
                and (s.firm_id, s.response_id) not in (select firm_id, subject_id from reported)
         )
         insert into subjects as s (firm_id, subject_id, response_id, form_id, reported_on)
         select firm_id, subject_id, response_id, form_id, $5 from related
          order by firm_id, subject_id
             on conflict (firm_id, subject_id) do update
                set reported_on = greatest(s.reported_on, excluded.reported_on)
         returning firm_id, subject_id, response_id, form_id, erased, expired_as,
                   xmax = 0 as is_new",
    )
    .bind(firm_ids)
    .bind(subject_ids)
    .bind(reported.values().map(|belongs| belongs.response_id).collect::<Vec<_>>())
    .bind(reported.values().map(|belongs| belongs.form_id).collect::<Vec<_>>())
    .bind(today)
    .fetch_all(connection)
    .await
}

/// Adds the write that inserts new responses with their links, and the condition that all are new.
/// A rival that reports one of them may make the insert wait. What the statement read would then be
/// old, so it must not have waited long.
pub fn write_new(
    writes: &mut JoinedWrites,
    reported: &BTreeMap<SubjectId, SubjectLinks>,
    today: NaiveDate,
) {
    let (firm_ids, subject_ids): (Vec<Uuid>, Vec<Uuid>) = reported.keys().copied().unzip();
    writes
        .add_rows(
            reported.len(),
            "reported as (
                 insert into subjects (firm_id, subject_id, response_id, form_id, reported_on)
                 select t.*, $5 from rows($1::uuid, $2::uuid, $3::uuid, $4::uuid) as t
                     on conflict (firm_id, subject_id) do nothing returning 1)",
        )
        .bind_column(firm_ids)
        .bind_column(subject_ids)
        .bind_column(reported.values().map(|links| links.response_id).collect())
        .bind_column(reported.values().map(|links| links.form_id).collect())
        .bind(today);
    let count = i64::try_from(reported.len()).unwrap_or(i64::MAX);
    writes
        .require(
            "(select count(*) from reported) = $1
             and clock_timestamp() < statement_timestamp() + interval '250 ms'",
        )
        .bind(count);
}

/// Lists the reports and calls of these responses.
pub async fn parts_of(
    connection: &mut PgConnection,
    responses: &[SubjectId],
) -> Result<Vec<SubjectId>, sqlx::Error> {
    let (firm_ids, response_ids): (Vec<Uuid>, Vec<Uuid>) = responses.iter().copied().unzip();
    sqlx::query_as(
        "select firm_id, subject_id from subjects
          where (firm_id, response_id) in (select * from unnest($1::uuid[], $2::uuid[]))",
    )
    .bind(firm_ids)
    .bind(response_ids)
    .fetch_all(connection)
    .await
}

/// Drops the facts that wait for these subjects.
pub async fn drop_waiting(
    connection: &mut PgConnection,
    subjects: &[SubjectId],
) -> Result<(), sqlx::Error> {
    let (firm_ids, subject_ids): (Vec<Uuid>, Vec<Uuid>) = subjects.iter().copied().unzip();
    sqlx::query(
        "delete from waiting_facts
          where (firm_id, subject_id) in (select * from unnest($1::uuid[], $2::uuid[]))",
    )
    .bind(firm_ids)
    .bind(subject_ids)
    .execute(connection)
    .await?;
    Ok(())
}

/// SQL: the responses among `$1` and `$2` of which this holds. Each is looked up by itself, because
/// hardly any response is erased. A scan of the erased ones would get slow once there are many.
macro_rules! erased_where {
    ($holds:literal) => {
        concat!(
            "select asked.* from unnest($1::uuid[], $2::uuid[]) as asked(firm_id, subject_id)
              where (select true from subjects s
                      where s.firm_id = asked.firm_id and s.subject_id = asked.subject_id and ",
            $holds,
            ")"
        )
    };
}
/// Returns the erased responses among these.
pub async fn erased_among(
    connection: &mut PgConnection,
    responses: &[SubjectId],
) -> Result<Vec<SubjectId>, sqlx::Error> {
    look_up(erased_where!("erased"), connection, responses).await
}

/// Returns the responses among these that are erased and have not expired. Nothing of theirs is
/// ever stored again.
pub async fn erased_for_good(
    connection: &mut PgConnection,
    responses: &[SubjectId],
) -> Result<Vec<SubjectId>, sqlx::Error> {
    look_up(erased_where!("erased and expired_as is null"), connection, responses).await
}

async fn look_up(
    statement: &'static str,
    connection: &mut PgConnection,
    responses: &[SubjectId],
) -> Result<Vec<SubjectId>, sqlx::Error> {
    let (firm_ids, response_ids): (Vec<Uuid>, Vec<Uuid>) = responses.iter().copied().unzip();
    sqlx::query_as(statement).bind(firm_ids).bind(response_ids).fetch_all(connection).await
}

/// Adds the condition that none of these responses is erased.
pub fn require_unerased(writes: &mut JoinedWrites, responses: &[SubjectId]) {
    if responses.is_empty() {
        return;
    }
    let (firm_ids, response_ids): (Vec<Uuid>, Vec<Uuid>) = responses.iter().copied().unzip();
    writes
        .require(
            "not exists (
                 select from unnest($1::uuid[], $2::uuid[]) as asked(firm_id, subject_id)
                  where (select erased from subjects s
                          where s.firm_id = asked.firm_id and s.subject_id = asked.subject_id))",
        )
        .bind(firm_ids)
        .bind(response_ids);
}

/// Writes the links of locked subjects.
pub async fn update_known(
    connection: &mut PgConnection,
    known: &[SubjectRow],
) -> Result<(), sqlx::Error> {
    if known.is_empty() {
        return Ok(());
    }
    sqlx::query(
        "update subjects s
            set response_id = t.response_id, form_id = t.form_id, erased = t.erased,
                expired_as = t.expired_as
           from unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::uuid[], $5::bool[], $6::text[])
                as t(firm_id, subject_id, response_id, form_id, erased, expired_as)
          where s.firm_id = t.firm_id and s.subject_id = t.subject_id",
    )
    .bind(known.iter().map(|row| row.firm_id).collect::<Vec<_>>())
    .bind(known.iter().map(|row| row.subject_id).collect::<Vec<_>>())
    .bind(known.iter().map(|row| row.response_id).collect::<Vec<_>>())
    .bind(known.iter().map(|row| row.form_id).collect::<Vec<_>>())
    .bind(known.iter().map(|row| row.erased).collect::<Vec<_>>())
    .bind(known.iter().map(|row| row.expired_as.map(ExpiredAs::name)).collect::<Vec<_>>())
    .execute(connection)
    .await?;
    Ok(())
}

/// A fact that waits for its response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitingFact {
    /// The firm.
    pub firm_id: Uuid,
    /// The occurrence that the fact will become.
    pub occurrence_id: Uuid,
    /// The content of the fact.
    pub fact: Fact,
}

/// The time for which a fact waits for its response. After it the response has never been reported.
pub const WAIT_FOR: TimeDelta = TimeDelta::days(90);

/// Forgets up to `limit` facts that have waited longer than [`WAIT_FOR`]. Returns their number.
pub async fn forget_waiting(
    pool: &PgPool,
    now: DateTime<Utc>,
    limit: i64,
) -> Result<u64, sqlx::Error> {
    let forgotten = sqlx::query(
        "delete from waiting_facts
          where (occurrence_id, subject_id) in (
                select occurrence_id, subject_id from waiting_facts where waits_since < $1
                 order by waits_since limit $2)",
    )
    .bind(now - WAIT_FOR)
    .bind(limit)
    .execute(pool)
    .await?;
    Ok(forgotten.rows_affected())
}

/// Inserts facts that wait, reported at this time. Returns the occurrence and the subject of each
/// fact that did not wait before.
pub async fn insert_waiting(
    connection: &mut PgConnection,
    facts: &[WaitingFact],
    at: DateTime<Utc>,
) -> Result<HashSet<(Uuid, Uuid)>, sqlx::Error> {
    if facts.is_empty() {
        return Ok(HashSet::new());
    }
    let new: Vec<(Uuid, Uuid)> = sqlx::query_as(
        "insert into waiting_facts (firm_id, occurrence_id, subject_id, fact, waits_since)
         select t.*, $5 from unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::jsonb[]) as t
          order by 2, 3
             on conflict (occurrence_id, subject_id) do nothing
         returning occurrence_id, subject_id",
    )
    .bind(facts.iter().map(|waiting| waiting.firm_id).collect::<Vec<_>>())
    .bind(facts.iter().map(|waiting| waiting.occurrence_id).collect::<Vec<_>>())
    .bind(facts.iter().map(|waiting| waiting.fact.subject_id).collect::<Vec<_>>())
    .bind(facts.iter().map(|waiting| Json(&waiting.fact)).collect::<Vec<_>>())
    .bind(at)
    .fetch_all(connection)
    .await?;
    Ok(new.into_iter().collect())
}

/// Returns the occurrences among these that facts wait for, each with whether all its facts are
/// silent. Facts of one occurrence agree, unless they were reported at the same time. Then one fact
/// that is not silent is enough.
pub async fn silent_occurrences(
    connection: &mut PgConnection,
    occurrence_ids: &[Uuid],
) -> Result<Vec<(Uuid, bool)>, sqlx::Error> {
    if occurrence_ids.is_empty() {
        return Ok(Vec::new());
    }
    sqlx::query_as(
        "select occurrence_id, bool_and((fact ->> 'silent')::boolean) from waiting_facts
          where occurrence_id = any($1) group by occurrence_id",
    )
    .bind(occurrence_ids)
    .fetch_all(connection)
    .await
}

/// Takes out the facts that wait for these responses, or for their reports and calls. Each comes
/// with its response.
pub async fn take_waiting(
    connection: &mut PgConnection,
    responses: &[SubjectId],
) -> Result<Vec<(SubjectId, Fact)>, sqlx::Error> {
    if responses.is_empty() {
        return Ok(Vec::new());
    }
    let (firm_ids, response_ids): (Vec<Uuid>, Vec<Uuid>) = responses.iter().copied().unzip();
    let rows: Vec<(Uuid, Uuid, Json<Fact>)> = sqlx::query_as(
        "with known as (
             select * from unnest($1::uuid[], $2::uuid[]) as t(firm_id, response_id)
         ), over as (
             select w.occurrence_id, w.subject_id, k.response_id
               from known k
               join waiting_facts w on w.firm_id = k.firm_id and w.subject_id = k.response_id
              union all
             select w.occurrence_id, w.subject_id, k.response_id
               from known k
               join subjects s on s.firm_id = k.firm_id and s.response_id = k.response_id
               join waiting_facts w on w.firm_id = s.firm_id and w.subject_id = s.subject_id
         )
         delete from waiting_facts w using over
          where w.occurrence_id = over.occurrence_id and w.subject_id = over.subject_id
         returning w.firm_id, over.response_id, w.fact",
    )
    .bind(firm_ids)
    .bind(response_ids)
    .fetch_all(connection)
    .await?;
    Ok(rows.into_iter().map(|(firm, response, Json(fact))| ((firm, response), fact)).collect())
}
