//! `GET /triggers/{trigger}/sample` (ruling 14b).

use std::sync::Arc;

use axum::Json;
use axum::extract::{RawQuery, State};
use domain::delivery::EventPayload;
use domain::subscription::Trigger;
use domain::values::parse_id;
use projector::forms::{self, FormRow};
use url::form_urlencoded;
use vault::DataKeys;

use super::path::PathText;
use super::{Caller, ReadingCaller};
use crate::Service;
use crate::error::Error;
use crate::queries::samples::{self, SampleSource};

/// Shows a sample event of a trigger.
pub(super) async fn show(
    mut reading: ReadingCaller,
    trigger: PathText,
    RawQuery(query): RawQuery,
    State(service): State<Arc<Service>>,
) -> Result<Json<[EventPayload; 1]>, Error> {
    let trigger = offered_trigger(&trigger, &reading.caller)?;
    let form = asked_form(&mut reading, &query.unwrap_or_default()).await?;
    let asked = SampleSource { firm_id: reading.caller.firm_id, trigger, form };
    let newest = asked.newest_submissions(&mut reading.connection).await?;
    let (mut reading, keys) = match &*newest {
        [] => (reading, DataKeys::new()),
        newest => {
            let (reading, keys) =
                reading.without_connection(&service, samples::find_keys(&service, newest)).await?;
            (reading, keys?)
        }
    };
    let now = service.clock.now();
    Ok(Json([asked.build_payload(&mut reading.connection, newest, keys, now).await?]))
}

fn offered_trigger(PathText(key): &PathText, caller: &Caller) -> Result<Trigger, Error> {
    key.as_ref()
        .and_then(|key| key.parse().ok())
        .filter(|trigger: &Trigger| trigger.offered_to(caller.plan))
        .ok_or(Error::NoSuchTrigger)
}

/// The form of `form_id`, if the query has one. The id must be there once and be the firm's (case
/// A19).
async fn asked_form(reading: &mut ReadingCaller, query: &str) -> Result<Option<FormRow>, Error> {
    let pairs = form_urlencoded::parse(query.as_bytes());
    let mut sent = pairs.filter(|(name, _)| name == "form_id").map(|(_, id)| id);
    let form_id = match (sent.next(), sent.next()) {
        (None, _) => return Ok(None),
        (Some(id), None) => parse_id(&id).ok_or(Error::FormNotFound)?,
        (Some(_), Some(_)) => return Err(Error::FormNotFound),
    };
    let form = forms::find(&mut *reading.connection, reading.caller.firm_id, form_id).await?;
    form.map(Some).ok_or(Error::FormNotFound)
}
