//! Values as words: a description's paragraphs and code, JSON, what a reference leads to; and the
//! one form of all tables.

use maud::{Markup, html};
use serde_json::Value;

/// A text; nothing where there is none.
pub(super) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// The entries of an object, the items of an array by number.
pub(super) fn entries(value: &Value) -> impl Iterator<Item = (&str, &Value)> {
    value.as_object().into_iter().flatten().map(|(name, value)| (name.as_str(), value))
}

pub(super) fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// A value, or what it refers to.
pub(super) fn resolved<'a>(document: &'a Value, value: &'a Value) -> &'a Value {
    let pointer = value["$ref"].as_str().and_then(|reference| reference.strip_prefix('#'));
    pointer.and_then(|pointer| document.pointer(pointer)).unwrap_or(value)
}

/// The part of Markdown that descriptions use: paragraphs, and code between backticks.
pub(super) fn prose(description: &Value) -> Markup {
    html! { @for paragraph in text(description).split("\n\n") { p { (line(paragraph)) } } }
}

/// One paragraph's words.
pub(super) fn line(paragraph: &str) -> Markup {
    html! {
        @for (place, part) in paragraph.split('`').enumerate() {
            @if place % 2 == 0 { (part) } @else { code { (part) } }
        }
    }
}

/// A value as people read JSON.
pub(super) fn json(value: &Value) -> String {
    format!("{value:#}")
}

/// A table of names and what is to be said of each: two columns, so that a phone is wide enough.
pub(super) fn table(caption: &str, [name, about]: [&str; 2], rows: &Markup) -> Markup {
    html! {
        table {
            caption { (caption) }
            thead { tr { th scope="col" { (name) } th scope="col" { (about) } } }
            tbody { (rows) }
        }
    }
}

/// A row of it: a name, a note beside the name, and the rest.
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
