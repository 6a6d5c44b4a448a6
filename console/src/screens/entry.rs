//! One entry of the audit log with its proof, and the event behind it.

use api::queries::events::{self, EventRef};
use axum::extract::State;
use maud::{Markup, html};
use serde::Deserialize;
use serde_json::Value;

use super::audit::{self, ListedEntry};
use super::steps::{self, ToldStep};
use crate::frame::PageContent;
use crate::parts;
use crate::refusal::Refusal;
use crate::visit::{FirmVisit, PageAnswer};
use crate::{SharedState, ask, data};

/// An entry with its proof.
#[derive(Debug, Deserialize)]
struct WholeEntry {
    #[serde(flatten)]
    entry: ListedEntry,
    evidence: Value,
    previous_hash: String,
    position: i64,
    canonical: String,
    signed_by: Option<u64>,
    verified: bool,
}

/// The events around the entry's.
#[derive(Debug, Deserialize)]
struct EventsAround {
    causes: Vec<ToldStep>,
    effects: Vec<ToldStep>,
}

/// Shows an entry.
pub(crate) async fn show(State(state): State<SharedState>, visit: FirmVisit) -> PageAnswer {
    let sequence = visit.visit.path_part("id")?;
    let api = visit.api_path(&format!("/audit/{sequence}"));
    let answer = state.ask_bytes(&visit.visit.session, &api).await;
    let json = match (visit.visit.format, answer) {
        (Some(format), Ok(json)) => return data::data_answer(format, &json),
        (Some(_), Err(refusal)) => return Ok(refusal.into_data()),
        (None, answer) => answer?,
    };
    let found: WholeEntry = ask::parse_json(&json)?;
    // The reading is recorded: the event belongs to the same look.
    let around = events::show(&state.service, EventRef::Position(found.position)).await;
    let around = around.map_err(|error| Refusal::broken(&error.to_string()))?;
    let content = entry_content(&visit, &found, &ask::reread_answer(&around)?);
    Ok(visit.page(PageContent::new(&format!("Entry {sequence}"), content).with_data()))
}

fn entry_content(at: &FirmVisit, found: &WholeEntry, around: &EventsAround) -> Markup {
    let now = at.visit.now;
    html! {
        (entry_facts(at, found))
        (parts::section("proof", "Proof", &entry_proof(at, found)))
        (parts::section("bytes", "Bytes that the hash covers", &html! {
            pre tabindex="0" { (parts::foreign_lines(&found.canonical)) }
        }))
        @if !around.causes.is_empty() {
            (parts::section("causes", "Causes", &steps::step_list(&around.causes, now)))
        }
        @if !around.effects.is_empty() {
            (parts::section("effects", "Effects", &steps::step_list(&around.effects, now)))
        }
    }
}

fn entry_facts(at: &FirmVisit, found: &WholeEntry) -> Markup {
    let entry = &found.entry;
    let before = entry.sequence - 1;
    let previous = html! {
        code { (parts::plain_id(&found.previous_hash)) }
        @if before > 0 { " " a href=(at.firm_page(&format!("/audit/{before}"))) { "entry " (before) } }
    };
    let event = html! {
        a href=(steps::event_page(found.position)) { "event " (found.position) }
    };
    parts::fact_list(&[
        ("Time", parts::time(entry.at, at.visit.now)),
        ("Action", html! { (entry.action) }),
        ("Actor", audit::party_link(&entry.actor)),
        ("Subject", audit::party_link(&entry.subject)),
        ("Reason", parts::foreign_text(entry.reason.as_deref().unwrap_or("none"))),
        ("Evidence", html! { code { (parts::foreign_text(&found.evidence.to_string())) } }),
        ("Event", event),
        ("Hash", html! { code data-id=(entry.hash) { (entry.hash) } }),
        ("Hash before", previous),
    ])
}

fn entry_proof(at: &FirmVisit, found: &WholeEntry) -> Markup {
    let day = found.entry.at.day();
    let after = day.succ_opt().unwrap_or(day);
    let bundle = at.firm_page(&format!("/audit/export?format=bundle&since={day}&until={after}"));
    let command = "firmforms audit verify --bundle FILE --public-keys KEYS";
    html! {
        p {
            @match found.signed_by {
                Some(number) => { "Covered by the signed checkpoint " (number) ". " },
                None => { "No signed checkpoint covers it yet: one is signed each hour. " },
            }
            @if found.verified { "The last verification of the service reached it, and found no flaw." }
            @else { "The last verification of the service has not reached it." }
        }
        p { a href=(bundle) { "Bundle of this day" } ". It is verified offline: " code { (command) } }
        p { a href="/console/proof" { "Public keys and checkpoints" } }
    }
}
