//! Fields of an object, taken by name and type. An error names the field and never its value.

use std::collections::BTreeMap;

use domain::values::{parse_id, shown_property};
use uuid::Uuid;

use super::JsonValue;

/// Fields of an object that are not taken yet.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct BodyFields(pub(crate) BTreeMap<String, JsonValue>);

/// A field that is missing, has another type, or is too long.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FieldError {
    /// It must be there.
    #[error("`{0}` is missing")]
    Missing(&'static str),
    /// It must be there. A property of another name may be meant for it.
    #[error("`{0}` is missing; `{1}` is no property of this endpoint")]
    Misnamed(&'static str, String),
    /// It must be a string.
    #[error("`{0}` must be a string")]
    NotAString(&'static str),
    /// It must be an id.
    #[error("`{0}` must be a hyphenated UUID")]
    NotAnId(&'static str),
    /// It must be an object.
    #[error("`{0}` must be an object")]
    NotAnObject(&'static str),
    /// It must be a whole number that is not negative.
    #[error("`{0}` must be a whole number")]
    NotAWholeNumber(&'static str),
    /// It must be an array of ids.
    #[error("`{0}` must be an array of hyphenated UUIDs")]
    NotIds(&'static str),
    /// It must be `true` or `false`.
    #[error("`{0}` must be true or false")]
    NotABoolean(&'static str),
    /// The string has a greatest length, in characters.
    #[error("`{0}` must have at most {1} characters")]
    TooLong(&'static str, usize),
    /// A property the endpoint does not have, by name unless the name may be a value.
    #[error("the body has a property that this endpoint does not take{}", named(.0.as_ref()))]
    Unknown(Option<String>),
}

impl BodyFields {
    /// A string that must be there.
    pub(crate) fn string(&mut self, name: &'static str) -> Result<String, FieldError> {
        self.optional_string(name)?.ok_or(FieldError::Missing(name))
    }

    /// A string that may be missing. Null is refused.
    pub(crate) fn optional_string(
        &mut self,
        name: &'static str,
    ) -> Result<Option<String>, FieldError> {
        match self.0.remove(name) {
            None => Ok(None),
            Some(JsonValue::String(text)) => Ok(Some(text)),
            Some(_) => Err(FieldError::NotAString(name)),
        }
    }

    /// A string that may be missing or null.
    pub(crate) fn nullable_string(
        &mut self,
        name: &'static str,
    ) -> Result<Option<String>, FieldError> {
        self.0.retain(|field, value| field != name || *value != JsonValue::Null);
        self.optional_string(name)
    }

    /// An id that must be there.
    pub(crate) fn id(&mut self, name: &'static str) -> Result<Uuid, FieldError> {
        self.optional_id(name)?.ok_or(FieldError::Missing(name))
    }

    /// An id that may be missing or null.
    pub(crate) fn optional_id(&mut self, name: &'static str) -> Result<Option<Uuid>, FieldError> {
        match self.0.remove(name) {
            None | Some(JsonValue::Null) => Ok(None),
            Some(JsonValue::String(text)) => {
                parse_id(&text).map(Some).ok_or(FieldError::NotAnId(name))
            }
            Some(_) => Err(FieldError::NotAnId(name)),
        }
    }

    /// A boolean that may be missing.
    pub(crate) fn optional_bool(&mut self, name: &'static str) -> Result<Option<bool>, FieldError> {
        match self.0.remove(name) {
            None => Ok(None),
            Some(JsonValue::Bool(value)) => Ok(Some(value)),
            Some(_) => Err(FieldError::NotABoolean(name)),
        }
    }

    /// A whole number that may be missing.
    pub(crate) fn optional_number(
        &mut self,
        name: &'static str,
    ) -> Result<Option<u32>, FieldError> {
        match self.0.remove(name) {
            None => Ok(None),
            Some(JsonValue::Number(text)) => {
                text.parse().map(Some).map_err(|_| FieldError::NotAWholeNumber(name))
            }
            Some(_) => Err(FieldError::NotAWholeNumber(name)),
        }
    }

    /// A list of ids, empty if missing.
    pub(crate) fn ids(&mut self, name: &'static str) -> Result<Vec<Uuid>, FieldError> {
        let Some(value) = self.0.remove(name) else {
            return Ok(Vec::new());
        };
        let JsonValue::Array(items) = value else {
            return Err(FieldError::NotIds(name));
        };
        let id = |item| match item {
            JsonValue::String(text) => parse_id(&text).ok_or(FieldError::NotIds(name)),
            _ => Err(FieldError::NotIds(name)),
        };
        items.into_iter().map(id).collect()
    }

    /// An object, empty if missing.
    pub(crate) fn optional_object(
        &mut self,
        name: &'static str,
    ) -> Result<BTreeMap<String, JsonValue>, FieldError> {
        match self.0.remove(name) {
            None => Ok(BTreeMap::new()),
            Some(JsonValue::Object(entries)) => Ok(entries),
            Some(_) => Err(FieldError::NotAnObject(name)),
        }
    }

    /// Refuses fields that the endpoint has not taken.
    pub(crate) fn refuse_unknown(self) -> Result<(), FieldError> {
        if self.0.is_empty() { Ok(()) } else { Err(FieldError::Unknown(self.first_left())) }
    }

    /// The error for a missing field, after all others are taken.
    pub(crate) fn missing_field(&self, name: &'static str) -> FieldError {
        match self.first_left() {
            Some(left) => FieldError::Misnamed(name, left),
            None => FieldError::Missing(name),
        }
    }

    /// The first field left whose name may be shown.
    fn first_left(&self) -> Option<String> {
        self.0.keys().find_map(|name| shown_property(name)).map(str::to_owned)
    }
}

fn named(property: Option<&String>) -> String {
    property.map_or_else(String::new, |name| format!(": `{name}`"))
}

/// Checks a text's greatest length, in Unicode scalar values (ruling 14c).
pub(crate) fn at_most(
    name: &'static str,
    max: usize,
    text: Option<String>,
) -> Result<Option<String>, FieldError> {
    match text {
        Some(text) if text.chars().count() > max => Err(FieldError::TooLong(name, max)),
        text => Ok(text),
    }
}
