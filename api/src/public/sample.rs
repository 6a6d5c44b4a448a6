//! `GET /triggers/{trigger}/sample` (ruling 14b).

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::{RawQuery, State};
use domain::ids::parse_id;
use domain::payload::{EventPayload, FormPart};
use domain::sample::{self, LatestSubmission};
use domain::trigger::Trigger;
use projector::forms::{self, FormRow};
use projector::subjects::{self, SubjectId};
use sqlx::PgConnection;
use tokio::time::timeout;
use url::form_urlencoded;
use vault::responses::{self, StoredResponse};
use vault::{DataKeys, KeySubject, bookings, reports};

use super::path::PathText;
use super::{Caller, ReadingCaller};
use crate::Service;
use crate::error::Error;

/// Number of the newest submissions among which a readable one is searched.
const CANDIDATES_MAX: i64 = 100;

/// Longest wait for the keyring.
const KEYRING_WAIT_MAX: Duration = Duration::from_secs(2);

/// Shows a sample event of a trigger.
pub(super) async fn show(
    mut reading: ReadingCaller,
    trigger: PathText,
    RawQuery(query): RawQuery,
    State(service): State<Arc<Service>>,
) -> Result<Json<[EventPayload; 1]>, Error> {
    let trigger = offered(&trigger, &reading.caller)?;
    let form = asked_form(&mut reading, &query.unwrap_or_default()).await?;
    let newest = newest(&mut reading, form.as_ref()).await?;
    let (mut reading, keys) = match &*newest {
        [] => (reading, DataKeys::new()),
        newest => {
            let (reading, keys) = reading.without(&service, keys(&service, newest)).await?;
            (reading, keys?)
        }
    };
    let payload = match latest(&mut reading, newest, keys).await? {
        Some(latest) => sample::of_submission(trigger, &latest),
        None => {
            let form = match form {
                Some(form) => Some(form),
                None => newest_form(&mut reading).await?,
            };
            sample::made_up(trigger, form.map(part), service.clock.now())
        }
    };
    Ok(Json([payload]))
}

fn offered(PathText(key): &PathText, caller: &Caller) -> Result<Trigger, Error> {
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

/// The newest form. A made-up event also names a form of the firm, if there is one.
async fn newest_form(reading: &mut ReadingCaller) -> Result<Option<FormRow>, Error> {
    Ok(forms::list(&mut *reading.connection, reading.caller.firm_id, 1).await?.pop())
}

/// The newest submissions of the firm or of a form.
async fn newest(
    reading: &mut ReadingCaller,
    form: Option<&FormRow>,
) -> Result<Vec<KeySubject>, Error> {
    let firm_id = reading.caller.firm_id;
    let form_id = form.map(|form| form.form_id);
    let connection = &mut *reading.connection;
    Ok(responses::latest_submissions(connection, firm_id, form_id, CANDIDATES_MAX).await?)
}

/// Keys of submissions that are not erased, if the keyring answers in time.
async fn keys(service: &Service, newest: &[KeySubject]) -> Result<DataKeys, Error> {
    let keys = timeout(KEYRING_WAIT_MAX, service.keyring.find(newest)).await;
    Ok(keys.map_err(|_| Error::Unavailable("the keyring does not answer".to_owned()))??)
}

/// The latest readable submission. An erased one has lost its key.
async fn latest(
    reading: &mut ReadingCaller,
    newest: Vec<KeySubject>,
    mut keys: DataKeys,
) -> Result<Option<LatestSubmission>, Error> {
    let firm_id = reading.caller.firm_id;
    let connection = &mut *reading.connection;
    let erased = erased(connection, &newest).await?;
    keys.retain(|subject, _| !erased.contains(&(subject.firm_id, subject.subject_id)));
    let Some(latest) = newest.into_iter().find(|subject| keys.contains_key(subject)) else {
        return Ok(None);
    };
    keys.retain(|subject, _| *subject == latest);
    let Some(response) = responses::read(connection, &keys).await?.pop() else {
        return Ok(None);
    };
    let form = forms::find_all(connection, &[(firm_id, response.form_id)]).await?.pop();
    let report = reports::read(connection, &keys, &[latest]).await?.pop();
    let booking = bookings::read(connection, &keys, &[latest]).await?.pop();
    Ok(form.map(|form| LatestSubmission {
        report: report.map(|report| report.document),
        booking: booking.map(|booking| booking.document),
        ..of(form, response)
    }))
}

/// Submissions whose erasure is under way.
async fn erased(
    connection: &mut PgConnection,
    newest: &[KeySubject],
) -> Result<Vec<SubjectId>, Error> {
    let responses: Vec<_> = newest.iter().map(|one| (one.firm_id, one.subject_id)).collect();
    Ok(subjects::erased(connection, &responses).await?)
}

fn of(form: FormRow, response: StoredResponse) -> LatestSubmission {
    LatestSubmission {
        form: part(form),
        response_id: response.response_id,
        submitted_at: response.submitted_at.unwrap_or(response.saved_at).into(),
        document: response.document,
        report: None,
        booking: None,
    }
}

fn part(form: FormRow) -> FormPart {
    FormPart { id: form.form_id.into(), title: form.title, url: form.url }
}
