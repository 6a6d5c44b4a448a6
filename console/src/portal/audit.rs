//! The firm's audit log, newest first.

use api::portal::views;
use axum::extract::State;
use domain::time::Timestamp;
use maud::{Markup, html};
use serde::Deserialize;
use serde_json::Value;

use super::SharedPortal;
use super::hooks;
use super::visit::{PortalAnswer, PortalVisit};
use crate::parts;

/// An entry of the list.
#[derive(Debug, Deserialize)]
struct PortalEntry {
    sequence: i64,
    at: Timestamp,
    action: String,
    actor: PortalParty,
    subject: PortalParty,
    reason: Option<String>,
}

/// An actor or a subject.
#[derive(Debug, Deserialize)]
struct PortalParty {
    kind: String,
    id: Option<String>,
}

/// Lists entries.
pub(super) async fn list(State(state): State<SharedPortal>, visit: PortalVisit) -> PortalAnswer {
    let before = visit.asked("after").and_then(|after| after.parse().ok());
    let found = views::audit(&state.service, &visit.session, before).await;
    let (entries, next) = visit.told(found)?;
    let entries = visit.told(read(entries))?;
    let words = visit.words;
    let heads = [words.number, words.time, words.action, words.actor, words.subject, words.reason];
    let rows = html! {
        @for entry in &entries {
            tr {
                td { (entry.sequence) }
                td { (parts::plain_time(entry.at)) }
                td { code { (entry.action) } }
                td { (actor(&visit, &entry.actor)) }
                td { (party(&entry.subject)) }
                td { @if let Some(reason) = &entry.reason { (parts::foreign(reason)) } }
            }
        }
    };
    let content = html! {
        (parts::table(words.audit, &heads, &rows))
        @if entries.is_empty() { p.none { (words.empty) } }
        (hooks::pages(&visit, next.map(|next| next.to_string()).as_deref()))
    };
    Ok(visit.page(words.audit, content))
}

fn read(entries: Vec<Value>) -> Result<Vec<PortalEntry>, api::Error> {
    let read = entries.into_iter().map(serde_json::from_value).collect::<Result<_, _>>();
    read.map_err(|error| api::Error::Internal(error.to_string()))
}

fn actor(visit: &PortalVisit, actor: &PortalParty) -> Markup {
    let you = visit.session.member_id().to_string();
    let is_you = actor.kind == "member" && actor.id.as_deref() == Some(you.as_str());
    html! { @if is_you { (visit.words.you) } @else { (party(actor)) } }
}

fn party(party: &PortalParty) -> Markup {
    html! { (party.kind) @if let Some(id) = &party.id { " " (parts::plain_id(id)) } }
}
