//! Responses as a batch reports them: what is put into the vault, and what is recorded of a
//! submission. A batch may speak of a response several times; the vault takes it once.

use domain::activity::ResponseReport;
use domain::context::EventContext;
use domain::occurrence::{Happening, OccurrenceEvent, occurrence_id};
use domain::time::Timestamp;
use domain::trigger::Trigger;
use eventstore::NewEvent;
use uuid::Uuid;
use vault::responses::StoredResponse;

/// A response as the batch leaves it.
#[derive(Debug, PartialEq)]
pub(super) struct ReportedResponse {
    /// Its last state.
    pub(super) response: StoredResponse,
    /// The places of the reports that led there: duplicates, if it turns out to be no news.
    pub(super) reports: Vec<usize>,
    /// The event that records its submission.
    pub(super) submission: Option<Uuid>,
}

impl ReportedResponse {
    pub(super) fn new(
        (firm_id, form_id): (Uuid, Uuid),
        report: &ResponseReport,
        (submitted_at, place): (Option<Timestamp>, usize),
    ) -> Self {
        let response = StoredResponse {
            firm_id,
            response_id: report.response_id,
            form_id,
            saved_at: report.at.get(),
            submitted_at: submitted_at.map(Timestamp::get),
            document: report.document.clone(),
        };
        Self { response, reports: vec![place], submission: None }
    }

    /// Takes in the next report of the same response; nothing, if that is no news.
    ///
    /// The vault's own rule, within a batch: a submission is final, a save gives way to a later one.
    pub(super) fn followed_by(&mut self, next: Self) -> Option<&mut Self> {
        let (old, new) = (&self.response, &next.response);
        let news = old.submitted_at.is_none()
            && (new.submitted_at.is_some() || new.saved_at > old.saved_at);
        if !news {
            return None;
        }
        self.response = next.response;
        self.reports.extend(next.reports);
        Some(self)
    }
}

/// Records the one submission of a response; whether it is the first, the log will tell.
pub(super) fn submission(
    context: &EventContext,
    response: &StoredResponse,
    at: Timestamp,
) -> NewEvent {
    let StoredResponse { firm_id, form_id, response_id, .. } = *response;
    let trigger = Trigger::FormSubmitted;
    let id = occurrence_id(firm_id, trigger, &response_id.to_string());
    let happening = Happening {
        trigger,
        form_id,
        response_id,
        report_id: None,
        booking_id: None,
        hooks: Vec::new(),
        seen: 0,
        silent: false,
        happened_at: at,
    };
    NewEvent {
        aggregate_id: id.to_string(),
        sequence: 1,
        event: OccurrenceEvent::OccurrenceRecorded(happening).into(),
        context: EventContext { firm_id, ..context.clone() },
    }
}
