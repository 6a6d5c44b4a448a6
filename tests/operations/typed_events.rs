//! The types of events in the packages of `integrations`, made from the description of the public
//! API. `UPDATE=1` writes them.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;
use tests::assert_file_is;

const MADE: &str = "Made from the description of the API by tests/operations/typed_events.rs.";

/// The schema of every event.
const ROOT: &str = "EventPayload";

/// Schemas that a package has as plain text.
const TEXTS: [&str; 2] = ["Id", "Timestamp"];

/// The type of a property in any language.
enum PropertyType {
    Text,
    Whole,
    Anything,
    Named(String),
    List(Box<Self>),
    ByName(Box<Self>),
    OrNull(Box<Self>),
}

impl PropertyType {
    fn new(schema: &Value) -> Self {
        if let Some(name) = referred(schema) {
            let is_text = TEXTS.contains(&name);
            return if is_text { Self::Text } else { Self::Named(name.to_owned()) };
        }
        if let Some(choices) = schema["anyOf"].as_array() {
            return Self::OrNull(Box::new(Self::new(&choices[0])));
        }
        if let Some(types) = schema["type"].as_array() {
            assert_eq!(types[..], ["string", "null"], "{schema}");
            return Self::OrNull(Box::new(Self::Text));
        }
        match schema["type"].as_str() {
            Some("string") => Self::Text,
            Some("integer") => Self::Whole,
            Some("array") => Self::List(Box::new(Self::new(&schema["items"]))),
            Some("object") => Self::ByName(Box::new(match &schema["additionalProperties"] {
                Value::Bool(true) => Self::Anything,
                values => Self::new(values),
            })),
            _ => panic!("no type for {schema}"),
        }
    }

    fn typescript(&self) -> String {
        match self {
            Self::Text => "string".to_owned(),
            Self::Whole => "number".to_owned(),
            Self::Anything => "unknown".to_owned(),
            Self::Named(name) => name.clone(),
            Self::List(item) => format!("{}[]", item.typescript()),
            Self::ByName(value) => format!("Record<string, {}>", value.typescript()),
            Self::OrNull(value) => format!("{} | null", value.typescript()),
        }
    }

    fn python(&self) -> String {
        match self {
            Self::Text => "str".to_owned(),
            Self::Whole => "int".to_owned(),
            Self::Anything => "Any".to_owned(),
            Self::Named(name) => name.clone(),
            Self::List(item) => format!("List[{}]", item.python()),
            Self::ByName(value) => format!("Dict[str, {}]", value.python()),
            Self::OrNull(value) => format!("Optional[{}]", value.python()),
        }
    }

    fn rust(&self) -> String {
        match self {
            Self::Text => "String".to_owned(),
            Self::Whole => "u64".to_owned(),
            Self::Anything => "Value".to_owned(),
            Self::Named(name) => name.clone(),
            Self::List(item) => format!("Vec<{}>", item.rust()),
            Self::ByName(value) => format!("BTreeMap<String, {}>", value.rust()),
            Self::OrNull(value) => format!("Option<{}>", value.rust()),
        }
    }
}

struct EventProperty {
    name: String,
    about: String,
    kind: PropertyType,
    is_required: bool,
}

struct EventType {
    name: String,
    about: String,
    properties: Vec<EventProperty>,
}

fn referred(schema: &Value) -> Option<&str> {
    schema["$ref"].as_str().map(|it| it.rsplit('/').next().unwrap())
}

/// Names of all schemas that a schema leads to.
fn collect(schema: &Value, schemas: &Value, names: &mut BTreeSet<String>) {
    if let Some(name) = referred(schema)
        && !TEXTS.contains(&name)
        && names.insert(name.to_owned())
    {
        collect(&schemas[name], schemas, names);
    }
    match schema {
        Value::Object(parts) => parts.values().for_each(|it| collect(it, schemas, names)),
        Value::Array(parts) => parts.iter().for_each(|it| collect(it, schemas, names)),
        _ => {}
    }
}

fn event_type(name: &str, schemas: &Value) -> EventType {
    let schema = &schemas[name];
    let required = schema["required"].as_array().unwrap();
    let about = |schema: &Value| {
        let own = schema["description"].as_str();
        let named = || schemas[referred(schema)?]["description"].as_str();
        own.or_else(named).unwrap_or("By name.").to_owned()
    };
    let properties = schema["properties"].as_object().unwrap().iter();
    let property = |(name, schema): (&String, &Value)| EventProperty {
        name: name.clone(),
        about: if name == "answers" {
            "One for each answered question.".into()
        } else {
            about(schema)
        },
        kind: PropertyType::new(schema),
        is_required: required.iter().any(|it| it == name),
    };
    EventType {
        name: name.to_owned(),
        about: about(schema),
        properties: properties.map(property).collect(),
    }
}

fn document() -> Value {
    api::openapi::document("https://api.example.com/api/v1")
}

