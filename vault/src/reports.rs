//! Reports on responses, as the product last reported them (contract, section EventPayload).

use std::collections::HashMap;

use chrono::{DateTime, Utc};
use domain::activity::ReportDocument;
use sqlx::{FromRow, PgConnection};
use uuid::Uuid;

use crate::entropy::Entropy;
use crate::error::{VaultError, unless_broken};
use crate::keyring::{DataKeys, KeySubject};
use crate::parts::PartEffects;
use crate::seal::BrokenSeal;

const PURPOSE: &[u8] = b"report";

/// The status of a report from its approval until the product reports another.
const APPROVED_STATUS: &str = "approved";

/// A report as the product reported it.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredReport {
    /// The response that the report is about. The response's data key encrypts the report.
    pub subject: KeySubject,
    /// When the product saw this state, by its clock.
    pub reported_at: DateTime<Utc>,
    /// The report's document.
    pub document: ReportDocument,
}

impl StoredReport {
    /// The firm's id and the report's id.
    #[must_use]
    pub fn id(&self) -> (Uuid, Uuid) {
        (self.subject.firm_id, self.document.id.into())
    }
}

/// Stores reports. The newest state of a report wins; of two states with one time, the later to
/// arrive. An equal state changes nothing. `reports` holds a report at most once.
pub async fn put(
    connection: &mut PgConnection,
    keys: &DataKeys,
    reports: &[StoredReport],
    entropy: &dyn Entropy,
) -> Result<PartEffects, VaultError> {
    if reports.is_empty() {
        return Ok(PartEffects::default());
    }
    let known = known_reports(connection, keys, reports).await?;
    let is_stale = |report: &&StoredReport| {
        known.get(&report.id()).is_some_and(|known| known.reported_at > report.reported_at)
    };
    let stale = reports.iter().filter(is_stale).map(StoredReport::id).collect();
    let is_news = |report: &&StoredReport| {
        let document = known.get(&report.id()).map(|known| &known.document);
        document.is_none_or(|known| known.as_ref() != Some(&report.document))
    };
    let reports: Vec<&StoredReport> = reports.iter().filter(is_news).collect();
    let mut sealed = Vec::with_capacity(reports.len());
    for report in &reports {
        let bytes = serde_json::to_vec(&report.document)?;
        sealed.push(
            keys.get(&report.subject).ok_or(BrokenSeal)?.seal_text(PURPOSE, &bytes, entropy)?,
        );
    }
    let changed = sqlx::query_as(
        "insert into reports as r (firm_id, report_id, response_id, reported_at, document)
         select * from unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::timestamptz[], $5::bytea[])
             on conflict (firm_id, report_id) do update
            set response_id = excluded.response_id, reported_at = excluded.reported_at,
                document = excluded.document
          where r.reported_at is null or excluded.reported_at >= r.reported_at
         returning firm_id, report_id",
    )
    .bind(reports.iter().map(|r| r.subject.firm_id).collect::<Vec<_>>())
    .bind(reports.iter().map(|r| Uuid::from(r.document.id)).collect::<Vec<_>>())
    .bind(reports.iter().map(|r| r.subject.subject_id).collect::<Vec<_>>())
    .bind(reports.iter().map(|r| r.reported_at).collect::<Vec<_>>())
    .bind(sealed)
    .fetch_all(connection)
    .await?;
    Ok(PartEffects { changed, stale })
}

/// Stores when reports were last approved, by firm and report id. An approval may arrive before the
/// report itself.
pub async fn approve(
    connection: &mut PgConnection,
    approved: &[(Uuid, Uuid, DateTime<Utc>)],
) -> Result<(), sqlx::Error> {
    if approved.is_empty() {
        return Ok(());
    }
    sqlx::query(
        "insert into reports as r (firm_id, report_id, approved_at)
         select distinct on (firm_id, report_id) *
           from unnest($1::uuid[], $2::uuid[], $3::timestamptz[]) as t(firm_id, report_id, at)
          order by firm_id, report_id, at desc
             on conflict (firm_id, report_id) do update
            set approved_at = greatest(r.approved_at, excluded.approved_at)",
    )
    .bind(approved.iter().map(|(firm, ..)| *firm).collect::<Vec<_>>())
    .bind(approved.iter().map(|(_, report, _)| *report).collect::<Vec<_>>())
    .bind(approved.iter().map(|(.., at)| *at).collect::<Vec<_>>())
    .execute(connection)
    .await?;
    Ok(())
}

