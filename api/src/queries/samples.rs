//! Samples: an occurrence in the shape of a delivery, from the latest readable submission or made
//! up (ruling 14b).

use std::time::Duration;

use domain::delivery::{EventPayload, FormPart};
use domain::subscription::Trigger;
use domain::values::Timestamp;
use projector::forms::{self, FormRow};
use projector::subjects::{self, SubjectId};
use sqlx::PgConnection;
use tokio::time::timeout;
use uuid::Uuid;
use vault::responses::{self, StoredResponse};
use vault::{DataKeys, KeySubject, bookings, reports};

use crate::Service;
use crate::error::Error;
use crate::sample::{self, LatestSubmission};

/// Number of the newest submissions among which a readable one is searched.
const CANDIDATES_MAX: i64 = 100;

/// Longest wait for the keyring.
const KEYRING_WAIT_MAX: Duration = Duration::from_secs(2);

/// A wanted sample.
#[derive(Debug, Clone)]
pub(crate) struct SampleSource {
    /// The firm.
    pub(crate) firm_id: Uuid,
    /// The trigger.
    pub(crate) trigger: Trigger,
    /// The form of the submission, or `None` for any form of the firm.
    pub(crate) form: Option<FormRow>,
}

impl SampleSource {
    /// The newest submissions of the firm or of the form.
    pub(crate) async fn newest_submissions(
        &self,
        connection: &mut PgConnection,
    ) -> Result<Vec<KeySubject>, Error> {
        let form_id = self.form.as_ref().map(|form| form.form_id);
        let newest =
            responses::latest_submissions(connection, self.firm_id, form_id, CANDIDATES_MAX);
        Ok(newest.await?)
    }

    /// The sample, from one of these submissions if one can be read.
    pub(crate) async fn build_payload(
        self,
        connection: &mut PgConnection,
        newest: Vec<KeySubject>,
        keys: DataKeys,
        now: Timestamp,
    ) -> Result<EventPayload, Error> {
        if let Some(latest) = self.latest_readable(connection, newest, keys).await? {
            return Ok(sample::of_submission(self.trigger, &latest));
        }
        let form = match self.form {
            Some(form) => Some(form),
            // A made-up event also names a form of the firm, if there is one.
            None => forms::list(&mut *connection, self.firm_id, 1).await?.pop(),
        };
        Ok(sample::made_up(self.trigger, form.map(form_part), now))
    }

    /// The latest readable submission. An erased one has lost its key.
    async fn latest_readable(
        &self,
        connection: &mut PgConnection,
        newest: Vec<KeySubject>,
        mut keys: DataKeys,
    ) -> Result<Option<LatestSubmission>, Error> {
        let erased = find_erased(connection, &newest).await?;
        keys.retain(|subject, _| !erased.contains(&(subject.firm_id, subject.subject_id)));
        let Some(latest) = newest.into_iter().find(|subject| keys.contains_key(subject)) else {
            return Ok(None);
        };
        keys.retain(|subject, _| *subject == latest);
        let Some(response) = responses::read(connection, &keys).await?.pop() else {
            return Ok(None);
        };
        let of_form = [(self.firm_id, response.form_id)];
        let form = forms::find_all(connection, &of_form).await?.pop();
        let report = reports::read(connection, &keys, &[latest]).await?.pop();
        let booking = bookings::read(connection, &keys, &[latest]).await?.pop();
        Ok(form.map(|form| LatestSubmission {
            report: report.map(|report| report.document),
            booking: booking.map(|booking| booking.document),
            ..latest_submission(form, response)
        }))
    }
}

/// Keys of submissions that are not erased, if the keyring answers in time.
pub(crate) async fn find_keys(service: &Service, newest: &[KeySubject]) -> Result<DataKeys, Error> {
    let keys = timeout(KEYRING_WAIT_MAX, service.keyring.find_keys(newest)).await;
    Ok(keys.map_err(|_| Error::Unavailable("the keyring does not answer".to_owned()))??)
}

/// Submissions whose erasure is under way.
async fn find_erased(
    connection: &mut PgConnection,
    newest: &[KeySubject],
) -> Result<Vec<SubjectId>, Error> {
    let responses: Vec<_> = newest.iter().map(KeySubject::ids).collect();
    Ok(subjects::erased_among(connection, &responses).await?)
}

fn latest_submission(form: FormRow, response: StoredResponse) -> LatestSubmission {
    LatestSubmission {
        form: form_part(form),
        response_id: response.response_id,
        submitted_at: response.submitted_at.unwrap_or(response.saved_at).into(),
        document: response.document,
        report: None,
        booking: None,
    }
}

fn form_part(form: FormRow) -> FormPart {
    FormPart { id: form.form_id.into(), title: form.title, url: form.url }
}
