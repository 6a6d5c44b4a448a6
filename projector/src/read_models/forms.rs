//! The read model of forms, as the product last reported each form (contract, section Form).

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use domain::event::Event;
use domain::form::{FormEvent, FormStatus, HiddenField, shown_url};
use domain::values::Timestamp;
use eventstore::{AppendError, RecordedEvent, WithAppend};
use futures::future::BoxFuture;
use sqlx::types::Json;
use sqlx::{FromRow, PgConnection, PgExecutor};
use uuid::Uuid;

/// The number of forms that a list shows (contract, section Limits).
pub const LISTED_FORMS_MAX: i64 = 500;

/// The writer of the table `forms`.
pub(crate) struct FormWriter;

impl WithAppend for FormWriter {
    fn apply_appended<'a>(
        &'a self,
        connection: &'a mut PgConnection,
        events: &'a [RecordedEvent],
    ) -> BoxFuture<'a, Result<(), AppendError>> {
        Box::pin(async move {
            let of_forms = events.iter().filter_map(|recorded| match &recorded.event {
                Event::Form(event) => {
                    let form_id = recorded.aggregate_id.parse().ok()?;
                    Some(((recorded.context.firm_id, form_id), event))
                }
                _ => None,
            });
            Ok(write_changes(connection, &fold_changes(of_forms)).await?)
        })
    }
}

/// The changes to one form's row. `None` leaves the column as it is.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct FormUpdate<'a> {
    created: bool,
    deleted: bool,
    title: Option<&'a str>,
    slug: Option<&'a str>,
    url: Option<&'a str>,
    status: Option<FormStatus>,
    hidden_fields: Option<&'a [HiddenField]>,
    created_at: Option<Timestamp>,
}

/// Folds the events, in order, into one change per form of a firm.
fn fold_changes<'a>(
    events: impl Iterator<Item = ((Uuid, Uuid), &'a FormEvent)>,
) -> BTreeMap<(Uuid, Uuid), FormUpdate<'a>> {
    let mut changes: BTreeMap<(Uuid, Uuid), FormUpdate<'_>> = BTreeMap::new();
    for (form, event) in events {
        changes.entry(form).or_default().merge_next(&FormUpdate::new(event));
    }
    changes
}

impl<'a> FormUpdate<'a> {
    fn new(event: &'a FormEvent) -> Self {
        let entered = |status| Self { status: Some(status), ..Self::default() };
        match event {
            FormEvent::FormCreated { details, .. } => Self {
                created: true,
                deleted: false,
                title: Some(&details.title),
                slug: Some(&details.slug),
                url: Some(&details.url),
                status: Some(details.status),
                hidden_fields: Some(&details.hidden_fields),
                created_at: Some(details.created_at),
            },
            FormEvent::FormChanged { edit, .. } => Self {
                title: edit.title.as_deref(),
                slug: edit.slug.as_deref(),
                url: edit.url.as_deref(),
                status: edit.status,
                hidden_fields: edit.hidden_fields.as_deref(),
                created_at: edit.created_at,
                ..Self::default()
            },
            FormEvent::FormPublished { .. } => entered(FormStatus::Published),
            FormEvent::FormUnpublished { .. } => entered(FormStatus::Draft),
            FormEvent::FormDeleted { .. } => Self { deleted: true, ..Self::default() },
        }
    }

    fn merge_next(&mut self, next: &Self) {
        self.created |= next.created;
        self.deleted |= next.deleted;
        self.title = next.title.or(self.title);
        self.slug = next.slug.or(self.slug);
        self.url = next.url.or(self.url);
        self.status = next.status.or(self.status);
        self.hidden_fields = next.hidden_fields.or(self.hidden_fields);
        self.created_at = next.created_at.or(self.created_at);
    }
}

