//! What is kept, encrypted, about a response: the material payloads are built from (contract,
//! section EventPayload). These shapes hold personal data and never enter the log.
//!
//! They are read strictly wherever they come from: from JSON objects only (a derived struct would
//! take an array too), without unknown fields, and with errors that name the field and never its
//! value.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use thiserror::Error;

use crate::ids::Id;
use crate::time::Timestamp;

/// Largest response document, as JSON (rulings, section Internal codes).
pub const DOCUMENT_MAX_BYTES: usize = 512 * 1024;

/// What a person answered, and how they came. What was not reported is empty.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Map<String, Value>")]
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
    pub variables: Map<String, Value>,
    /// Hidden fields and UTM tags.
    pub hidden: BTreeMap<String, String>,
}

/// The person who answered; what is not known is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Map<String, Value>")]
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
#[serde(try_from = "Map<String, Value>")]
pub struct AnsweredQuestion {
    /// The question.
    pub id: String,
    /// Its words.
    pub question: String,
    /// For example `short_text`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The answer, as text.
    pub answer: String,
}

/// A report on a response.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Map<String, Value>")]
pub struct ReportDocument {
    /// The report.
    pub id: Id,
    /// Its title.
    pub title: String,
    /// For example `approved`.
    pub status: String,
    /// What it says in short.
    pub summary: Option<String>,
    /// What it points out.
    pub highlights: Vec<String>,
    /// Where it can be reviewed.
    pub review_url: String,
    /// Sold on the thank-you screen and not yet paid for.
    pub locked: bool,
}

/// A booked call, as it also stands in payloads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Map<String, Value>")]
pub struct Booking {
    /// The booking.
    pub id: Id,
    /// Its title.
    pub title: String,
    /// For example `confirmed`.
    pub status: String,
    /// When the call starts.
    pub starts_at: Timestamp,
    /// When the call ends.
    pub ends_at: Timestamp,
    /// How long it is.
    pub duration_min: u32,
    /// IANA name of the time zone.
    pub time_zone: String,
    /// Where it takes place.
    pub location: String,
    /// Where to join it.
    pub join_url: String,
    /// Who is invited.
    pub invitee: Invitee,
}

/// The person a call was booked with.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Map<String, Value>")]
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

/// Why a document is refused, in a sentence for the product's engineers.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NotADocument {
    /// A field is missing.
    #[error("{0}: missing")]
    Missing(&'static str),
    /// A field is not of its type.
    #[error("{field}: {reason}")]
    Malformed {
        /// The field.
        field: &'static str,
        /// What it should be.
        reason: String,
    },
    /// A field that documents do not have.
    #[error("{0}: unknown field")]
    Unknown(String),
    /// More than [`DOCUMENT_MAX_BYTES`].
    #[error("a response document is at most 512 KiB of JSON, this one has {0} bytes")]
    TooLarge(usize),
}

impl ResponseDocument {
    /// Reads a document that the product reports.
    ///
    /// # Errors
    /// The first field that is wrong, or that it is too large.
    pub fn read(data: Map<String, Value>) -> Result<Self, NotADocument> {
        let document = Self::try_from(data)?;
        match serde_json::to_vec(&document).map_or(0, |json| json.len()) {
            ..=DOCUMENT_MAX_BYTES => Ok(document),
            bytes => Err(NotADocument::TooLarge(bytes)),
        }
    }
}

impl TryFrom<Map<String, Value>> for ResponseDocument {
    type Error = NotADocument;

