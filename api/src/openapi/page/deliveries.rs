//! Deliveries on the page: their kinds, their content, the effect of an answer. Common parts are
//! shown once, from the first delivery.

use maud::{Markup, html};
use serde_json::Value;

use super::fields;
use super::words::{array_items, formatted_json, object_entries, prose_markup, text_or_empty};
use crate::docs::markup::{inline_markup, table_row, two_columns};

const EVENT_HEADER: &str = "X-Service-Event";

pub(super) fn show(document: &Value) -> Markup {
    let webhooks = &document["webhooks"];
    let first =
        object_entries(webhooks).next().map_or(&Value::Null, |(_, webhook)| &webhook["post"]);
    let shared = text_or_empty(&first["description"]).split("\n\n").skip(1);
    html! {
        @for paragraph in shared { p { (inline_markup(paragraph)) } }
        (triggers_table(webhooks))
        (fields::parameters(&shared_headers(first)))
        (answers_table(&first["responses"]))
        (example_block(first))
    }
}

/// The headers that all deliveries share. The table of events has the one that tells them apart.
fn shared_headers(delivery: &Value) -> Vec<&Value> {
    array_items(&delivery["parameters"]).filter(|header| header["name"] != EVENT_HEADER).collect()
}

/// The value of the header that names the event.
fn event_header(delivery: &Value) -> &str {
    let header = array_items(&delivery["parameters"]).find(|header| header["name"] == EVENT_HEADER);
    header.map_or("", |header| text_or_empty(&header["schema"]["const"]))
}

fn triggers_table(webhooks: &Value) -> Markup {
    let rows = html! {
        @for (key, webhook) in object_entries(webhooks) {
            (table_row(key, "", &html! {
                p.note { (text_or_empty(&webhook["post"]["summary"])) }
                p { (firing_condition(&webhook["post"])) }
                p { code { (EVENT_HEADER) ": " (event_header(&webhook["post"])) } }
            }))
        }
    };
    two_columns("Events", ["Trigger", "When it fires"], &rows)
}

/// First paragraph of a delivery's description.
fn firing_condition(delivery: &Value) -> &str {
    let first = text_or_empty(&delivery["description"]).split("\n\n").next().unwrap_or_default();
    first.trim_start_matches("Fires: ")
}

fn answers_table(responses: &Value) -> Markup {
    let rows = html! {
        @for (status, response) in object_entries(responses) {
            (table_row(status, "", &prose_markup(&response["description"])))
        }
    };
    two_columns("What your answer leads to", ["Status", "What follows"], &rows)
}

fn example_block(delivery: &Value) -> Markup {
    let content = &delivery["requestBody"]["content"]["application/json"];
    html! { pre { code { (formatted_json(&content["examples"]["example"]["value"])) } } }
}
