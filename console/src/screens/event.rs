//! One event of the log, with its causes and effects.

use axum::extract::State;
use maud::{Markup, html};
use serde::Deserialize;
use serde_json::Value;
use uuid::Uuid;

use super::steps::{self, ToldStep};
use crate::SharedState;
use crate::frame::PageContent;
use crate::parts;
use crate::visit::{PageAnswer, PageVisit};

/// An event with its surroundings.
#[derive(Debug, Deserialize)]
struct WholeEvent {
    #[serde(flatten)]
    step: ToldStep,
    firm_id: Uuid,
    sequence: i64,
    version: String,
    correlation_id: Uuid,
    trace: Option<String>,
    digest: String,
    facts: Value,
    entry: Option<EventEntry>,
    causes: Vec<ToldStep>,
    effects: Vec<ToldStep>,
}

/// The entry of an event in the audit log.
#[derive(Debug, Deserialize)]
struct EventEntry {
    sequence: i64,
    hash: String,
}

/// Shows an event.
pub(crate) async fn show(State(state): State<SharedState>, visit: PageVisit) -> PageAnswer {
    let api = visit.api_path(&format!("/events/{}", visit.path_part("id")?));
    visit.show_answer(&state, &api, |found: &WholeEvent| event_content(&visit, found)).await
}

fn event_content(visit: &PageVisit, found: &WholeEvent) -> PageContent {
    let step = &found.step;
    let content = html! {
        p.why { (parts::foreign_text(&step.sentence)) }
        nav.pages aria-label="Neighbours" {
            @if step.position > 1 {
                a href=(steps::event_page(step.position - 1)) rel="prev" { "Event before" }
            }
            a href=(steps::event_page(step.position + 1)) rel="next" { "Event after" }
        }
        (event_facts(visit, found))
        (parts::section("facts", "Content, without personal data", &html! {
            pre tabindex="0" { (parts::foreign_lines(&pretty_json(&found.facts))) }
        }))
        @if !found.causes.is_empty() {
            (parts::section("causes", "Causes", &steps::step_list(&found.causes, visit.now)))
        }
        @if !found.effects.is_empty() {
            (parts::section("effects", "Effects", &steps::step_list(&found.effects, visit.now)))
        }
    };
    PageContent::new(&format!("Event {}: {}", step.position, step.event), content).with_data()
}

fn event_facts(visit: &PageVisit, found: &WholeEvent) -> Markup {
    let step = &found.step;
    let stream = format!("/console/log?stream={}&kind={}", step.id, step.kind);
    let cause = html! {
        @match step.caused_by {
            Some(id) => { (parts::id_link(&format!("/console/log/{id}"), &id)) },
            None => { (parts::no_value()) },
        }
    };
    let entry = html! {
        @match &found.entry {
            Some(entry) => {
                a href=(format!("/console/firms/{}/audit/{}", found.firm_id, entry.sequence)) {
                    "entry " (entry.sequence)
                }
                " " code { (parts::plain_id(&entry.hash)) }
            },
            None => { (parts::no_value()) },
        }
    };
    parts::fact_list(&[
        ("Time", parts::time(step.at, visit.now)),
        ("Event", html! { (step.event) " " (found.version) " " (parts::plain_id(&step.event_id)) }),
        (
            "Stream",
            html! { (step.kind) " " (parts::id_link(&stream, &step.id)) ", " (found.sequence) },
        ),
        ("Firm", firm_link(found.firm_id)),
        ("By", parts::foreign_text(&step.by)),
        ("Caused by", cause),
        ("Correlation", parts::plain_id(&found.correlation_id)),
        ("Trace", html! { (found.trace.as_deref().unwrap_or("none")) }),
        ("Digest", html! { code { (parts::plain_id(&found.digest)) } }),
        ("Audit log", entry),
    ])
}

/// The firm of an event. Events of the installation have the nil UUID.
fn firm_link(firm_id: Uuid) -> Markup {
    html! {
        @if firm_id.is_nil() { "the installation" }
        @else { (parts::id_link(&format!("/console/firms/{firm_id}"), &firm_id)) }
    }
}

fn pretty_json(facts: &Value) -> String {
    serde_json::to_string_pretty(facts).unwrap_or_default()
}
