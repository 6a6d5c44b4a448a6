//! Tables of what an object holds, and of parameters.

use maud::{Markup, html};
use serde_json::Value;

use super::words::{entries, items, prose, row, table, text};

/// A schema of the components at its own place.
pub(super) fn schema(name: &str, schema: &Value) -> Markup {
    let place = place(name);
    html! {
        article aria-labelledby=(place) {
            h3 id=(place) { (name) }
            (prose(&schema["description"]))
            @if schema["properties"].is_object() {
                (of_object("Fields", schema))
            } @else {
                p { (kind(schema)) }
            }
        }
    }
}

/// What an object holds.
pub(super) fn of_object(caption: &str, schema: &Value) -> Markup {
    let rows = html! {
        @for (name, field) in entries(&schema["properties"]) {
            (field_row(name, field, is_required(schema, name)))
            @for (inner, of_inner) in entries(&field["properties"]) {
                (field_row(&format!("{name}.{inner}"), of_inner, is_required(field, inner)))
            }
        }
    };
    table(caption, ["Name", "What it is"], &rows)
}

pub(super) fn parameters(parameters: &Value) -> Markup {
    let rows = html! {
        @for parameter in items(parameters) {
            (row(text(&parameter["name"]), needed(parameter["required"] == true), &html! {
                p.note { (kind(&parameter["schema"])) ", in the " (text(&parameter["in"])) }
                (prose(&parameter["description"]))
            }))
        }
    };
    html! { @if parameters.is_array() { (table("Parameters", ["Name", "What it is"], &rows)) } }
}

fn field_row(name: &str, field: &Value, required: bool) -> Markup {
    let about = html! {
        p.note { (kind(field)) }
        @if field["description"].is_string() { (prose(&field["description"])) }
    };
    row(name, needed(required), &about)
}

fn is_required(schema: &Value, name: &str) -> bool {
    items(&schema["required"]).any(|required| required == name)
}

fn needed(required: bool) -> &'static str {
    if required { "required" } else { "" }
}

fn place(schema: &str) -> String {
    format!("schema-{schema}")
}

/// A schema in few words.
fn kind(schema: &Value) -> Markup {
    let named = text(&schema["$ref"]).rsplit('/').next().filter(|name| !name.is_empty());
    html! {
        @if let Some(name) = named {
            a href={ "#" (place(name)) } { (name) }
        } @else if schema["items"].is_object() {
            "array of " (kind(&schema["items"]))
        } @else if schema["anyOf"].is_array() && schema["type"].is_null() {
            @for (place, one) in items(&schema["anyOf"]).enumerate() {
                @if place > 0 { " or " }
                (kind(one))
            }
        } @else {
            (plain(schema))
            @for (place, value) in items(&schema["enum"]).enumerate() {
                @if place == 0 { ": " } @else { ", " }
                code { (text(value)) }
            }
        }
    }
}

/// `string or null, uuid, at most 100 characters`
fn plain(schema: &Value) -> String {
    let types: Vec<_> = match &schema["type"] {
        Value::Array(types) => types.iter().map(text).collect(),
        one => vec![text(one)],
    };
    let mut words = vec![types.join(" or ")];
    words.extend(schema["format"].as_str().map(str::to_owned));
    words.extend(schema["maxLength"].as_u64().map(|max| format!("at most {max} characters")));
    words.extend(schema["const"].as_str().map(|only| format!("always {only}")));
    words.retain(|word| !word.is_empty());
    words.join(", ")
}
