//! The metadata of every event: actor, firm, time and cause.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::value::{RawValue, to_raw_value};
use uuid::Uuid;

use super::operator::{OperatorName, Terminal};
use super::trace::Traceparent;
use crate::values::Timestamp;

/// The actor that caused an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Actor {
    /// A caller of the public API, by its key.
    Key(Uuid),
    /// A person of the firm who used the product's screens.
    Member(Uuid),
    /// An operator, by the token used, or by the user of the provider. Nil at a terminal of an
    /// older build.
    Operator(Uuid),
    /// An operator at a terminal, by name (ruling 46).
    NamedOperator(OperatorName),
    /// An auditor, by the token used, or by the user of the provider.
    Auditor(Uuid),
    /// The product, by the token of its report. Nil for a file of an older build.
    Product(Uuid),
    /// The receiver of a subscription's deliveries, by its answer.
    Receiver(Uuid),
    /// The recipient of a mail, by the link in the mail.
    Person(Uuid),
    /// The service itself.
    System,
}

impl fmt::Display for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Key(id) => write!(f, "key:{id}"),
            Self::Member(id) => write!(f, "member:{id}"),
            Self::Operator(id) => write!(f, "operator:{id}"),
            Self::NamedOperator(name) => write!(f, "operator:{name}"),
            Self::Auditor(id) => write!(f, "auditor:{id}"),
            Self::Product(id) => write!(f, "product:{id}"),
            Self::Receiver(id) => write!(f, "receiver:{id}"),
            Self::Person(id) => write!(f, "person:{id}"),
            Self::System => f.write_str("system"),
        }
    }
}

impl FromStr for Actor {
    type Err = NotAContext;

    fn from_str(text: &str) -> Result<Self, NotAContext> {
        if text == "system" {
            return Ok(Self::System);
        }
        let (kind, id) = text.split_once(':').ok_or(NotAContext("actor"))?;
        if let ("operator", Ok(name)) = (kind, id.parse()) {
            return Ok(Self::NamedOperator(name));
        }
        let id = id.parse().map_err(|_| NotAContext("actor"))?;
        match kind {
            "key" => Ok(Self::Key(id)),
            "member" => Ok(Self::Member(id)),
            "operator" => Ok(Self::Operator(id)),
            "auditor" => Ok(Self::Auditor(id)),
            "product" => Ok(Self::Product(id)),
            "receiver" => Ok(Self::Receiver(id)),
            "person" => Ok(Self::Person(id)),
            _ => Err(NotAContext("actor")),
        }
    }
}

/// The metadata of an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventContext {
    /// The firm the event belongs to.
    pub firm_id: Uuid,
    /// Recording time, by the database's clock.
    pub recorded_at: Timestamp,
    /// The actor.
    pub actor: Actor,
    /// The request or batch of the event.
    pub correlation_id: Uuid,
    /// The event that caused this one, if any.
    pub causation_id: Option<Uuid>,
    /// The W3C trace of the event, if any.
    pub traceparent: Option<Traceparent>,
    /// The terminal, if an operator gave the command at one.
    pub terminal: Option<Arc<Terminal>>,
}

const FIRM_ID: &str = "firm_id";
const RECORDED_AT: &str = "recorded_at";
const ACTOR: &str = "actor";
const CORRELATION_ID: &str = "correlation_id";
const CAUSATION_ID: &str = "causation_id";
const TRACEPARENT: &str = "traceparent";
const TERMINAL_HOST: &str = "terminal_host";
const TERMINAL_LOGIN: &str = "terminal_login";
const TERMINAL_USER: &str = "terminal_user";

impl EventContext {
    /// A copy of the context for events that `event_id` causes.
    #[must_use]
    pub fn caused_by(&self, event_id: Uuid) -> Self {
        Self { causation_id: Some(event_id), ..self.clone() }
    }

    /// Writes the metadata column as canonical JSON (RFC 8785). Firm and recording time have
    /// columns of their own.
    ///
    /// # Errors
    /// None, because all parts are texts.
    pub fn to_metadata(&self) -> serde_json::Result<Box<RawValue>> {
        let Self { actor, correlation_id, causation_id, traceparent, .. } = *self;
        to_raw_value(&EventMetadata {
            actor: AsText(actor),
            causation_id,
            correlation_id,
            terminal_host: self.terminal.as_ref().map(|at| at.host.clone()),
            terminal_login: self.terminal.as_ref().map(|at| at.login.clone()),
            terminal_user: self.terminal.as_ref().map(|at| at.user.clone()),
            traceparent: traceparent.map(AsText),
        })
    }

    /// Restores the context from a stored event's columns and metadata.
    ///
    /// # Errors
    /// The error names a part that is missing or malformed.
    pub fn from_metadata(
        firm_id: Uuid,
        recorded_at: Timestamp,
        metadata: &RawValue,
    ) -> serde_json::Result<Self> {
        let stored = EventMetadata::deserialize(metadata)?;
        Ok(Self {
            firm_id,
            recorded_at,
            actor: stored.actor.0,
            correlation_id: stored.correlation_id,
            causation_id: stored.causation_id,
            traceparent: stored.traceparent.map(|text| text.0),
            terminal: whole_terminal(
                stored.terminal_host,
                stored.terminal_login,
                stored.terminal_user,
            ),
        })
    }