/// The types, and the names of all triggers.
fn described() -> (Vec<EventType>, Vec<String>) {
    let document = document();
    let schemas = &document["components"]["schemas"];
    let mut names = BTreeSet::from([ROOT.to_owned()]);
    collect(&schemas[ROOT], schemas, &mut names);
    let types = names.iter().map(|name| event_type(name, schemas)).collect();
    (types, document["webhooks"].as_object().unwrap().keys().cloned().collect())
}

fn typescript(types: &[EventType], events: &[String]) -> String {
    let mut text = format!("// {MADE}\n\n/** Events of this version. New ones can appear. */\n");
    text += "export const EVENTS = [\n";
    events.iter().for_each(|event| text += &format!("  \"{event}\",\n"));
    text += "] as const;\n\nexport type EventName = (typeof EVENTS)[number];\n";
    for EventType { name, about, properties } in types {
        text += &format!("\n/** {about} */\nexport interface {name} {{\n");
        for EventProperty { name, about, kind, is_required } in properties {
            let mark = if *is_required { "" } else { "?" };
            text += &format!("  /** {about} */\n  {name}{mark}: {};\n", kind.typescript());
        }
        text += "}\n";
    }
    text += "\n/** The payload of one event. */\n";
    text += "export type EventOf<Name extends EventName> = EventPayload & { event: Name };\n\n";
    text += "/** The payload of any event of this version: narrow it by `event`. */\n";
    text += "export type KnownEvent = { [Name in EventName]: EventOf<Name> }[EventName];\n";
    text
}

fn python(types: &[EventType], events: &[String]) -> String {
    let mut text = format!("\"\"\"{MADE}\"\"\"\n\nfrom __future__ import annotations\n\n");
    text += "from typing import Any, Dict, List, Optional, Tuple, TypedDict\n\n";
    text += "# Events of this version. New ones can appear.\nEVENTS: Tuple[str, ...] = (\n";
    events.iter().for_each(|event| text += &format!("    \"{event}\",\n"));
    text += ")\n";
    for EventType { name, about, properties } in types {
        let (required, optional): (Vec<_>, Vec<_>) =
            properties.iter().partition(|it| it.is_required);
        // `NotRequired` is newer than the oldest Python that the package supports.
        let mut base = "TypedDict".to_owned();
        if !optional.is_empty() {
            text += &format!("\n\nclass _{name}Optional(TypedDict, total=False):\n");
            text += &python_lines(&optional);
            base = format!("_{name}Optional");
        }
        text += &format!("\n\nclass {name}({base}):\n    \"\"\"{about}\"\"\"\n\n");
        text += &python_lines(&required);
    }
    text
}

fn python_lines(properties: &[&EventProperty]) -> String {
    let line = |EventProperty { name, about, kind, .. }: &&EventProperty| {
        format!("    # {about}\n    {name}: {}\n", kind.python())
    };
    properties.iter().map(line).collect()
}

fn rust(types: &[EventType], events: &[String]) -> String {
    let mut text = format!("//! Types of events. {MADE}\n\nuse std::collections::BTreeMap;\n\n");
    text += "use serde::{Deserialize, Serialize};\nuse serde_json::Value;\n\n";
    text += "/// Events of this version. New ones can appear.\n";
    text += &format!("pub const EVENTS: [&str; {}] = [\n", events.len());
    events.iter().for_each(|event| text += &format!("    \"{event}\",\n"));
    text += "];\n";
    for EventType { name, about, properties } in types {
        text +=
            &format!("\n/// {about}\n#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]\n");
        text += &format!("#[non_exhaustive]\npub struct {name} {{\n");
        for EventProperty { name, about, kind, is_required } in properties {
            let name = if name == "type" { "r#type" } else { name };
            text += &format!("    /// {about}\n");
            let mut kind = kind.rust();
            if !is_required {
                text += "    #[serde(default, skip_serializing_if = \"Option::is_none\")]\n";
                kind = format!("Option<{kind}>");
            }
            text += &format!("    pub {name}: {kind},\n");
        }
        text += "}\n";
    }
    text
}

#[test]
fn package_types_follow_the_api_description() {
    let (types, events) = described();
    let packages = Path::new("integrations");
    let pages = [
        ("webhooks-js/src/events.ts", typescript(&types, &events)),
        ("webhooks-python/src/firmforms_webhooks/events.py", python(&types, &events)),
        ("webhooks-rust/src/events.rs", rust(&types, &events)),
    ];
    for (path, expected) in pages {
        assert_file_is(&packages.join(path), &expected);
    }
}

#[test]
fn zapier_samples_equal_the_descriptions_examples() {
    let document = document();
    let webhooks = document["webhooks"].as_object().unwrap().iter();
    let example = |(event, webhook): (&String, &Value)| {
        let body = &webhook["post"]["requestBody"]["content"]["application/json"];
        (event.clone(), body["examples"]["example"]["value"].clone())
    };
    let samples: Value = webhooks.map(example).collect::<serde_json::Map<_, _>>().into();
    let expected = format!("{}\n", serde_json::to_string_pretty(&samples).unwrap());
    assert_file_is(Path::new("integrations/zapier/samples.json"), &expected);
}
