//! Deliveries on the page: their kinds, their content, the effect of an answer. Common parts are
//! shown once, from the first delivery.

use maud::{Markup, html};
use serde_json::Value;

use super::fields;
use super::words::{entries, items, json, prose, text};
use crate::docs::markup::{line, row, table};

const EVENT_HEADER: &str = "X-Service-Event";

pub(super) fn show(document: &Value) -> Markup {
    let webhooks = &document["webhooks"];
    let first = entries(webhooks).next().map_or(&Value::Null, |(_, webhook)| &webhook["post"]);
    let shared = text(&first["description"]).split("\n\n").skip(1);
    html! {
        @for paragraph in shared { p { (line(paragraph)) } }
        (triggers(webhooks))
        (fields::parameters(&shared_headers(first)))
        (answers(&first["responses"]))
        (example(first))
    }
}

/// The headers that all deliveries share. The table of events has the one that tells them apart.
fn shared_headers(delivery: &Value) -> Vec<&Value> {
    items(&delivery["parameters"]).filter(|header| header["name"] != EVENT_HEADER).collect()
}

/// The value of the header that names the event.
fn event_header(delivery: &Value) -> &str {
    let header = items(&delivery["parameters"]).find(|header| header["name"] == EVENT_HEADER);
    header.map_or("", |header| text(&header["schema"]["const"]))
}

fn triggers(webhooks: &Value) -> Markup {
    let rows = html! {
        @for (key, webhook) in entries(webhooks) {
            (row(key, "", &html! {
                p.note { (text(&webhook["post"]["summary"])) }
                p { (fires(&webhook["post"])) }
                p { code { (EVENT_HEADER) ": " (event_header(&webhook["post"])) } }
            }))
        }
    };
    table("Events", ["Trigger", "When it fires"], &rows)
}

/// First paragraph of a delivery's description.
fn fires(delivery: &Value) -> &str {
    let first = text(&delivery["description"]).split("\n\n").next().unwrap_or_default();
    first.trim_start_matches("Fires: ")
}

fn answers(responses: &Value) -> Markup {
    let rows = html! {
        @for (status, response) in entries(responses) {
            (row(status, "", &prose(&response["description"])))
        }
    };
    table("What your answer leads to", ["Status", "What follows"], &rows)
}

fn example(delivery: &Value) -> Markup {
    let content = &delivery["requestBody"]["content"]["application/json"];
    html! { pre { code { (json(&content["examples"]["example"]["value"])) } } }
}