    /// Writes the context as the flat map that cqrs-es carries from a command to the store.
    #[must_use]
    pub fn to_map(&self) -> HashMap<String, String> {
        let mut map = HashMap::from([
            (FIRM_ID.to_owned(), self.firm_id.to_string()),
            (RECORDED_AT.to_owned(), self.recorded_at.to_string()),
            (ACTOR.to_owned(), self.actor.to_string()),
            (CORRELATION_ID.to_owned(), self.correlation_id.to_string()),
        ]);
        if let Some(id) = self.causation_id {
            map.insert(CAUSATION_ID.to_owned(), id.to_string());
        }
        if let Some(trace) = &self.traceparent {
            map.insert(TRACEPARENT.to_owned(), trace.to_string());
        }
        if let Some(terminal) = &self.terminal {
            map.insert(TERMINAL_HOST.to_owned(), terminal.host.clone());
            map.insert(TERMINAL_LOGIN.to_owned(), terminal.login.clone());
            map.insert(TERMINAL_USER.to_owned(), terminal.user.clone());
        }
        map
    }

    /// Reads the map that [`EventContext::to_map`] wrote.
    ///
    /// # Errors
    /// [`NotAContext`] names the part that is missing or malformed.
    pub fn from_map(map: &HashMap<String, String>) -> Result<Self, NotAContext> {
        let text = |name| map.get(name).cloned();
        Ok(Self {
            firm_id: required_value(map, FIRM_ID)?,
            recorded_at: required_value(map, RECORDED_AT)?,
            actor: required_value(map, ACTOR)?,
            correlation_id: required_value(map, CORRELATION_ID)?,
            causation_id: optional_value(map, CAUSATION_ID)?,
            traceparent: optional_value(map, TRACEPARENT)?,
            terminal: whole_terminal(
                text(TERMINAL_HOST),
                text(TERMINAL_LOGIN),
                text(TERMINAL_USER),
            ),
        })
    }
}

/// The metadata column: texts, as cqrs-es demands, in alphabetical order, as canonical JSON
/// demands.
#[derive(Serialize, Deserialize)]
struct EventMetadata {
    actor: AsText<Actor>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    causation_id: Option<Uuid>,
    correlation_id: Uuid,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    terminal_host: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    terminal_login: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    terminal_user: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    traceparent: Option<AsText<Traceparent>>,
}

/// A part that is written as text.
struct AsText<T>(T);

impl<T: fmt::Display> Serialize for AsText<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl<'de, T: FromStr<Err: fmt::Display>> Deserialize<'de> for AsText<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<str>::deserialize(deserializer)?;
        text.parse().map(Self).map_err(de::Error::custom)
    }
}

fn required_value<T: FromStr>(
    map: &HashMap<String, String>,
    name: &'static str,
) -> Result<T, NotAContext> {
    map.get(name).and_then(|text| text.parse().ok()).ok_or(NotAContext(name))
}

fn optional_value<T: FromStr>(
    map: &HashMap<String, String>,
    name: &'static str,
) -> Result<Option<T>, NotAContext> {
    map.get(name).map(|text| text.parse().map_err(|_| NotAContext(name))).transpose()
}

fn whole_terminal(
    host: Option<String>,
    login: Option<String>,
    user: Option<String>,
) -> Option<Arc<Terminal>> {
    Some(Arc::new(Terminal { host: host?, login: login?, user: user? }))
}

/// The metadata lacks a part that every event has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("event metadata without a readable `{0}`")]
pub struct NotAContext(pub &'static str);

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    #[test]
    fn a_context_survives_map_and_column() {
        for actor in [
            Actor::Key(Uuid::from_u128(1)),
            Actor::Member(Uuid::from_u128(2)),
            Actor::Operator(Uuid::nil()),
            Actor::NamedOperator("ann.lee@example.com".parse().unwrap()),
            Actor::Auditor(Uuid::from_u128(8)),
            Actor::Product(Uuid::from_u128(3)),
            Actor::Receiver(Uuid::from_u128(4)),
            Actor::Person(Uuid::from_u128(5)),
            Actor::System,
        ] {
            let context = EventContext {
                firm_id: Uuid::from_u128(5),
                recorded_at: "2026-11-01T10:00:00.123Z".parse().unwrap(),
                actor,
                correlation_id: Uuid::from_u128(6),
                causation_id: Some(Uuid::from_u128(7)),
                traceparent: Some(Traceparent {
                    trace_id: [1; 16],
                    parent_id: [2; 8],
                    sampled: true,
                }),
                terminal: Some(Arc::new(Terminal {
                    host: "ops-\"1\"\u{1f}é".into(),
                    login: "postgres".into(),
                    user: "ann".into(),
                })),
            };
            assert_eq!(EventContext::from_map(&context.to_map()).as_ref(), Ok(&context));
            let bare = EventContext {
                causation_id: None,
                traceparent: None,
                terminal: None,
                ..context.clone()
            };
            for context in [context, bare] {
                let metadata = context.to_metadata().unwrap();
                let EventContext { firm_id, recorded_at, .. } = context;
                let read = EventContext::from_metadata(firm_id, recorded_at, &metadata);
                assert_eq!(read.unwrap(), context);
                let value: Value = serde_json::from_str(metadata.get()).unwrap();
                let canonical = serde_json_canonicalizer::to_string(&value).unwrap();
                assert_eq!(metadata.get(), canonical);
            }
        }
    }

    #[test]
    fn a_missing_or_malformed_part_is_named() {
        assert_eq!(EventContext::from_map(&HashMap::new()), Err(NotAContext("firm_id")));
        for text in [
            "",
            "key",
            "key:x",
            "operator:",
            "operator:a b",
            "moon:00000000-0000-0000-0000-000000000001",
        ] {
            assert!(text.parse::<Actor>().is_err(), "{text}");
        }
    }
}