async fn write_changes(
    connection: &mut PgConnection,
    changes: &BTreeMap<(Uuid, Uuid), FormUpdate<'_>>,
) -> Result<(), sqlx::Error> {
    if changes.is_empty() {
        return Ok(());
    }
    let (firm_ids, form_ids): (Vec<Uuid>, Vec<Uuid>) = changes.keys().copied().unzip();
    let of = || changes.values();
    sqlx::query(
        "with t as (
             select * from unnest($1::uuid[], $2::uuid[], $3::bool[], $4::bool[], $5::text[], $6::text[],
                                  $7::text[], $8::text[], $9::jsonb[], $10::timestamptz[])
                  as t(firm_id, form_id, created, deleted, title, slug, url, status, hidden_fields,
                       created_at)
         ), changed as (
             update forms f
                set title = coalesce(t.title, f.title), slug = coalesce(t.slug, f.slug),
                    url = coalesce(t.url, f.url), status = coalesce(t.status, f.status),
                    hidden_fields = coalesce(t.hidden_fields, f.hidden_fields),
                    created_at = coalesce(t.created_at, f.created_at), deleted = f.deleted or t.deleted
               from t where f.firm_id = t.firm_id and f.form_id = t.form_id and not t.created
         )
         insert into forms
                (firm_id, form_id, deleted, title, slug, url, status, hidden_fields, created_at)
         select firm_id, form_id, deleted, title, slug, url, status, hidden_fields, created_at
           from t where created",
    )
    .bind(firm_ids)
    .bind(form_ids)
    .bind(of().map(|change| change.created).collect::<Vec<_>>())
    .bind(of().map(|change| change.deleted).collect::<Vec<_>>())
    .bind(of().map(|change| change.title).collect::<Vec<_>>())
    .bind(of().map(|change| change.slug).collect::<Vec<_>>())
    .bind(of().map(|change| change.url).collect::<Vec<_>>())
    .bind(of().map(|change| change.status.map(FormStatus::name)).collect::<Vec<_>>())
    .bind(of().map(|change| change.hidden_fields.map(Json)).collect::<Vec<_>>())
    .bind(of().map(|change| change.created_at.map(Timestamp::get)).collect::<Vec<_>>())
    .execute(connection)
    .await?;
    Ok(())
}

/// A form as a list shows it.
#[derive(Debug, Clone, PartialEq, FromRow)]
pub struct FormRow {
    /// The firm of the form.
    pub firm_id: Uuid,
    /// The id of the form.
    pub form_id: Uuid,
    /// The title of the form.
    pub title: String,
    /// The short name in the form's address.
    pub slug: String,
    /// The public address of the form, or [`domain::form::UNUSABLE_URL`].
    #[sqlx(try_from = "ReportedUrl")]
    pub url: String,
    /// The status: `draft` or `published`.
    pub status: String,
    /// The hidden fields that the form's link accepts.
    pub hidden_fields: Json<Vec<HiddenField>>,
    /// The time at which the form was made.
    pub created_at: DateTime<Utc>,
}

/// The address in the table. Older builds took any text.
#[derive(sqlx::Type)]
#[sqlx(transparent)]
struct ReportedUrl(String);

impl From<ReportedUrl> for String {
    fn from(ReportedUrl(reported): ReportedUrl) -> Self {
        shown_url(reported)
    }
}

/// Lists the newest forms of a firm, newest first.
pub async fn list(
    executor: impl PgExecutor<'_>,
    firm_id: Uuid,
    limit: i64,
) -> Result<Vec<FormRow>, sqlx::Error> {
    sqlx::query_as(
        "select firm_id, form_id, title, slug, url, status, hidden_fields, created_at from forms
          where firm_id = $1 and not deleted
          order by created_at desc, form_id desc limit $2",
    )
    .bind(firm_id)
    .bind(limit)
    .fetch_all(executor)
    .await
}

/// Returns the ids of all forms of a firm, deleted ones too.
pub async fn all_ids(
    connection: &mut PgConnection,
    firm_id: Uuid,
) -> Result<Vec<Uuid>, sqlx::Error> {
    sqlx::query_scalar("select form_id from forms where firm_id = $1")
        .bind(firm_id)
        .fetch_all(connection)
        .await
}

/// Finds one form of a firm, unless it is deleted.
pub async fn find(
    executor: impl PgExecutor<'_>,
    firm_id: Uuid,
    form_id: Uuid,
) -> Result<Option<FormRow>, sqlx::Error> {
    sqlx::query_as(
        "select firm_id, form_id, title, slug, url, status, hidden_fields, created_at from forms
          where firm_id = $1 and form_id = $2 and not deleted",
    )
    .bind(firm_id)
    .bind(form_id)
    .fetch_optional(executor)
    .await
}

