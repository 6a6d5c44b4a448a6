//! Types of events. Made from the description of the API by tests/operations/typed_events.rs.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Events of this version. New ones can appear.
pub const EVENTS: [&str; 10] = [
    "booking_cancelled",
    "booking_made",
    "booking_rescheduled",
    "form_submitted",
    "lead_hot",
    "partial_submission",
    "payment_received",
    "report_approved",
    "report_opened",
    "report_sent",
];

/// An answered question.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[non_exhaustive]
pub struct Answer {
    /// The answer, as text.
    pub answer: String,
    /// The question.
    pub id: String,
    /// Its words.
    pub question: String,
    /// Its type.
    pub r#type: String,
}

/// A booked call.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[non_exhaustive]
pub struct Booking {
    /// Its length in minutes.
    pub duration_min: u64,
    /// When the call ends.
    pub ends_at: String,
    /// The booking.
    pub id: String,
    /// The person a call was booked with.
    pub invitee: Invitee,
    /// The URL where to join it; empty when there is no such place.
    pub join_url: String,
    /// Where it takes place.
    pub location: String,
    /// When the call starts.
    pub starts_at: String,
    /// A cancelled booking stays.
    pub status: String,
    /// IANA name of the time zone.
    pub time_zone: String,
    /// Its title.
    pub title: String,
}

/// The form of the response.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[non_exhaustive]
pub struct EventForm {
    /// The form.
    pub id: String,
    /// Its title.
    pub title: String,
    /// Its public address.
    pub url: String,
}

/// One shape serves every trigger. It is read when the delivery first goes out; later tries send the same bytes.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[non_exhaustive]
pub struct EventPayload {
    /// One for each answered question.
    pub answers: Vec<Answer>,
    /// Present only when a call is booked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub booking: Option<Booking>,
    /// The trigger.
    pub event: String,
    /// The same answers by question id, for mapping.
    pub fields: BTreeMap<String, String>,
    /// The form of the response.
    pub form: EventForm,
    /// Hidden fields and UTM tags that the form took.
    pub hidden: BTreeMap<String, String>,
    /// Present only for `partial_submission`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partial: Option<Partial>,
    /// Null when there is no report yet.
    pub report: Option<Report>,
    /// The person who answered; what is not known is empty.
    pub respondent: Respondent,
    /// The response it happened to.
    pub response: EventResponse,
    /// The form's variables; may be empty.
    pub variables: BTreeMap<String, Value>,
}

/// The response it happened to.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[non_exhaustive]
pub struct EventResponse {
    /// The kind of device.
    pub device: String,
    /// The ending that was reached; empty while unfinished.
    pub ending: String,
    /// The response.
    pub id: String,
    /// The language.
    pub lang: String,
    /// When it was submitted; of an unfinished one, when it was last answered.
    pub submitted_at: String,
}

/// The person a call was booked with.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[non_exhaustive]
pub struct Invitee {
    /// Address.
    pub email: String,
    /// Full name.
    pub name: String,
    /// Phone number.
    pub phone: String,
    /// IANA name of the time zone.
    pub time_zone: String,
}

/// How far an unfinished response came.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[non_exhaustive]
pub struct Partial {
    /// How many questions are answered.
    pub answered: u64,
    /// When the last answer was given.
    pub last_answer_at: String,
}

/// The report on the response.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[non_exhaustive]
pub struct Report {
    /// Empty while the report is sold and not yet paid for.
    pub highlights: Vec<String>,
    /// The report.
    pub id: String,
    /// Where it can be reviewed.
    pub review_url: String,
    /// Its state.
    pub status: String,
    /// Null while the report is sold and not yet paid for.
    pub summary: Option<String>,
    /// Its title.
    pub title: String,
}

/// The person who answered; what is not known is empty.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[non_exhaustive]
pub struct Respondent {
    /// Company.
    pub company: String,
    /// Address.
    pub email: String,
    /// First name.
    pub first_name: String,
    /// Last name.
    pub last_name: String,
    /// Full name.
    pub name: String,
    /// Phone number.
    pub phone: String,
}
