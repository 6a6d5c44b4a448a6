//! Documents about a response, kept encrypted as the source of payloads (contract, section
//! EventPayload). These shapes hold personal data and never enter the log.
//!
//! Readers accept JSON objects only, because a derived reader would take an array too. They refuse
//! unknown fields. Their errors name the field and never show its value.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::object::{NotADocument, Properties, StrictObject};
use crate::values::{Id, Timestamp};

/// Largest response document, in bytes of JSON (rulings, section Internal codes).
pub const DOCUMENT_MAX_BYTES: usize = 512 * 1024;

/// The answers of a person, and details of the visit. Unreported fields are empty.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Properties")]
pub struct ResponseDocument {
    /// For example `mobile`.
    pub device: String,
    /// For example `en`.
    pub lang: String,
    /// For example `default`.
    pub ending: String,
    /// The person.
    pub respondent: Respondent,
    /// One entry per answered question, in the form's order.
    pub answers: Vec<AnsweredQuestion>,
    /// The form's variables, as reported.
    pub variables: FormVariables,
    /// Hidden fields and UTM tags.
    pub hidden: BTreeMap<String, String>,
}

/// Variables of a form. Their contents belong to the form: they are sent as the JSON text that was
/// reported, numbers digit by digit (contract, section EventPayload).
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct FormVariables(Properties);

impl FormVariables {
    fn named_texts(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.get()))
    }
}

impl PartialEq for FormVariables {
    fn eq(&self, other: &Self) -> bool {
        self.named_texts().eq(other.named_texts())
    }
}

/// The person who answered. Unknown fields are empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Properties")]
pub struct Respondent {
    /// Full name.
    pub name: String,
    /// First name.
    pub first_name: String,
    /// Last name.
    pub last_name: String,
    /// Address.
    pub email: String,
    /// Phone number.
    pub phone: String,
    /// Company.
    pub company: String,
}

/// One answered question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Properties")]
pub struct AnsweredQuestion {
    /// The question.
    pub id: String,
    /// Text of the question.
    pub question: String,
    /// For example `short_text`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The answer, as text.
    pub answer: String,
}

/// A report on a response.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Properties")]
pub struct ReportDocument {
    /// The report.
    pub id: Id,
    /// Title of the report.
    pub title: String,
    /// For example `approved`.
    pub status: String,
    /// Short summary.
    pub summary: Option<String>,
    /// Main points.
    pub highlights: Vec<String>,
    /// Address of the page on which the report is reviewed.
    pub review_url: String,
    /// Whether the report was sold on the thank-you screen and is not yet paid for.
    pub locked: bool,
}

/// A booking, as it also stands in payloads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Properties")]
pub struct Booking {
    /// The booking.
    pub id: Id,
    /// Title of the booking.
    pub title: String,
    /// For example `confirmed`.
    pub status: String,
    /// Start of the booking.
    pub starts_at: Timestamp,
    /// End of the booking.
    pub ends_at: Timestamp,
    /// Length of the booking, in minutes.
    pub duration_min: u32,
    /// IANA name of the time zone.
    pub time_zone: String,
    /// Place of the booking.
    pub location: String,
    /// Address for joining the booking online.
    pub join_url: String,
    /// The invited person.
    pub invitee: Invitee,
}

/// The person who booked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Properties")]
pub struct Invitee {
    /// Full name.
    pub name: String,
    /// Address.
    pub email: String,
    /// Phone number.
    pub phone: String,
    /// IANA name of the time zone.
    pub time_zone: String,
}

impl ResponseDocument {
    /// Reads a reported document.
    ///
    /// # Errors
    /// [`NotADocument`] names the first wrong field, or says that the document is too large.
    pub fn read(data: Properties) -> Result<Self, NotADocument> {
        let document = Self::try_from(data)?;
        match serde_json::to_vec(&document).map_or(0, |json| json.len()) {
            ..=DOCUMENT_MAX_BYTES => Ok(document),
            bytes => Err(NotADocument::TooLarge(bytes)),
        }
    }
}

impl TryFrom<Properties> for ResponseDocument {
    type Error = NotADocument;

    fn try_from(data: Properties) -> Result<Self, NotADocument> {
        let mut object = StrictObject(data);
        let document = Self {
            device: object.optional_field("device")?,
            lang: object.optional_field("lang")?,
            ending: object.optional_field("ending")?,
            respondent: object.optional_field("respondent")?,
            answers: object.optional_field("answers")?,
            variables: object.optional_field("variables")?,
            hidden: object.optional_field("hidden")?,
        };
        object.end_with(document)
    }
}

impl TryFrom<Properties> for Respondent {
    type Error = NotADocument;

    fn try_from(data: Properties) -> Result<Self, NotADocument> {
        let mut object = StrictObject(data);
        let respondent = Self {
            name: object.optional_field("name")?,
            first_name: object.optional_field("first_name")?,
            last_name: object.optional_field("last_name")?,
            email: object.optional_field("email")?,
            phone: object.optional_field("phone")?,
            company: object.optional_field("company")?,
        };
        object.end_with(respondent)
    }
}

impl TryFrom<Properties> for AnsweredQuestion {
    type Error = NotADocument;

    fn try_from(data: Properties) -> Result<Self, NotADocument> {
        let mut object = StrictObject(data);
        let answered = Self {
            id: object.required_field("id")?,
            question: object.required_field("question")?,
            kind: object.required_field("type")?,
            answer: object.required_field("answer")?,
        };
        object.end_with(answered)
    }
}

impl TryFrom<Properties> for ReportDocument {
    type Error = NotADocument;

    fn try_from(data: Properties) -> Result<Self, NotADocument> {
        let mut object = StrictObject(data);
        let report = Self {
            id: object.required_field("id")?,
            title: object.required_field("title")?,
            status: object.required_field("status")?,
            summary: object.optional_field("summary")?,
            highlights: object.optional_field("highlights")?,
            review_url: object.required_field("review_url")?,
            locked: object.required_field("locked")?,
        };
        object.end_with(report)
    }
}

impl TryFrom<Properties> for Booking {
    type Error = NotADocument;

    fn try_from(data: Properties) -> Result<Self, NotADocument> {
        let mut object = StrictObject(data);
        let id = object.required_field("id")?;
        let booking = Self::read(id, &mut object)?;
        object.end_with(booking)
    }
}

impl Booking {
    /// Reads the fields of a booking. The id comes from the caller.
    pub(crate) fn read(id: Id, object: &mut StrictObject) -> Result<Self, NotADocument> {
        Ok(Self {
            id,
            title: object.required_field("title")?,
            status: object.required_field("status")?,
            starts_at: object.required_field("starts_at")?,
            ends_at: object.required_field("ends_at")?,
            duration_min: object.required_field("duration_min")?,
            time_zone: object.required_field("time_zone")?,
            location: object.optional_field("location")?,
            join_url: object.optional_field("join_url")?,
            invitee: object.optional_field("invitee")?,
        })
    }
}

impl TryFrom<Properties> for Invitee {
    type Error = NotADocument;

    fn try_from(data: Properties) -> Result<Self, NotADocument> {
        let mut object = StrictObject(data);
        let invitee = Self {
            name: object.optional_field("name")?,
            email: object.optional_field("email")?,
            phone: object.optional_field("phone")?,
            time_zone: object.optional_field("time_zone")?,
        };
        object.end_with(invitee)
    }
}