/// Returns the known forms among these, each with its firm. Deleted forms are known.
pub async fn known_forms(
    connection: &mut PgConnection,
    forms: &[(Uuid, Uuid)],
) -> Result<Vec<(Uuid, Uuid)>, sqlx::Error> {
    if forms.is_empty() {
        return Ok(Vec::new());
    }
    let (firm_ids, form_ids): (Vec<Uuid>, Vec<Uuid>) = forms.iter().copied().unzip();
    sqlx::query_as(
        "select firm_id, form_id from forms
          where (firm_id, form_id) in (select * from unnest($1::uuid[], $2::uuid[]))",
    )
    .bind(firm_ids)
    .bind(form_ids)
    .fetch_all(connection)
    .await
}

/// Finds these forms for deliveries and samples. Deleted forms are included.
pub async fn find_all(
    connection: &mut PgConnection,
    forms: &[(Uuid, Uuid)],
) -> Result<Vec<FormRow>, sqlx::Error> {
    let (firm_ids, form_ids): (Vec<Uuid>, Vec<Uuid>) = forms.iter().copied().unzip();
    sqlx::query_as(
        "select firm_id, form_id, title, slug, url, status, hidden_fields, created_at from forms
          where (firm_id, form_id) in (select * from unnest($1::uuid[], $2::uuid[]))",
    )
    .bind(firm_ids)
    .bind(form_ids)
    .fetch_all(connection)
    .await
}

/// A form, and whether its firm's data are dropped.
#[derive(Debug, Clone, FromRow)]
pub struct NamedForm {
    /// The form.
    #[sqlx(flatten)]
    pub form: FormRow,
    /// Tells whether the firm was closed and its data are dropped.
    pub is_dropped: bool,
}

/// Returns the known forms among these, deleted ones too, each with the state of its firm.
pub async fn find_named(
    connection: &mut PgConnection,
    forms: &[(Uuid, Uuid)],
) -> Result<Vec<NamedForm>, sqlx::Error> {
    let (firm_ids, form_ids): (Vec<Uuid>, Vec<Uuid>) = forms.iter().copied().unzip();
    sqlx::query_as(
        "select m.firm_id, m.form_id, m.title, m.slug, m.url, m.status, m.hidden_fields,
                m.created_at, f.dropped_at is not null as is_dropped
           from forms m join firms f on f.firm_id = m.firm_id
          where (m.firm_id, m.form_id) in (select * from unnest($1::uuid[], $2::uuid[]))",
    )
    .bind(firm_ids)
    .bind(form_ids)
    .fetch_all(connection)
    .await
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::form::{FormDetails, FormEdit};

    const FORM: (Uuid, Uuid) = (Uuid::from_u128(1), Uuid::from_u128(2));

    fn time() -> Timestamp {
        "2026-11-01T00:00:00.000Z".parse().unwrap()
    }

    fn titled(title: &str) -> FormEvent {
        let edit = FormEdit { title: Some(title.into()), ..FormEdit::default() };
        FormEvent::FormChanged { edit, time: time() }
    }

    fn folded(events: &[FormEvent]) -> FormUpdate<'_> {
        fold_changes(events.iter().map(|event| (FORM, event)))[&FORM]
    }

    #[test]
    fn a_forms_whole_life_is_one_row() {
        let details = FormDetails {
            title: "A".into(),
            slug: "a".into(),
            url: "https://forms.test/a".into(),
            status: FormStatus::Draft,
            hidden_fields: vec![],
            created_at: time(),
        };
        let created = FormEvent::FormCreated { firm_id: FORM.0, details, time: time() };
        let published = FormEvent::FormPublished { time: time() };
        let deleted = FormEvent::FormDeleted { time: time() };
        let expected = FormUpdate {
            created: true,
            deleted: true,
            title: Some("B"),
            slug: Some("a"),
            url: Some("https://forms.test/a"),
            status: Some(FormStatus::Published),
            hidden_fields: Some(&[]),
            created_at: Some(time()),
        };
        assert_eq!(folded(&[created, published, titled("B"), deleted]), expected);
    }

    /// A detail that no event names stays.
    #[test]
    fn a_forms_last_word_counts() {
        let back = FormEvent::FormUnpublished { time: time() };
        let expected = FormUpdate {
            title: Some("B"),
            status: Some(FormStatus::Draft),
            ..FormUpdate::default()
        };
        assert_eq!(folded(&[titled("A"), back, titled("B")]), expected);
    }
}
