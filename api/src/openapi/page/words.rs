//! Values as words: paragraphs and code of a description, JSON, the target of a reference. All
//! tables have the form that this module gives them.

use maud::{Markup, html};
use serde_json::Value;

use super::super::{order, pretty};

/// A text, empty if the value is none.
pub(super) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Entries of an object, in the order of the answers. An array has no entries of this kind.
pub(super) fn entries(value: &Value) -> impl Iterator<Item = (&str, &Value)> {
    value.as_object().map(order::entries).into_iter().flatten()
}

pub(super) fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// The value, or the target of its reference.
pub(super) fn resolved<'a>(document: &'a Value, value: &'a Value) -> &'a Value {
    let pointer = value["$ref"].as_str().and_then(|reference| reference.strip_prefix('#'));
    pointer.and_then(|pointer| document.pointer(pointer)).unwrap_or(value)
}

/// The part of Markdown that descriptions use: paragraphs, and code between backticks.
pub(super) fn prose(description: &Value) -> Markup {
    html! { @for paragraph in text(description).split("\n\n") { p { (line(paragraph)) } } }
}

/// The words of one paragraph.
pub(super) fn line(paragraph: &str) -> Markup {
    html! {
        @for (place, part) in paragraph.split('`').enumerate() {
            @if place % 2 == 0 { (part) } @else { code { (part) } }
        }
    }
}

/// A value as formatted JSON.
pub(super) fn json(value: &Value) -> String {
    pretty(value)
}

/// A table with two columns, so that a phone is wide enough.
pub(super) fn table(caption: &str, [name, about]: [&str; 2], rows: &Markup) -> Markup {
    html! {
        table {
            caption { (caption) }
            thead { tr { th scope="col" { (name) } th scope="col" { (about) } } }
            tbody { (rows) }
        }
    }
}

/// A row of a table: a name, a note beside the name, and the rest.
pub(super) fn row(name: &str, note: &str, about: &Markup) -> Markup {
    html! {
        tr {
            th scope="row" {
                code { (name) }
                @if !note.is_empty() { " " span.note { (note) } }
            }
            td { (about) }
        }
    }
}
