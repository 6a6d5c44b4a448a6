//! Values as words: paragraphs of a description, JSON, the target of a reference.

use maud::{Markup, html};
use serde_json::Value;

use super::super::{order, pretty_json};
use crate::docs::markup::inline_markup;

/// A text, empty if the value is none.
pub(super) fn text_or_empty(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Entries of an object, in the order of the answers. An array has no entries of this kind.
pub(super) fn object_entries(value: &Value) -> impl Iterator<Item = (&str, &Value)> {
    value.as_object().map(order::ordered_entries).into_iter().flatten()
}

pub(super) fn array_items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// The value, or the target of its reference.
pub(super) fn resolve_reference<'a>(document: &'a Value, value: &'a Value) -> &'a Value {
    let pointer = value["$ref"].as_str().and_then(|reference| reference.strip_prefix('#'));
    pointer.and_then(|pointer| document.pointer(pointer)).unwrap_or(value)
}

/// The part of Markdown that descriptions use: paragraphs, and code between backticks.
pub(super) fn prose_markup(description: &Value) -> Markup {
    html! { @for paragraph in text_or_empty(description).split("\n\n") { p { (inline_markup(paragraph)) } } }
}

/// A value as formatted JSON.
pub(super) fn formatted_json(value: &Value) -> String {
    pretty_json(value)
}
