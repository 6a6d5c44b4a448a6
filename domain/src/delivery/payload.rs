//! The body of a delivery (contract, section EventPayload; rulings 13 and 14a).
//!
//! One shape serves every trigger. A payload is built from the documents of [`crate::activity`],
//! when the delivery's first attempt is claimed. Data that the service lacks cannot appear in a
//! payload.

use std::collections::BTreeMap;

use serde::ser::{Serialize, SerializeMap, Serializer};
use uuid::Uuid;

use crate::activity::{
    AnsweredQuestion, Booking, FormVariables, ReportDocument, Respondent, ResponseDocument,
};
use crate::subscription::Trigger;
use crate::values::{Id, Timestamp};

/// The contract's EventPayload, its fields in the contract's order.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct EventPayload {
    /// The trigger.
    pub event: Trigger,
    /// The form of the response.
    pub form: FormPart,
    /// The response of the occurrence.
    pub response: ResponsePart,
    /// The person who answered.
    pub respondent: Respondent,
    /// One entry per answered question.
    pub answers: Vec<AnsweredQuestion>,
    /// The answers again, by question id.
    pub fields: AnswerFields,
    /// The form's variables.
    pub variables: FormVariables,
    /// Hidden fields and UTM tags.
    pub hidden: BTreeMap<String, String>,
    /// The report. `null` while there is none.
    pub report: Option<ReportPart>,
    /// The booking, if there is one. A cancelled booking stays (ruling 14a).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub booking: Option<Booking>,
    /// Present for `partial_submission` only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partial: Option<PartialPart>,
}

/// The part `form` of a payload.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct FormPart {
    /// The form.
    pub id: Id,
    /// Title of the form.
    pub title: String,
    /// Public address of the form.
    pub url: String,
}

/// The part `response` of a payload.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct ResponsePart {
    /// The response.
    pub id: Id,
    /// Time of the submission. For an unfinished response it is the time of the last answer (ruling
    /// 14a).
    pub submitted_at: Timestamp,
    /// For example `mobile`.
    pub device: String,
    /// For example `en`.
    pub lang: String,
    /// For example `default`. Empty while the response is unfinished (ruling 14a).
    pub ending: String,
}

/// The part `report` of a payload.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct ReportPart {
    /// The report.
    pub id: Id,
    /// Title of the report.
    pub title: String,
    /// For example `approved`.
    pub status: String,
    /// `null` while the report is sold and not yet paid for.
    pub summary: Option<String>,
    /// Empty while the report is sold and not yet paid for.
    pub highlights: Vec<String>,
    /// Address of the page on which the report is reviewed.
    pub review_url: String,
}

/// The part `partial` of a payload (ruling 14a).
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct PartialPart {
    /// Time of the last answer.
    pub last_answer_at: Timestamp,
    /// Number of answered questions.
    pub answered: usize,
}

/// Answers by question id, in the order of the answers. If a question has two answers, the last one
/// counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AnswerFields(Vec<(String, String)>);

/// Sources of a payload.
#[derive(Clone, Debug)]
pub struct PayloadSource<'a> {
    /// The trigger.
    pub trigger: Trigger,
    /// The form of the response.
    pub form: FormPart,
    /// The response of the occurrence.
    pub response_id: Uuid,
    /// Time of the submission, or of the last answer if the response is unfinished.
    pub submitted_at: Timestamp,
    /// The answers.
    pub document: &'a ResponseDocument,
    /// The occurrence's report, or else the response's newest report (ruling 14a).
    pub report: Option<&'a ReportDocument>,
    /// The occurrence's booking, or else the response's newest booking (ruling 14a).
    pub booking: Option<&'a Booking>,
}

impl EventPayload {
    /// Builds a payload.
    #[must_use]
    pub fn new(source: PayloadSource<'_>) -> Self {
        let document = source.document;
        let fields = AnswerFields::new(&document.answers);
        Self {
            event: source.trigger,
            response: ResponsePart::new(&source),
            form: source.form,
            respondent: document.respondent.clone(),
            answers: document.answers.clone(),
            variables: document.variables.clone(),
            hidden: document.hidden.clone(),
            report: source.report.map(ReportPart::new),
            booking: source.booking.cloned(),
            partial: (source.trigger == Trigger::PartialSubmission).then_some(PartialPart {
                last_answer_at: source.submitted_at,
                answered: fields.0.len(),
            }),
            fields,
        }
    }
}

impl ResponsePart {
    fn new(source: &PayloadSource<'_>) -> Self {
        let PayloadSource { trigger, response_id, submitted_at, document, .. } = *source;
        let ending = match trigger {
            Trigger::PartialSubmission => "",
            _ => &document.ending,
        };
        Self {
            id: response_id.into(),
            submitted_at,
            device: document.device.clone(),
            lang: document.lang.clone(),
            ending: ending.to_owned(),
        }
    }
}

impl ReportPart {
    /// Builds the part of a report. A locked report shows neither summary nor highlights.
    #[must_use]
    pub fn new(report: &ReportDocument) -> Self {
        let (summary, highlights) = if report.locked {
            (None, Vec::new())
        } else {
            (report.summary.clone(), report.highlights.clone())
        };
        Self {
            id: report.id,
            title: report.title.clone(),
            status: report.status.clone(),
            summary,
            highlights,
            review_url: report.review_url.clone(),
        }
    }
}

impl AnswerFields {
    /// Keys the answers by question id.
    #[must_use]
    pub fn new(answers: &[AnsweredQuestion]) -> Self {
        let mut places = BTreeMap::new();
        let mut fields: Vec<(String, String)> = Vec::with_capacity(answers.len());
        for AnsweredQuestion { id, answer, .. } in answers {
            let place = *places.entry(id).or_insert(fields.len());
            match fields.get_mut(place) {
                Some((_, earlier)) => earlier.clone_from(answer),
                None => fields.push((id.clone(), answer.clone())),
            }
        }
        Self(fields)
    }
}

impl Serialize for AnswerFields {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (id, answer) in &self.0 {
            map.serialize_entry(id, answer)?;
        }
        map.end()
    }
}
