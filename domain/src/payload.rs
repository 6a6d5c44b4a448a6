//! The body of a delivery (contract, section EventPayload; rulings 13 and 14a).
//!
//! One shape serves every trigger. It is built from what [`crate::document`] keeps, when the
//! delivery's first try is claimed; what the service does not know cannot appear in it.

use std::collections::BTreeMap;

use serde::ser::{Serialize, SerializeMap, Serializer};
use uuid::Uuid;

use crate::document::{
    AnsweredQuestion, Booking, FormVariables, ReportDocument, Respondent, ResponseDocument,
};
use crate::ids::Id;
use crate::time::Timestamp;
use crate::trigger::Trigger;

/// The contract's EventPayload, its fields in the contract's order.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct EventPayload {
    /// What happened.
    pub event: Trigger,
    /// The form of the response.
    pub form: FormPart,
    /// The response it happened to.
    pub response: ResponsePart,
    /// The person who answered.
    pub respondent: Respondent,
    /// One entry per answered question.
    pub answers: Vec<AnsweredQuestion>,
    /// The same answers by question id, for mapping.
    pub fields: AnswerFields,
    /// The form's variables.
    pub variables: FormVariables,
    /// Hidden fields and UTM tags.
    pub hidden: BTreeMap<String, String>,
    /// `null` while there is no report.
    pub report: Option<ReportPart>,
    /// Present only when a call is booked; a cancelled one stays (ruling 14a).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub booking: Option<Booking>,
    /// Present only for `partial_submission`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partial: Option<PartialPart>,
}

/// `form` of a payload.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct FormPart {
    /// The form.
    pub id: Id,
    /// Its title.
    pub title: String,
    /// Its public address.
    pub url: String,
}

/// `response` of a payload.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct ResponsePart {
    /// The response.
    pub id: Id,
    /// When it was submitted; of an unfinished one, when it was last answered (ruling 14a).
    pub submitted_at: Timestamp,
    /// For example `mobile`.
    pub device: String,
    /// For example `en`.
    pub lang: String,
    /// For example `default`; empty while unfinished (ruling 14a).
    pub ending: String,
}

/// `report` of a payload.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct ReportPart {
    /// The report.
    pub id: Id,
    /// Its title.
    pub title: String,
    /// For example `approved`.
    pub status: String,
    /// `null` while the report is sold and not yet paid for.
    pub summary: Option<String>,
    /// Empty while the report is sold and not yet paid for.
    pub highlights: Vec<String>,
    /// Where it can be reviewed.
    pub review_url: String,
}

/// `partial` of a payload (ruling 14a).
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct PartialPart {
    /// When the last answer was given.
    pub last_answer_at: Timestamp,
    /// How many questions are answered.
    pub answered: usize,
}

/// Answers by question id, in the order of the answers. Of two answers to one question the last
/// counts, once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AnswerFields(Vec<(String, String)>);

/// What a payload is built from.
#[derive(Clone, Debug)]
pub struct PayloadSource<'a> {
    /// What happened.
    pub trigger: Trigger,
    /// The form of the response.
    pub form: FormPart,
    /// The response it happened to.
    pub response_id: Uuid,
    /// When it was submitted, or last answered when it is unfinished.
    pub submitted_at: Timestamp,
    /// What was answered.
    pub document: &'a ResponseDocument,
    /// The occurrence's report, otherwise the response's newest (ruling 14a).
    pub report: Option<&'a ReportDocument>,
    /// The occurrence's booking, otherwise the response's newest (ruling 14a).
    pub booking: Option<&'a Booking>,
}

impl EventPayload {
    /// Puts a payload together.
    #[must_use]
    pub fn of(source: PayloadSource<'_>) -> Self {
        let document = source.document;
        let fields = AnswerFields::of(&document.answers);
        Self {
            event: source.trigger,
            response: ResponsePart::of(&source),
            form: source.form,
            respondent: document.respondent.clone(),
            answers: document.answers.clone(),
            variables: document.variables.clone(),
            hidden: document.hidden.clone(),
            report: source.report.map(ReportPart::of),
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
    fn of(source: &PayloadSource<'_>) -> Self {
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
    /// Shows of a report what may be shown: while it is locked neither summary nor highlights.
    #[must_use]
    pub fn of(report: &ReportDocument) -> Self {
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
    /// Keys the answers by their questions' ids.
    #[must_use]
    pub fn of(answers: &[AnsweredQuestion]) -> Self {
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
