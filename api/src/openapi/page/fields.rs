//! Tables of an object's fields and of parameters.

use maud::{Markup, html};
use serde_json::Value;

use super::words::{array_items, object_entries, prose_markup, text_or_empty};
use crate::docs::markup::{table_row, two_columns};

/// The note beside a field or parameter that must be there.
const REQUIRED: &str = "required";

/// A schema of the components, with its anchor.
pub(super) fn schema(name: &str, schema: &Value) -> Markup {
    let place = schema_anchor(name);
    html! {
        article aria-labelledby=(place) {
            h3 id=(place) { (name) }
            (prose_markup(&schema["description"]))
            @if schema["properties"].is_object() {
                (of_object("Fields", schema))
            } @else {
                p { (kind_markup(schema)) }
            }
        }
    }
}

/// The fields of an object.
pub(super) fn of_object(caption: &str, schema: &Value) -> Markup {
    let rows = html! {
        @for (name, field) in object_entries(&schema["properties"]) {
            (field_row(name, field, required_note(schema, name)))
            @for (inner, of_inner) in object_entries(&field["properties"]) {
                (field_row(&format!("{name}.{inner}"), of_inner, required_note(field, inner)))
            }
        }
    };
    two_columns(caption, ["Name", "What it is"], &rows)
}

pub(super) fn parameters(parameters: &[&Value]) -> Markup {
    let rows = html! {
        @for parameter in parameters {
            (table_row(text_or_empty(&parameter["name"]), note_of(parameter), &html! {
                p.note { (kind_markup(&parameter["schema"])) ", in the " (text_or_empty(&parameter["in"])) }
                (prose_markup(&parameter["description"]))
            }))
        }
    };
    html! { @if !parameters.is_empty() { (two_columns("Parameters", ["Name", "What it is"], &rows)) } }
}

fn field_row(name: &str, field: &Value, note: &str) -> Markup {
    let about = html! {
        p.note { (kind_markup(field)) }
        @if field["description"].is_string() { (prose_markup(&field["description"])) }
    };
    table_row(name, note, &about)
}

/// The note beside a field of an object.
fn required_note(schema: &Value, name: &str) -> &'static str {
    if array_items(&schema["required"]).any(|required| required == name) { REQUIRED } else { "" }
}

/// The note beside a parameter.
fn note_of(parameter: &Value) -> &'static str {
    if parameter["required"] == true { REQUIRED } else { "" }
}

fn schema_anchor(schema: &str) -> String {
    format!("schema-{schema}")
}

/// A schema in few words.
fn kind_markup(schema: &Value) -> Markup {
    let named = text_or_empty(&schema["$ref"]).rsplit('/').next().filter(|name| !name.is_empty());
    html! {
        @if let Some(name) = named {
            a href={ "#" (schema_anchor(name)) } { (name) }
        } @else if schema["items"].is_object() {
            "array of " (kind_markup(&schema["items"]))
        } @else if schema["anyOf"].is_array() && schema["type"].is_null() {
            @for (place, one) in array_items(&schema["anyOf"]).enumerate() {
                @if place > 0 { " or " }
                (kind_markup(one))
            }
        } @else {
            (plain_kind(schema))
            @for (place, value) in array_items(&schema["enum"]).enumerate() {
                @if place == 0 { ": " } @else { ", " }
                code { (text_or_empty(value)) }
            }
        }
    }
}

/// `string or null, uuid, at most 100 characters`
fn plain_kind(schema: &Value) -> String {
    let types: Vec<_> = match &schema["type"] {
        Value::Array(types) => types.iter().map(text_or_empty).collect(),
        one => vec![text_or_empty(one)],
    };
    let mut words = vec![types.join(" or ")];
    words.extend(schema["format"].as_str().map(str::to_owned));
    words.extend(schema["maxLength"].as_u64().map(|max| format!("at most {max} characters")));
    words.extend(schema["const"].as_str().map(|only| format!("always {only}")));
    words.retain(|word| !word.is_empty());
    words.join(", ")
}