#[derive(FromRow)]
struct ReportRow {
    firm_id: Uuid,
    report_id: Uuid,
    response_id: Uuid,
    reported_at: DateTime<Utc>,
    document: Vec<u8>,
    approved_at: Option<DateTime<Utc>>,
}

/// The reports on these responses, oldest state first. Leaves out a damaged report.
pub async fn read(
    connection: &mut PgConnection,
    keys: &DataKeys,
    subjects: &[KeySubject],
) -> Result<Vec<StoredReport>, sqlx::Error> {
    if subjects.is_empty() {
        return Ok(Vec::new());
    }
    let (firm_ids, response_ids): (Vec<Uuid>, Vec<Uuid>) =
        subjects.iter().map(|subject| (subject.firm_id, subject.subject_id)).unzip();
    let rows: Vec<ReportRow> = sqlx::query_as(
        "select firm_id, report_id, response_id, reported_at, document, approved_at from reports
          where (firm_id, response_id) in (select * from unnest($1::uuid[], $2::uuid[]))
            and document is not null
          order by reported_at, report_id",
    )
    .bind(firm_ids)
    .bind(response_ids)
    .fetch_all(connection)
    .await?;
    Ok(rows.iter().filter_map(|row| unless_broken(open_report(row, keys), row.report_id)).collect())
}

/// A stored report that is as new as a report of the same thing, or newer.
struct KnownReport {
    reported_at: DateTime<Utc>,
    /// `None` if the document is damaged.
    document: Option<ReportDocument>,
}

/// The stored reports that are as new as one of `reports`, or newer.
async fn known_reports(
    connection: &mut PgConnection,
    keys: &DataKeys,
    reports: &[StoredReport],
) -> Result<HashMap<(Uuid, Uuid), KnownReport>, VaultError> {
    let rows: Vec<ReportRow> = sqlx::query_as(
        "select r.firm_id, r.report_id, r.response_id, r.reported_at, r.document, r.approved_at
           from unnest($1::uuid[], $2::uuid[], $3::timestamptz[]) t(firm_id, report_id, at)
           join reports r on r.firm_id = t.firm_id and r.report_id = t.report_id
            and r.reported_at >= t.at
          where r.document is not null",
    )
    .bind(reports.iter().map(|r| r.subject.firm_id).collect::<Vec<_>>())
    .bind(reports.iter().map(|r| Uuid::from(r.document.id)).collect::<Vec<_>>())
    .bind(reports.iter().map(|r| r.reported_at).collect::<Vec<_>>())
    .fetch_all(connection)
    .await?;
    let known = |row: ReportRow| {
        let report = KnownReport {
            reported_at: row.reported_at,
            document: reported_document(&row, keys).ok(),
        };
        ((row.firm_id, row.report_id), report)
    };
    Ok(rows.into_iter().map(known).collect())
}

/// The document as the product reported it, without a later approval.
fn reported_document(row: &ReportRow, keys: &DataKeys) -> Result<ReportDocument, VaultError> {
    let subject = KeySubject { firm_id: row.firm_id, subject_id: row.response_id };
    let bytes = keys.get(&subject).ok_or(BrokenSeal)?.open_text(PURPOSE, &row.document)?;
    Ok(serde_json::from_slice(&bytes)?)
}

fn open_report(row: &ReportRow, keys: &DataKeys) -> Result<StoredReport, VaultError> {
    let subject = KeySubject { firm_id: row.firm_id, subject_id: row.response_id };
    let mut document = reported_document(row, keys)?;
    if row.approved_at.is_some_and(|at| at >= row.reported_at) {
        APPROVED_STATUS.clone_into(&mut document.status);
    }
    Ok(StoredReport { subject, reported_at: row.reported_at, document })
}
