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
    fn texts(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.get()))
    }
}

impl PartialEq for FormVariables {
    fn eq(&self, other: &Self) -> bool {
        self.texts().eq(other.texts())
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
            device: object.optional("device")?,
            lang: object.optional("lang")?,
            ending: object.optional("ending")?,
            respondent: object.optional("respondent")?,
            answers: object.optional("answers")?,
            variables: object.optional("variables")?,
            hidden: object.optional("hidden")?,
        };
        object.end(document)
    }
}

impl TryFrom<Properties> for Respondent {
    type Error = NotADocument;

    fn try_from(data: Properties) -> Result<Self, NotADocument> {
        let mut object = StrictObject(data);
        let respondent = Self {
            name: object.optional("name")?,
            first_name: object.optional("first_name")?,
            last_name: object.optional("last_name")?,
            email: object.optional("email")?,
            phone: object.optional("phone")?,
            company: object.optional("company")?,
        };
        object.end(respondent)
    }
}

impl TryFrom<Properties> for AnsweredQuestion {
    type Error = NotADocument;

    fn try_from(data: Properties) -> Result<Self, NotADocument> {
        let mut object = StrictObject(data);
        let answered = Self {
            id: object.required("id")?,
            question: object.required("question")?,
            kind: object.required("type")?,
            answer: object.required("answer")?,
        };
        object.end(answered)
    }
}

impl TryFrom<Properties> for ReportDocument {
    type Error = NotADocument;

    fn try_from(data: Properties) -> Result<Self, NotADocument> {
        let mut object = StrictObject(data);
        let report = Self {
            id: object.required("id")?,
            title: object.required("title")?,
            status: object.required("status")?,
            summary: object.optional("summary")?,
            highlights: object.optional("highlights")?,
            review_url: object.required("review_url")?,
            locked: object.required("locked")?,
        };
        object.end(report)
    }
}

impl TryFrom<Properties> for Booking {
    type Error = NotADocument;

    fn try_from(data: Properties) -> Result<Self, NotADocument> {
        let mut object = StrictObject(data);
        let id = object.required("id")?;
        let booking = Self::read(id, &mut object)?;
        object.end(booking)
    }
}

impl Booking {
    /// Reads the fields of a booking. The id comes from the caller.
    pub(crate) fn read(id: Id, object: &mut StrictObject) -> Result<Self, NotADocument> {
        Ok(Self {
            id,
            title: object.required("title")?,
            status: object.required("status")?,
            starts_at: object.required("starts_at")?,
            ends_at: object.required("ends_at")?,
            duration_min: object.required("duration_min")?,
            time_zone: object.required("time_zone")?,
            location: object.optional("location")?,
            join_url: object.optional("join_url")?,
            invitee: object.optional("invitee")?,
        })
    }
}

impl TryFrom<Properties> for Invitee {
    type Error = NotADocument;

    fn try_from(data: Properties) -> Result<Self, NotADocument> {
        let mut object = StrictObject(data);
        let invitee = Self {
            name: object.optional("name")?,
            email: object.optional("email")?,
            phone: object.optional("phone")?,
            time_zone: object.optional("time_zone")?,
        };
        object.end(invitee)
    }
}
