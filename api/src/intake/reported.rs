//! Responses as a batch reports them. A batch may report a response several times; the vault gets
//! the response once, and the log gets one submission.

use domain::activity::{Happening, OccurrenceEvent, ResponseReport, occurrence_id};
use domain::event::EventContext;
use domain::subscription::Trigger;
use domain::values::Timestamp;
use eventstore::NewEvent;
use uuid::Uuid;
use vault::responses::StoredResponse;

/// A response in its last state within the batch.
#[derive(Debug, PartialEq)]
pub(super) struct ReportedResponse {
    /// Last state.
    pub(super) response: StoredResponse,
    /// Places of the activities that led there. All are duplicates if the vault finds no news.
    pub(super) places: Vec<usize>,
    /// Event that records the submission.
    pub(super) submission: Option<Uuid>,
}

impl ReportedResponse {
    pub(super) fn new(
        firm_id: Uuid,
        form_id: Uuid,
        report: &ResponseReport,
        submitted_at: Option<Timestamp>,
        place: usize,
    ) -> Self {
        let response = StoredResponse {
            firm_id,
            response_id: report.response_id,
            form_id,
            saved_at: report.at.get(),
            submitted_at: submitted_at.map(Timestamp::get),
            document: report.document.clone(),
        };
        Self { response, places: vec![place], submission: None }
    }

    /// Takes in the next activity of this response. Returns `None` if it is no news.
    ///
    /// The vault has the rule for batches: a submission is final, and a later save replaces an
    /// earlier one.
    pub(super) fn followed_by(&mut self, next: Self) -> Option<&mut Self> {
        let old = &self.response;
        let new = &next.response;
        let news = old.submitted_at.is_none()
            && (new.submitted_at.is_some() || new.saved_at > old.saved_at);
        if !news {
            return None;
        }
        self.response = next.response;
        self.places.extend(next.places);
        Some(self)
    }
}

/// Makes the event of a response's submission. The log decides whether the submission is the first.
pub(super) fn submission_event(
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
