//! JSON objects as the text of each property, and a reader that takes one field at a time. Errors
//! name the field and never show its value.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use thiserror::Error;

use crate::values::shown_property;

/// The properties of an object, each as JSON text. The library's own values would lose digits of
/// numbers.
pub type Properties = BTreeMap<String, Box<RawValue>>;

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
        /// The expected form.
        reason: String,
    },
    /// The field is unknown.
    #[error("{}: unknown field", shown_property(.0).unwrap_or("a property"))]
    Unknown(String),
    /// A part of the document is wrong.
    #[error("{part}.{wrong}")]
    In {
        /// The part, such as `plan` or `hidden_fields[0]`.
        part: String,
        /// The fault within the part.
        wrong: Box<Self>,
    },
    /// The document has more than [`super::DOCUMENT_MAX_BYTES`].
    #[error("a response document is at most 512 KiB of JSON, this one has {0} bytes")]
    TooLarge(usize),
}

impl NotADocument {
    /// The fault of a whole whose part has this fault.
    pub(crate) fn within_part(self, part: impl Into<String>) -> Self {
        Self::In { part: part.into(), wrong: Box::new(self) }
    }
}

/// An object that is read field by field. The fields left at the end are unknown.
pub(crate) struct StrictObject(pub(crate) Properties);

impl StrictObject {
    pub(crate) fn required_field<T: DeserializeOwned>(
        &mut self,
        field: &'static str,
    ) -> Result<T, NotADocument> {
        self.take_field(field)?.ok_or(NotADocument::Missing(field))
    }

    pub(crate) fn optional_field<T>(&mut self, field: &'static str) -> Result<T, NotADocument>
    where
        T: DeserializeOwned + Default,
    {
        Ok(self.take_field(field)?.unwrap_or_default())
    }

    /// A property that is an object, read field by field. Errors name the property, too.
    pub(crate) fn required_part<T>(
        &mut self,
        field: &'static str,
        read: impl FnOnce(Self) -> Result<T, NotADocument>,
    ) -> Result<T, NotADocument> {
        self.optional_part(field, read)?.ok_or(NotADocument::Missing(field))
    }

    /// Like [`StrictObject::required_part`]. The property may be missing or null.
    pub(crate) fn optional_part<T>(
        &mut self,
        field: &'static str,
        read: impl FnOnce(Self) -> Result<T, NotADocument>,
    ) -> Result<Option<T>, NotADocument> {
        let part = self.optional_field::<Option<Properties>>(field)?;
        part.map(|part| read(Self(part)).map_err(|wrong| wrong.within_part(field))).transpose()
    }

    fn take_field<T: DeserializeOwned>(
        &mut self,
        field: &'static str,
    ) -> Result<Option<T>, NotADocument> {
        self.0
            .remove(field)
            .map(|value| serde_json::from_str(value.get()))
            .transpose()
            .map_err(|error| NotADocument::Malformed { field, reason: without_value(&error) })
    }

    pub(crate) fn end_with<T>(self, whole: T) -> Result<T, NotADocument> {
        match self.0.keys().next() {
            None => Ok(whole),
            Some(field) => Err(NotADocument::Unknown(field.clone())),
        }
    }
}

/// JSON whose texts can be read, whatever a stranger typed (ruling 53): no text of ours can hold
/// U+0000 or half of a surrogate pair. JSON has both as escapes only, and JavaScript writes the
/// half where a text was cut within a character. A name by the product with a NUL stays refused: it
/// becomes another control character.
#[must_use]
pub fn readable_json(json: &str) -> Cow<'_, str> {
    let unit_at = |at: usize| {
        let digits = json.get(at..at + 6)?.strip_prefix("\\u")?;
        u16::from_str_radix(digits, 16).ok()
    };
    let mut readable = Cow::Borrowed(json);
    let mut from = 0;
    while let Some(escape) = json[from..].find('\\').map(|at| from + at) {
        let (read_bytes, written) = match (unit_at(escape), unit_at(escape + 6)) {
            (Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff)) => (12, None),
            (Some(0xd800..=0xdfff), _) => (6, Some("\\ufffd")),
            (Some(0), _) => (6, Some("\\u001a")),
            _ => (2, None),
        };
        if let Some(written) = written {
            readable.to_mut().replace_range(escape..escape + 6, written);
        }
        from = json.len().min(escape + read_bytes);
    }
    readable
}

/// The error's text without the offending value. serde quotes that value between "invalid …" or
/// "unknown variant …" and ", expected …". The value is personal data and must not reach a log
/// (case H4). The expectation is the type's own text. A position within a field helps nobody.
fn without_value(error: &serde_json::Error) -> String {
    let message = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    let message = message.strip_suffix(&place).unwrap_or(&message);
    let quotes = message.starts_with("invalid ") || message.starts_with("unknown variant ");
    match message.rsplit_once(", expected ") {
        Some((_, expected)) if quotes => format!("expected {expected}"),
        _ => message.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::firm::MemberRole;
    use crate::form::FormStatus;
    use rstest::rstest;
    use serde_json::value::to_raw_value;
    use serde_json::{Value, json};

    fn refused<T: DeserializeOwned>(value: &Value) -> String {
        let value = to_raw_value(value).unwrap();
        let mut object = StrictObject(Properties::from([("field".to_owned(), value)]));
        match object.required_field::<T>("field") {
            Ok(_) => panic!("it was read"),
            Err(why) => why.to_string(),
        }
    }

    #[rstest]
    #[case(json!("ann@example.com"))]
    #[case(json!("ann, expected one of `us`"))]
    #[case(json!({"ann@example.com": null}))]
    #[case(json!("Owner"))]
    fn h4_an_unknown_word_is_not_quoted(#[case] value: Value) {
        assert_eq!(
            refused::<MemberRole>(&value),
            "field: expected one of `owner`, `admin`, `member`"
        );
        assert_eq!(refused::<FormStatus>(&value), "field: expected `draft` or `published`");
    }

    #[rstest]
    #[case(r#""a""#, r#""a""#)]
    #[case(r#""\ud83c\udf89 \\ud83c \n""#, r#""\ud83c\udf89 \\ud83c \n""#)]
    #[case(r#""a\ud83c""#, r#""a\ufffd""#)]
    #[case(r#"["\udf89\uD83C","\\\ud83cx"]"#, r#"["\ufffd\ufffd","\\\ufffdx"]"#)]
    #[case(r#""\ud83c\ud83c\udf89""#, r#""\ufffd\ud83c\udf89""#)]
    #[case(r#""\ud83c\u00e9""#, r#""\ufffd\u00e9""#)]
    #[case(r#""é\u0000\\u0000""#, r#""é\u001a\\u0000""#)]
    #[case("\"\\", "\"\\")]
    fn texts_of_strangers_can_be_read(#[case] json: &str, #[case] expected: &str) {
        assert_eq!(readable_json(json), expected);
    }

    #[test]
    fn h4_a_wrong_type_is_not_quoted() {
        assert_eq!(refused::<String>(&json!(1_234)), "field: expected a string");
        assert_eq!(refused::<bool>(&json!("ann")), "field: expected a boolean");
        assert_eq!(refused::<u32>(&json!(-5)), "field: expected u32");
        for value in [json!(1_234), json!([1_234]), json!({"owner": 1_234})] {
            assert!(!refused::<MemberRole>(&value).contains("1234"));
        }
    }
}
