//! Hidden values and language, which links and invites share (contract, section POST
//! /forms/{id}/links; ruling 8).

use std::collections::BTreeMap;

use domain::form::HIDDEN_KEY_MAX;
use domain::values::{LANG_MAX, Lang, shown_property};

use crate::body::fields::at_most;
use crate::body::{BodyFields, JsonValue};
use crate::error::Error;

/// Characters of a key that is too long, in an error.
const LONG_KEY_SHOWN: usize = 20;

/// The values of `hidden` as text, without nulls.
pub(super) fn take_hidden(body: &mut BodyFields) -> Result<BTreeMap<String, String>, Error> {
    let mut texts = BTreeMap::new();
    for (key, value) in body.optional_object("hidden")? {
        if key.chars().count() > HIDDEN_KEY_MAX {
            return Err(too_long(&key));
        }
        let text = match value {
            JsonValue::Null => continue,
            JsonValue::Bool(value) => value.to_string(),
            // A number keeps the text that was sent.
            JsonValue::Number(text) | JsonValue::String(text) => text,
            JsonValue::Array(_) | JsonValue::Object(_) => return Err(no_text(&key)),
        };
        texts.insert(key, text);
    }
    Ok(texts)
}

fn too_long(key: &str) -> Error {
    let start: String = key.chars().take(LONG_KEY_SHOWN).collect();
    let named = shown_property(&start).map_or_else(String::new, |start| format!(": `{start}…`"));
    let most = HIDDEN_KEY_MAX;
    Error::invalid(format!("a key of `hidden` must have at most {most} characters{named}"))
}

fn no_text(key: &str) -> Error {
    let named = shown_property(key).map_or_else(String::new, |key| format!(": `{key}`"));
    Error::invalid(format!(
        "a value of `hidden` must be a string, a number, a boolean or null{named}"
    ))
}

/// `lang`, if it names a supported language. Another language is ignored.
pub(super) fn take_lang(body: &mut BodyFields) -> Result<Option<Lang>, Error> {
    let sent = at_most("lang", LANG_MAX, body.optional_string("lang")?)?;
    Ok(sent.and_then(|code| Lang::read(&code)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::body::json::parse_object;
    use rstest::rstest;

    fn read(json: &str) -> Result<BTreeMap<String, String>, Error> {
        take_hidden(&mut parse_object(json.as_bytes()).unwrap())
    }

    #[rstest]
    #[case(r#"{"hidden":{"a":42}}"#, "42")]
    #[case(r#"{"hidden":{"a":1.50}}"#, "1.50")]
    #[case(r#"{"hidden":{"a":1e400}}"#, "1e400")]
    #[case(r#"{"hidden":{"a":123456789012345678901234567890}}"#, "123456789012345678901234567890")]
    #[case(r#"{"hidden":{"a":true}}"#, "true")]
    #[case(r#"{"hidden":{"a":"x","b":null}}"#, "x")]
    fn a11_values_are_sent_as_text(#[case] json: &str, #[case] text: &str) {
        assert_eq!(read(json), Ok(BTreeMap::from([("a".to_owned(), text.to_owned())])));
    }

    #[rstest]
    #[case("{}")]
    #[case(r#"{"hidden":{}}"#)]
    #[case(r#"{"hidden":{"a":null}}"#)]
    fn a14_hidden_values_may_be_absent(#[case] json: &str) {
        assert_eq!(read(json), Ok(BTreeMap::new()));
    }

    #[rstest]
    fn a5_other_hidden_values_are_refused(
        #[values("[]", "null", "\"x\"", "5", r#"{"a":{}}"#, r#"{"a":[]}"#)] hidden: &str,
    ) {
        assert!(matches!(
            read(&format!(r#"{{"hidden":{hidden}}}"#)),
            Err(Error::InvalidRequest(_))
        ));
    }

    /// The error did not name the key. A key that can be personal is not named.
    #[rstest]
    #[case(r#"{"ref":[]}"#, "null: `ref`")]
    #[case(r#"{"ann@example.com":{}}"#, "or null")]
    #[case(r#"{"b":1,"\u001b":[]}"#, "or null")]
    fn a_hidden_values_error_names_the_key(#[case] hidden: &str, #[case] end: &str) {
        let Err(Error::InvalidRequest(why)) = read(&format!(r#"{{"hidden":{hidden}}}"#)) else {
            panic!("{hidden} was read")
        };
        assert!(why.starts_with("a value of `hidden` must be") && why.ends_with(end), "{why}");
    }

    /// The error did not name the key. A key that can be personal is not named.
    #[rstest]
    #[case("utm_source_of_our_partner", "characters: `utm_source_of_our_pa…`")]
    #[case("ann@example.com", "100 characters")]
    fn a_long_keys_error_names_the_key(#[case] start: &str, #[case] end: &str) {
        let key = format!("{start}{}", "a".repeat(100));
        let Err(Error::InvalidRequest(why)) = read(&format!(r#"{{"hidden":{{"{key}":1}}}}"#))
        else {
            panic!("{key} was read")
        };
        assert!(why.ends_with(end), "{why}");
    }

    #[test]
    fn a12_keys_have_100_characters_at_most() {
        let with_key =
            |chars: usize| read(&format!(r#"{{"hidden":{{"{}":1}}}}"#, "é".repeat(chars)));
        assert!(with_key(100).is_ok());
        assert!(with_key(101).is_err());
    }

    #[rstest]
    #[case(r#"{"lang":"fr"}"#, Ok(Some(Lang::Fr)))]
    #[case(r#"{"lang":"de"}"#, Ok(None))]
    #[case(r#"{"lang":"EN"}"#, Ok(None))]
    #[case("{}", Ok(None))]
    #[case(r#"{"lang":"0123456789"}"#, Ok(None))]
    #[case(r#"{"lang":"01234567890"}"#, Err(()))]
    #[case(r#"{"lang":5}"#, Err(()))]
    #[case(r#"{"lang":null}"#, Err(()))]
    fn a14_other_languages_are_ignored(
        #[case] json: &str,
        #[case] expected: Result<Option<Lang>, ()>,
    ) {
        let read = take_lang(&mut parse_object(json.as_bytes()).unwrap());
        assert_eq!(read.map_err(drop), expected);
    }
}