    fn try_from(data: Map<String, Value>) -> Result<Self, NotADocument> {
        let mut object = Object(data);
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

impl TryFrom<Map<String, Value>> for Respondent {
    type Error = NotADocument;

    fn try_from(data: Map<String, Value>) -> Result<Self, NotADocument> {
        let mut object = Object(data);
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

impl TryFrom<Map<String, Value>> for AnsweredQuestion {
    type Error = NotADocument;

    fn try_from(data: Map<String, Value>) -> Result<Self, NotADocument> {
        let mut object = Object(data);
        let answered = Self {
            id: object.required("id")?,
            question: object.required("question")?,
            kind: object.required("type")?,
            answer: object.required("answer")?,
        };
        object.end(answered)
    }
}

impl TryFrom<Map<String, Value>> for ReportDocument {
    type Error = NotADocument;

    fn try_from(data: Map<String, Value>) -> Result<Self, NotADocument> {
        let mut object = Object(data);
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

impl TryFrom<Map<String, Value>> for Booking {
    type Error = NotADocument;

    fn try_from(data: Map<String, Value>) -> Result<Self, NotADocument> {
        let mut object = Object(data);
        let id = object.required("id")?;
        let booking = object.booking(id)?;
        object.end(booking)
    }
}

impl TryFrom<Map<String, Value>> for Invitee {
    type Error = NotADocument;

    fn try_from(data: Map<String, Value>) -> Result<Self, NotADocument> {
        let mut object = Object(data);
        let invitee = Self {
            name: object.optional("name")?,
            email: object.optional("email")?,
            phone: object.optional("phone")?,
            time_zone: object.optional("time_zone")?,
        };
        object.end(invitee)
    }
}

/// A JSON object being taken apart, field by field; what is left at the end is unknown.
pub(crate) struct Object(pub(crate) Map<String, Value>);

impl Object {
    pub(crate) fn required<T: DeserializeOwned>(
        &mut self,
        field: &'static str,
    ) -> Result<T, NotADocument> {
        self.take(field)?.ok_or(NotADocument::Missing(field))
    }

    pub(crate) fn optional<T>(&mut self, field: &'static str) -> Result<T, NotADocument>
    where
        T: DeserializeOwned + Default,
    {
        Ok(self.take(field)?.unwrap_or_default())
    }

    /// A booking but for its id.
    pub(crate) fn booking(&mut self, id: Id) -> Result<Booking, NotADocument> {
        Ok(Booking {
            id,
            title: self.required("title")?,
            status: self.required("status")?,
            starts_at: self.required("starts_at")?,
            ends_at: self.required("ends_at")?,
            duration_min: self.required("duration_min")?,
            time_zone: self.required("time_zone")?,
            location: self.optional("location")?,
            join_url: self.optional("join_url")?,
            invitee: self.optional("invitee")?,
        })
    }

    fn take<T: DeserializeOwned>(
        &mut self,
        field: &'static str,
    ) -> Result<Option<T>, NotADocument> {
        self.0
            .remove(field)
            .map(serde_json::from_value)
            .transpose()
            .map_err(|error| NotADocument::Malformed { field, reason: without_value(&error) })
    }

    pub(crate) fn end<T>(self, whole: T) -> Result<T, NotADocument> {
        match self.0.keys().next() {
            None => Ok(whole),
            Some(field) => Err(NotADocument::Unknown(field.clone())),
        }
    }
}

/// serde quotes the offending value between "invalid …" or "unknown variant …" and ", expected …":
/// personal data, which must not reach a log (case H4). What was expected is a type's own words.
fn without_value(error: &serde_json::Error) -> String {
    let message = error.to_string();
    let quotes = message.starts_with("invalid ") || message.starts_with("unknown variant ");
    match message.rsplit_once(", expected ") {
        Some((_, expected)) if quotes => format!("expected {expected}"),
        _ => message,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::firm::Role;
    use crate::form::FormStatus;
    use rstest::rstest;
    use serde_json::json;

    fn refused<T: DeserializeOwned>(value: Value) -> String {
        let mut object = Object(Map::from_iter([("field".to_owned(), value)]));
        match object.required::<T>("field") {
            Ok(_) => panic!("it was read"),
            Err(why) => why.to_string(),
        }
    }

    #[rstest]
    #[case(json!("ann@example.com"))]
    #[case(json!("ann, expected one of `us`"))]
    #[case(json!({"ann@example.com": null}))]
    #[case(json!("Owner"))]
    fn h4_a_word_that_is_none_of_ours_is_not_quoted(#[case] value: Value) {
        assert_eq!(
            refused::<Role>(value.clone()),
            "field: expected one of `owner`, `admin`, `member`"
        );
        assert_eq!(refused::<FormStatus>(value), "field: expected `draft` or `published`");
    }

    #[test]
    fn h4_a_value_of_another_type_is_not_quoted() {
        assert_eq!(refused::<String>(json!(1_234)), "field: expected a string");
        assert_eq!(refused::<bool>(json!("ann")), "field: expected a boolean");
        assert_eq!(refused::<u32>(json!(-5)), "field: expected u32");
        for value in [json!(1_234), json!([1_234]), json!({"owner": 1_234})] {
            assert!(!refused::<Role>(value).contains("1234"));
        }
    }
}
