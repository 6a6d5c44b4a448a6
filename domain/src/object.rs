//! JSON objects as the text of each property, and a reader that takes one field at a time. Errors
//! name the field and never show its value.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::document::NotADocument;

/// The properties of an object, each as JSON text. The library's own values would lose digits of
/// numbers.
pub type Properties = BTreeMap<String, Box<RawValue>>;

/// An object that is read field by field. The fields left at the end are unknown.
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

    /// A property that is an object, read field by field. Errors name the property, too.
    pub(crate) fn part<T>(
        &mut self,
        field: &'static str,
        read: impl FnOnce(Self) -> Result<T, NotADocument>,
    ) -> Result<T, NotADocument> {
        self.optional_part(field, read)?.ok_or(NotADocument::Missing(field))
    }

    /// Like [`StrictObject::part`]. The property may be missing or null.
    pub(crate) fn optional_part<T>(
        &mut self,
        field: &'static str,
        read: impl FnOnce(Self) -> Result<T, NotADocument>,
    ) -> Result<Option<T>, NotADocument> {
        let part = self.optional::<Option<Properties>>(field)?;
        part.map(|part| read(Self(part)).map_err(|wrong| wrong.within(field))).transpose()
    }

    /// Makes the texts of a property readable: see [`without_half_pairs`].
    pub(crate) fn mend(&mut self, field: &str) {
        if let Some(value) = self.0.get_mut(field)
            && let Some(mended) = without_half_pairs(value.get())
            && let Ok(mended) = RawValue::from_string(mended)
        {
            *value = mended;
        }
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

/// JSON with U+FFFD for each escaped half of a surrogate pair; `None` without one. JavaScript
/// writes such a half where a text was cut within a character, and no text of ours can hold it.
fn without_half_pairs(json: &str) -> Option<String> {
    let unit_at = |at: usize| {
        let digits = json.get(at..at + 6)?.strip_prefix("\\u")?;
        u16::from_str_radix(digits, 16).ok()
    };
    let mut halves = Vec::new();
    let mut from = 0;
    while let Some(escape) = json[from..].find('\\').map(|at| from + at) {
        from = match (unit_at(escape), unit_at(escape + 6)) {
            (Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff)) => escape + 12,
            (Some(0xd800..=0xdfff), _) => {
                halves.push(escape);
                escape + 6
            }
            _ => escape + 2,
        };
    }
    let mut mended = (!halves.is_empty()).then(|| json.to_owned())?;
    for escape in halves {
        mended.replace_range(escape..escape + 6, "\\ufffd");
    }
    Some(mended)
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

    #[rstest]
    #[case(r#""a""#, None)]
    #[case(r#""\ud83c\udf89 \\ud83c \n""#, None)]
    #[case(r#""a\ud83c""#, Some(r#""a\ufffd""#))]
    #[case(r#"["\udf89\uD83C","\\\ud83cx"]"#, Some(r#"["\ufffd\ufffd","\\\ufffdx"]"#))]
    #[case(r#""\ud83c\ud83c\udf89""#, Some(r#""\ufffd\ud83c\udf89""#))]
    #[case(r#""\ud83c\u00e9""#, Some(r#""\ufffd\u00e9""#))]
    fn half_of_a_pair_is_mended(#[case] json: &str, #[case] expected: Option<&str>) {
        assert_eq!(without_half_pairs(json).as_deref(), expected);
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
