//! Reads CloudEvents 1.0 in JSON: one event, an array of events, or one event per line. Reading is
//! strict. An error names the event and the field, and never quotes a value.

use std::collections::BTreeMap;

use domain::activity::{Activity, BATCH_MAX_BYTES, BATCH_MAX_EVENTS, Properties, readable_json};
use domain::values::{Timestamp, parse_id};
use serde_json::value::RawValue;
use uuid::Uuid;

use super::error::{BadEvent, IntakeError};
use crate::body::{BodyError, is_utf8, json};

/// Attributes of an event that are not read yet, as text. Numbers keep their digits.
type Attributes<'a> = BTreeMap<String, &'a RawValue>;

/// Longest `id` or `source`, in bytes. Both are part of one index key.
const ID_BYTES_MAX: usize = 1_024;

/// An activity, with the source and the id that the reporting system gave it.
#[derive(Debug, Clone, PartialEq)]
pub struct CloudEvent {
    /// The firm.
    pub firm_id: Uuid,
    /// The reporting system.
    pub source: String,
    /// The reporting system's id for the activity.
    pub id: String,
    /// Time of the activity, by the reporting system's clock.
    pub time: Timestamp,
    /// The reported activity.
    pub activity: Activity,
    /// Line of the event, counted from 1, if the batch has lines.
    pub line: Option<usize>,
}

/// How events are written in a request body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventFormat {
    /// `application/cloudevents+json`: one event.
    Single,
    /// `application/cloudevents-batch+json`: an array of events.
    Batch,
    /// `application/x-ndjson`: one event per line.
    Lines,
}

impl EventFormat {
    /// The format that a `Content-Type` names, if it is one of the three, in UTF-8.
    #[must_use]
    pub fn of_content_type(content_type: &str) -> Option<Self> {
        let mut parts = content_type.split(';').map(|part| part.trim().to_ascii_lowercase());
        let essence = parts.next().unwrap_or_default();
        let mut charsets =
            parts.filter_map(|part| part.strip_prefix("charset=").map(str::to_owned));
        if !charsets.all(|charset| is_utf8(&charset)) {
            return None;
        }
        match essence.as_str() {
            "application/cloudevents+json" => Some(Self::Single),
            "application/cloudevents-batch+json" => Some(Self::Batch),
            "application/x-ndjson" => Some(Self::Lines),
            _ => None,
        }
    }
}

/// Reads the events of a request.
///
/// # Errors
/// [`IntakeError`] names the fault of the request, or the first faulty event.
pub fn parse_events(format: EventFormat, body: &[u8]) -> Result<Vec<CloudEvent>, IntakeError> {
    if body.len() > BATCH_MAX_BYTES {
        return Err(IntakeError::TooLarge);
    }
    let text = str::from_utf8(body)
        .map_err(|_| IntakeError::NotABatch("the body is not UTF-8".to_owned()))?;
    let items = match format {
        EventFormat::Single => vec![RawEvent { line: None, text }],
        EventFormat::Batch => split_array(text)?,
        EventFormat::Lines => split_lines(text),
    };
    if items.len() > BATCH_MAX_EVENTS {
        return Err(IntakeError::TooMany);
    }
    items.into_iter().enumerate().map(|(index, item)| item.parse_event(index)).collect()
}

/// One event that is not read yet.
struct RawEvent<'a> {
    line: Option<usize>,
    text: &'a str,
}

impl RawEvent<'_> {
    fn parse_event(self, index: usize) -> Result<CloudEvent, IntakeError> {
        let line = self.line;
        let event = parse_text(self.text).map_err(|why| BadEvent { index, line, why })?;
        Ok(CloudEvent { line, ..event })
    }
}

/// Splits the array as text first, so that an error within an item names that item.
fn split_array(text: &str) -> Result<Vec<RawEvent<'_>>, IntakeError> {
    let items: Vec<&RawValue> = serde_json::from_str(text).map_err(|error| {
        IntakeError::NotABatch(format!(
            "the body is not a JSON array of events: line {}, column {}",
            error.line(),
            error.column()
        ))
    })?;
    Ok(items.into_iter().map(|item| RawEvent { line: None, text: item.get() }).collect())
}

/// Splits at line ends. Blank lines are no events. One event too many is kept, so that the caller
/// sees that there are too many.
fn split_lines(text: &str) -> Vec<RawEvent<'_>> {
    (1..)
        .zip(text.split('\n'))
        .filter(|(_, text)| !text.trim_ascii().is_empty())
        .take(BATCH_MAX_EVENTS + 1)
        .map(|(line, text)| RawEvent { line: Some(line), text })
        .collect()
}

fn parse_text(text: &str) -> Result<CloudEvent, String> {
    // No text can hold U+0000 or half of a surrogate pair: their escapes are replaced (ruling 53).
    let text = readable_json(text);
    let mut attributes = json::parse_properties(text.as_bytes()).map_err(|error| match error {
        BodyError::Malformed(why) => format!("not valid JSON: {why}"),
        BodyError::Ambiguous(why) => format!("not valid JSON: {why}"),
        BodyError::NotAnObject => "not a JSON object".to_owned(),
        other => other.to_string(),
    })?;
    if take_required(&mut attributes, "specversion")? != "1.0" {
        return Err("specversion: only 1.0 is read".to_owned());
    }
    let id = take_name(&mut attributes, "id")?;
    let source = take_name(&mut attributes, "source")?;
    let kind = take_required(&mut attributes, "type")?;
    let time = take_required(&mut attributes, "time")?
        .parse()
        .map_err(|error| format!("time: {error}"))?;
    let firm_id = parse_id(&take_required(&mut attributes, "firmid")?)
        .ok_or_else(|| "firmid: not a hyphenated UUID".to_owned())?;
    let activity =
        Activity::read(&kind, take_data(&mut attributes)?).map_err(|error| error.to_string())?;
    Ok(CloudEvent { firm_id, source, id, time, activity, line: None })
}

fn take_name(attributes: &mut Attributes<'_>, attribute: &str) -> Result<String, String> {
    let text = take_required(attributes, attribute)?;
    match text.len() {
        0 => Err(format!("{attribute}: empty")),
        1..=ID_BYTES_MAX => Ok(text),
        _ => Err(format!("{attribute}: longer than {ID_BYTES_MAX} bytes")),
    }
}

/// CloudEvents treats null as a missing attribute.
fn take_required(attributes: &mut Attributes<'_>, attribute: &str) -> Result<String, String> {
    match attributes.remove(attribute).map(RawValue::get) {
        None | Some("null") => Err(format!("{attribute}: missing")),
        Some(text) => serde_json::from_str(text).map_err(|_| format!("{attribute}: not a string")),
    }
}

/// Missing data is read as an empty object, because some types have no data.
fn take_data(attributes: &mut Attributes<'_>) -> Result<Properties, String> {
    if attributes.contains_key("data_base64") {
        return Err("data_base64: not read, send `data`".to_owned());
    }
    match attributes.remove("data").map(RawValue::get) {
        None | Some("null") => Ok(Properties::new()),
        Some(text) => serde_json::from_str(text).map_err(|_| "data: not an object".to_owned()),
    }
}

#[cfg(test)]
mod tests;
