//! Forms, as last reported (contract, section Form).

use chrono::{DateTime, Utc};
use domain::event::Event;
use domain::form::{FormDetails, FormEdit, FormEvent, FormStatus, HiddenField};
use eventstore::{AppendError, RecordedEvent, WithAppend};
use futures::future::BoxFuture;
use sqlx::types::Json;
use sqlx::{FromRow, PgConnection, PgPool};
use uuid::Uuid;

/// The newest forms that are listed (contract, section Limits).
pub const LISTED: i64 = 500;

/// The writer.
pub(crate) struct Forms;

impl WithAppend for Forms {
    fn after<'a>(
        &'a self,
        connection: &'a mut PgConnection,
        events: &'a [RecordedEvent],
    ) -> BoxFuture<'a, Result<(), AppendError>> {
        Box::pin(async move {
            for recorded in events {
                if let (Event::Form(event), Ok(form_id)) =
                    (&recorded.event, recorded.aggregate_id.parse())
                {
                    apply(connection, (recorded.context.firm_id, form_id), event).await?;
                }
            }
            Ok(())
        })
    }
}

async fn apply(
    connection: &mut PgConnection,
    form: (Uuid, Uuid),
    event: &FormEvent,
) -> Result<(), sqlx::Error> {
    let status = |status| FormEdit { status: Some(status), ..FormEdit::default() };
    match event {
        FormEvent::FormCreated { details, .. } => create(connection, form, details).await,
        FormEvent::FormChanged { edit, .. } => change(connection, form, edit).await,
        FormEvent::FormPublished { .. } => {
            change(connection, form, &status(FormStatus::Published)).await
        }
        FormEvent::FormUnpublished { .. } => {
            change(connection, form, &status(FormStatus::Draft)).await
        }
        FormEvent::FormDeleted { .. } => delete(connection, form).await,
    }
}

async fn create(
    connection: &mut PgConnection,
    (firm_id, form_id): (Uuid, Uuid),
    details: &FormDetails,
) -> Result<(), sqlx::Error> {
    sqlx::query(
        "insert into forms (firm_id, form_id, title, slug, url, status, hidden_fields, created_at)
         values ($1, $2, $3, $4, $5, $6, $7, $8)",
    )
    .bind(firm_id)
    .bind(form_id)
    .bind(&details.title)
    .bind(&details.slug)
    .bind(&details.url)
    .bind(details.status.name())
    .bind(Json(&details.hidden_fields))
    .bind(details.created_at.get())
    .execute(connection)
    .await?;
    Ok(())
}

async fn change(
    connection: &mut PgConnection,
    (firm_id, form_id): (Uuid, Uuid),
    edit: &FormEdit,
) -> Result<(), sqlx::Error> {
    sqlx::query(
        "update forms set title = coalesce($3, title), slug = coalesce($4, slug),
                url = coalesce($5, url), status = coalesce($6, status),
                hidden_fields = coalesce($7, hidden_fields), created_at = coalesce($8, created_at)
          where firm_id = $1 and form_id = $2",
    )
    .bind(firm_id)
    .bind(form_id)
    .bind(&edit.title)
    .bind(&edit.slug)
    .bind(&edit.url)
    .bind(edit.status.map(FormStatus::name))
    .bind(edit.hidden_fields.as_ref().map(Json))
    .bind(edit.created_at.map(domain::time::Timestamp::get))
    .execute(connection)
    .await?;
    Ok(())
}

async fn delete(
    connection: &mut PgConnection,
    (firm_id, form_id): (Uuid, Uuid),
) -> Result<(), sqlx::Error> {
    sqlx::query("update forms set deleted = true where firm_id = $1 and form_id = $2")
        .bind(firm_id)
        .bind(form_id)
        .execute(connection)
        .await?;
    Ok(())
}

/// A form as it is read.
#[derive(Debug, Clone, PartialEq, FromRow)]
pub struct FormRow {
    /// Its firm.
    pub firm_id: Uuid,
    /// Its id.
    pub form_id: Uuid,
    /// Its title.
    pub title: String,
    /// Its short name in the address.
    pub slug: String,
    /// Its public address.
    pub url: String,
    /// `draft` or `published`.
    pub status: String,
    /// The hidden fields its link accepts.
    pub hidden_fields: Json<Vec<HiddenField>>,
    /// When it was made.
    pub created_at: DateTime<Utc>,
}

/// The newest forms of a firm, newest first.
///
/// # Errors
/// If the database does not answer.
pub async fn list(pool: &PgPool, firm_id: Uuid, limit: i64) -> Result<Vec<FormRow>, sqlx::Error> {
    sqlx::query_as(
        "select firm_id, form_id, title, slug, url, status, hidden_fields, created_at from forms
          where firm_id = $1 and not deleted
          order by created_at desc, form_id desc limit $2",
    )
    .bind(firm_id)
    .bind(limit)
    .fetch_all(pool)
    .await
}

/// One form of a firm, unless it is deleted.
///
/// # Errors
/// If the database does not answer.
pub async fn find(
    pool: &PgPool,
    firm_id: Uuid,
    form_id: Uuid,
) -> Result<Option<FormRow>, sqlx::Error> {
    sqlx::query_as(
        "select firm_id, form_id, title, slug, url, status, hidden_fields, created_at from forms
          where firm_id = $1 and form_id = $2 and not deleted",
    )
    .bind(firm_id)
    .bind(form_id)
    .fetch_optional(pool)
    .await
}

/// Those of these forms (of a firm) that are known, deleted ones too.
///
/// # Errors
/// If the database does not answer.
pub async fn known(
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

/// These forms, deleted ones too: what deliveries under way are about.
///
/// # Errors
/// If the database does not answer.
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
