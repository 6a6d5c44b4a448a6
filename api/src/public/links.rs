//! `POST /forms/{id}/links`.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use domain::form::{FormStatus, PrefilledLink as Built};
use domain::values::Lang;
use projector::forms::{self, FormRow};
use serde::Serialize;
use uuid::Uuid;

use super::Caller;
use super::hidden::{take_hidden, take_lang};
use super::path::PathId;
use crate::Service;
use crate::body::{BodyFields, OptionalJsonBody};
use crate::error::Error;

/// The contract's PrefilledLink.
#[derive(Debug, Serialize)]
pub(super) struct PrefilledLinkBody {
    url: String,
    form_id: Uuid,
    published: bool,
    hidden: BTreeMap<String, String>,
    ignored: Vec<String>,
}

/// A requested link.
#[derive(Debug, PartialEq, Eq)]
struct NewLink {
    hidden: BTreeMap<String, String>,
    lang: Option<Lang>,
}

/// Builds a prefilled link, and stores nothing.
pub(super) async fn create(
    caller: Caller,
    id: PathId,
    State(service): State<Arc<Service>>,
    OptionalJsonBody(body): OptionalJsonBody,
) -> Result<(StatusCode, Json<PrefilledLinkBody>), Error> {
    let new = parse_link(body)?;
    let form_id = id.id_or(Error::FormNotFound)?;
    let form = forms::find(service.store.pool(), caller.firm_id, form_id).await?;
    let link = new.link_to(&form.ok_or(Error::FormNotFound)?);
    Ok((StatusCode::CREATED, Json(link)))
}

fn parse_link(mut body: BodyFields) -> Result<NewLink, Error> {
    let new = NewLink { hidden: take_hidden(&mut body)?, lang: take_lang(&mut body)? };
    body.refuse_unknown()?;
    Ok(new)
}

impl NewLink {
    fn link_to(self, form: &FormRow) -> PrefilledLinkBody {
        let Built { url, hidden, ignored } =
            Built::build(&form.url, &form.hidden_fields.0, self.hidden, self.lang);
        let published = form.status == FormStatus::Published.name();
        PrefilledLinkBody { url, form_id: form.form_id, published, hidden, ignored }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::body::json::parse_object;

    #[test]
    fn a4_other_properties_are_refused() {
        let read = |json: &str| parse_link(parse_object(json.as_bytes()).unwrap());
        let nothing = NewLink { hidden: BTreeMap::new(), lang: None };
        assert_eq!(read("{}"), Ok(nothing));
        for json in [r#"{"x":1}"#, r#"{"lang":"en","email":"a@b.c"}"#] {
            assert!(matches!(read(json), Err(Error::InvalidRequest(_))), "{json}");
        }
    }
}
