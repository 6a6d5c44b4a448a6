//! Deliveries on the page: their kinds, their content, the effect of an answer. Common parts are
//! shown once, from the first delivery.

use maud::{Markup, html};
use serde_json::Value;

use super::fields;
use super::words::{entries, json, line, prose, row, table, text};

pub(super) fn show(document: &Value) -> Markup {
    let webhooks = &document["webhooks"];
    let first = entries(webhooks).next().map_or(&Value::Null, |(_, webhook)| &webhook["post"]);
    let shared = text(&first["description"]).split("\n\n").skip(1);
    html! {
        @for paragraph in shared { p { (line(paragraph)) } }
        (triggers(webhooks))
        (fields::parameters(&first["parameters"]))
        (answers(&first["responses"]))
        (example(first))
    }
}

fn triggers(webhooks: &Value) -> Markup {
    let rows = html! {
        @for (key, webhook) in entries(webhooks) {
            (row(key, "", &html! {
                p.note { (text(&webhook["post"]["summary"])) }
                p { (fires(&webhook["post"])) }
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
