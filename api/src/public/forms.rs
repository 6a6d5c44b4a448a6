//! `GET /forms` and `GET /forms/{id}`.

use axum::Json;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, VARY};
use axum::http::{HeaderMap, HeaderValue};
use axum::response::Response;
use domain::form::HiddenField;
use domain::values::Timestamp;
use projector::forms::{self, FormRow, LISTED_FORMS_MAX};
use serde::Serialize;
use uuid::Uuid;

use super::ReadingCaller;
use super::path::PathId;
use crate::conditional::EntityTag;
use crate::error::Error;

/// The contract's Form.
#[derive(Debug, Serialize)]
pub(super) struct FormBody {
    id: Uuid,
    title: String,
    status: String,
    created_at: Timestamp,
    slug: String,
    url: String,
    hidden_fields: Vec<HiddenField>,
}

/// Lists the firm's newest forms. A caller that polls names the list that it has, and gets 304
/// until the list changes.
pub(super) async fn list(mut reading: ReadingCaller, asked: HeaderMap) -> Result<Response, Error> {
    let rows =
        forms::list(&mut *reading.connection, reading.caller.firm_id, LISTED_FORMS_MAX).await?;
    let forms: Vec<FormBody> = rows.into_iter().map(FormBody::from).collect();
    let json = serde_json::to_vec(&forms).map_err(|error| Error::Internal(error.to_string()))?;
    let headers = [
        (CONTENT_TYPE, "application/json"),
        // The caller's own cache may keep the list, and must ask each time.
        (CACHE_CONTROL, "private, no-cache"),
        (VARY, "authorization, x-api-key, accept-encoding"),
    ];
    let headers = headers.map(|(name, value)| (name, HeaderValue::from_static(value)));
    Ok(EntityTag::new(&json).answer_conditional(&asked, headers.into_iter().collect(), json.into()))
}

/// Shows one of the firm's forms.
pub(super) async fn show(mut reading: ReadingCaller, id: PathId) -> Result<Json<FormBody>, Error> {
    let form_id = id.id_or(Error::FormNotFound)?;
    let row = forms::find(&mut *reading.connection, reading.caller.firm_id, form_id).await?;
    Ok(Json(row.ok_or(Error::FormNotFound)?.into()))
}

impl From<FormRow> for FormBody {
    fn from(row: FormRow) -> Self {
        Self {
            id: row.form_id,
            title: row.title,
            status: row.status,
            created_at: row.created_at.into(),
            slug: row.slug,
            url: row.url,
            hidden_fields: row.hidden_fields.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sqlx::types::Json as Column;

    #[test]
    fn a_form_is_the_contracts() {
        let row = FormRow {
            firm_id: Uuid::from_u128(1),
            form_id: Uuid::from_u128(0xABCD),
            title: "Intake".into(),
            slug: "intake".into(),
            url: "https://forms.example/f/intake".into(),
            status: "draft".into(),
            hidden_fields: Column(vec![HiddenField { key: "ref".into(), label: "Ref".into() }]),
            created_at: "2026-11-01T10:00:00Z".parse::<Timestamp>().unwrap().get(),
        };
        assert_eq!(
            serde_json::to_string(&FormBody::from(row)).unwrap(),
            concat!(
                r#"{"id":"00000000-0000-0000-0000-00000000abcd","title":"Intake","#,
                r#""status":"draft","created_at":"2026-11-01T10:00:00.000Z","slug":"intake","#,
                r#""url":"https://forms.example/f/intake","#,
                r#""hidden_fields":[{"key":"ref","label":"Ref"}]}"#,
            )
        );
    }
}
