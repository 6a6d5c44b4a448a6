//! The description as tests read it.

use std::collections::BTreeMap;
use std::sync::{LazyLock, Mutex};

use api::openapi::document;
use jsonschema::Validator;
use serde_json::{Value, json};
use tests::{Answer, BASE_URL};

static DESCRIPTION: LazyLock<Value> = LazyLock::new(|| document(BASE_URL));

/// The components of the description, with closed schemas of answers.
static COMPONENTS: LazyLock<Value> = LazyLock::new(|| closed(description()["components"].clone()));

/// Validators by the texts of their schemas. It takes longer to make one than to make a call.
static VALIDATORS: Mutex<BTreeMap<String, Validator>> = Mutex::new(BTreeMap::new());

/// The description of the service of a world.
pub(super) fn description() -> &'static Value {
    &DESCRIPTION
}

/// An operation of the description.
#[derive(Debug, Clone)]
pub(super) struct Operation {
    pub(super) method: String,
    /// With its parameters in braces.
    pub(super) path: String,
    pub(super) described: Value,
}

/// A possible answer of an operation: a status, and a code unless it is a success.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Outcome {
    pub(super) status: u16,
    pub(super) code: String,
}

impl Outcome {
    pub(super) fn is_rate_limited(&self) -> bool {
        self.code == "rate_limited"
    }
}

impl Operation {
    pub(super) fn all() -> Vec<Self> {
        let paths = description()["paths"].as_object().unwrap();
        let operations = paths.iter().flat_map(|(path, methods)| {
            methods.as_object().unwrap().iter().map(|(method, described)| Self {
                method: method.to_uppercase(),
                path: path.clone(),
                described: described.clone(),
            })
        });
        operations.collect()
    }

    pub(super) fn id(&self) -> &str {
        self.described["operationId"].as_str().unwrap()
    }

    /// The body of its example. Null if the operation takes no body.
    pub(super) fn body(&self) -> Value {
        self.described["requestBody"]["content"]["application/json"]["example"].clone()
    }

    pub(super) fn parameters(&self) -> impl Iterator<Item = Value> {
        self.described["parameters"].as_array().into_iter().flatten().map(resolved)
    }

    /// Its path, with this value for each parameter.
    pub(super) fn at(&self, value: impl Fn(&str) -> String) -> String {
        self.parameters().filter(|parameter| parameter["in"] == "path").fold(
            self.path.clone(),
            |path, parameter| {
                let name = parameter["name"].as_str().unwrap();
                path.replace(&format!("{{{name}}}"), &value(name))
            },
        )
    }

    /// All possible answers.
    pub(super) fn outcomes(&self) -> Vec<Outcome> {
        let responses = self.described["responses"].as_object().unwrap();
        responses.keys().flat_map(|status| self.outcomes_of(status)).collect()
    }

    fn outcomes_of(&self, status: &str) -> Vec<Outcome> {
        let content = &self.response(status)["content"]["application/json"];
        let status = status.parse().unwrap();
        let outcome = |code: &str| Outcome { status, code: code.to_owned() };
        match content["examples"].as_object() {
            // An error has an example per code, and one schema.
            Some(codes) if status >= 400 => {
                assert_eq!(content["schema"], json!({"$ref": "#/components/schemas/Error"}));
                codes.keys().map(|code| outcome(code)).collect()
            }
            _ => vec![outcome("")],
        }
    }

    fn response(&self, status: &str) -> Value {
        resolved(&self.described["responses"][status])
    }

    /// Checks an answer against the described response of its status.
    pub(super) fn check(&self, answer: &Answer) {
        let call = format!("{} {} {}", self.method, self.path, answer.status);
        let response = self.response(answer.status.as_str());
        if response["content"].is_null() {
            assert!(answer.bytes.is_empty(), "{call}");
        } else {
            assert_eq!(answer.headers["content-type"], "application/json", "{call}");
            conforms(&response["content"]["application/json"]["schema"], &answer.body, &call);
        }
        for (name, header) in response["headers"].as_object().into_iter().flatten() {
            let header = resolved(header);
            let Some(text) = answer.headers.get(name.as_str()) else {
                assert_ne!(header["required"], true, "{call}: {name}");
                continue;
            };
            let text = text.to_str().unwrap();
            conforms(&header["schema"], &read(text, &header["schema"]), &format!("{call}: {name}"));
        }
    }
}

/// A value, or the part of the description that it refers to.
pub(super) fn resolved(value: &Value) -> Value {
    match value["$ref"].as_str() {
        None => value.clone(),
        Some(reference) => description().pointer(&reference[1..]).unwrap().clone(),
    }
}

/// A header's text in the type of its schema.
pub(super) fn read(text: &str, schema: &Value) -> Value {
    if schema["type"] == "integer" { json!(text.parse::<i64>().unwrap()) } else { json!(text) }
}

/// A validator whose references lead into the description. Formats are checked, too.
pub(super) fn validator(schema: &Value) -> Validator {
    let make = || {
        let root = json!({"components": *COMPONENTS, "allOf": [schema]});
        jsonschema::draft202012::options().should_validate_formats(true).build(&root).unwrap()
    };
    let mut made = VALIDATORS.lock().unwrap();
    made.entry(schema.to_string()).or_insert_with(make).clone()
}

pub(super) fn conforms(schema: &Value, value: &Value, what: &str) {
    let errors: Vec<_> =
        validator(schema).iter_errors(value).map(|error| error.to_string()).collect();
    assert_eq!(errors, [""; 0], "{what}: {value}");
}

/// Schemas of answers allow more fields, so that clients do. Here these schemas are closed, so that
/// a field outside the description is a fault. Schemas of requests stay as they are.
fn closed(mut components: Value) -> Value {
    for (name, schema) in components["schemas"].as_object_mut().unwrap() {
        if !name.starts_with("New") {
            close(schema);
        }
    }
    components
}

fn close(schema: &mut Value) {
    let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) else {
        return;
    };
    properties.values_mut().for_each(close);
    schema["additionalProperties"] = json!(false);
}
