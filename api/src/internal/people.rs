//! `/internal/v1/firms/{firm}/people`: everything that was sent about a person. The body names the
//! address, so that no log of URLs keeps it.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Request, State};
use domain::operations::{ReadAs, ReadingDetails, ReadingSubject};

use super::caller::Reader;
use super::path::PathFirm;
use crate::body::{self, BodyLimit, json};
use crate::commands::{parse_reason, readings};
use crate::error::Error;
use crate::queries::people::{self, PersonTrail};
use crate::service::Service;

/// Shows everything that was sent about a person, for a reason.
pub(super) async fn show(
    reader: Reader,
    PathFirm(firm_id): PathFirm,
    State(service): State<Arc<Service>>,
    request: Request,
) -> Result<Json<PersonTrail>, Error> {
    let (parts, body) = request.into_parts();
    let mut fields =
        json::parse_object(&body::read_bytes(&parts.headers, body, BodyLimit::PUBLIC).await?)?;
    let address = fields.string("address")?;
    let why = parse_reason(&fields.string("reason")?)?;
    fields.refuse_unknown()?;
    let person_id = people::person_id(&service, firm_id, &address);
    let look = ReadingDetails {
        person_id: Some(person_id),
        reason: Some(why),
        ..ReadingDetails::at(ReadingSubject::Person, ReadAs::Page)
    };
    readings::record(&service, firm_id, reader.actor(), look).await?;
    Ok(Json(people::trail(&service, firm_id, person_id).await?))
}
