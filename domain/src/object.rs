//! A JSON object as the text of each of its properties, and taking one apart field by field. Errors
//! name the field and never its value.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::document::NotADocument;

/// An object's properties, each as JSON text: the library's own values would cost numbers their
/// digits.
pub type Properties = BTreeMap<String, Box<RawValue>>;

/// An object being taken apart; what is left at the end is unknown.
pub(crate) struct StrictObject(pub(crate) Properties);

impl StrictObject {
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

    fn take<T: DeserializeOwned>(
        &mut self,
        field: &'static str,
    ) -> Result<Option<T>, NotADocument> {
        self.0
            .remove(field)
            .map(|value| serde_json::from_str(value.get()))
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
/// personal data, which must not reach a log (case H4). What was expected is a type's own words. A
/// place within a field is of no use to anybody.
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
            refused::<MemberRole>(&value),
            "field: expected one of `owner`, `admin`, `member`"
        );
        assert_eq!(refused::<FormStatus>(&value), "field: expected `draft` or `published`");
    }

    #[test]
    fn h4_a_value_of_another_type_is_not_quoted() {
        assert_eq!(refused::<String>(&json!(1_234)), "field: expected a string");
        assert_eq!(refused::<bool>(&json!("ann")), "field: expected a boolean");
        assert_eq!(refused::<u32>(&json!(-5)), "field: expected u32");
        for value in [json!(1_234), json!([1_234]), json!({"owner": 1_234})] {
            assert!(!refused::<MemberRole>(&value).contains("1234"));
        }
    }
}
