//! The firm's audit log, newest first.

use api::portal::views::{self, LookFilter};
use axum::extract::State;
use domain::values::Timestamp;
use maud::{Markup, html};
use serde::Deserialize;
use serde_json::Value;

use super::SharedPortal;
use super::paging::page_links;
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
    evidence: Option<PortalEvidence>,
}

/// The part of the evidence that names the subject of a look.
#[derive(Debug, Deserialize)]
struct PortalEvidence {
    what: Option<String>,
}

/// An actor or a subject.
#[derive(Debug, Deserialize)]
struct PortalParty {
    kind: String,
    id: Option<String>,
}

/// Lists entries.
pub(super) async fn list(State(state): State<SharedPortal>, visit: PortalVisit) -> PortalAnswer {
    let read_place = |after: &str| after.parse().map_err(|_| visit.not_accepted("after"));
    let before = visit.query_value("after").map(read_place).transpose()?;
    let looks = match visit.query_value("looks") {
        None => LookFilter::Hidden,
        Some("true") => LookFilter::Shown,
        Some(_) => return Err(visit.not_accepted("looks")),
    };
    let found = views::audit(&state.service, &visit.session, looks, before).await;
    let (entries, next) = visit.or_refusal(found)?;
    let entries = visit.or_refusal(read_entries(entries))?;
    let words = visit.words;
    let heads = [words.number, words.time, words.action, words.actor, words.subject, words.reason];
    let rows = html! {
        @for entry in &entries {
            tr {
                td { (entry.sequence) }
                td { (parts::plain_time(entry.at)) }
                td { code { (entry.action) } }
                td { (actor_name(&visit, &entry.actor)) }
                td {
                    (party_name(&entry.subject))
                    @if let Some(what) = what_of(entry) { " " code { (what) } }
                }
                td { @if let Some(reason) = &entry.reason { (parts::foreign_text(reason)) } }
            }
        }
    };
    let tab = |of: LookFilter, name: &str| {
        let address = visit.link_with("looks", (of == LookFilter::Shown).then_some("true"));
        html! { a href=(address) aria-current=[(of == looks).then_some("page")] { (name) } " " }
    };
    let content = html! {
        p {
            (tab(LookFilter::Hidden, words.without_looks))
            (tab(LookFilter::Shown, words.with_looks))
        }
        (parts::table(words.audit, &heads, &rows))
        @if entries.is_empty() { p.none { (words.empty) } }
        (page_links(&visit, next.map(|next| next.to_string()).as_deref()))
    };
    Ok(visit.page(words.audit, content))
}

fn read_entries(entries: Vec<Value>) -> Result<Vec<PortalEntry>, api::Error> {
    let read = entries.into_iter().map(serde_json::from_value).collect::<Result<_, _>>();
    read.map_err(|error| api::Error::Internal(error.to_string()))
}

fn actor_name(visit: &PortalVisit, actor: &PortalParty) -> Markup {
    let you = visit.session.member_id().to_string();
    let is_you = actor.kind == "member" && actor.id.as_deref() == Some(you.as_str());
    html! { @if is_you { (visit.words.you) } @else { (party_name(actor)) } }
}

/// The subject of a look.
fn what_of(entry: &PortalEntry) -> Option<&str> {
    entry.evidence.as_ref()?.what.as_deref()
}

fn party_name(party: &PortalParty) -> Markup {
    html! { (party.kind) @if let Some(id) = &party.id { " " (parts::plain_id(id)) } }
}
