//! The audit log of a firm, newest entry first.

use axum::extract::State;
use domain::audit::Action;
use domain::values::Timestamp;
use maud::{Markup, html};
use serde::Deserialize;
use serde_json::Value;

use crate::SharedState;
use crate::ask::ListAnswer;
use crate::frame::PageContent;
use crate::parts::{self, EmptyList, ListFilter};
use crate::visit::{FirmVisit, PageAnswer};

/// An entry of the audit log, as the API lists it.
#[derive(Debug, Deserialize)]
pub(super) struct ListedEntry {
    pub(super) sequence: i64,
    pub(super) at: Timestamp,
    pub(super) action: String,
    pub(super) actor: EntryParty,
    pub(super) subject: EntryParty,
    pub(super) reason: Option<String>,
    pub(super) hash: String,
}

/// An actor or a subject.
#[derive(Debug, Deserialize)]
pub(super) struct EntryParty {
    pub(super) kind: String,
    pub(super) id: Option<String>,
}

const HEADS: [&str; 7] = ["Entry", "Time", "Action", "Actor", "Subject", "Reason", "Hash"];

/// Lists entries.
pub(crate) async fn list(State(state): State<SharedState>, visit: FirmVisit) -> PageAnswer {
    let content = |found: &ListAnswer<Value>| audit_content(&visit, found);
    visit.show_answer(&state, "/audit", content).await
}

fn audit_content(at: &FirmVisit, found: &ListAnswer<Value>) -> PageContent {
    let visit = &at.visit;
    let actions: Vec<&str> = Action::ALL.iter().map(|action| action.name()).collect();
    let fields = [
        ListFilter::Choice("action", &actions),
        ListFilter::Text("actor", "kind or id"),
        ListFilter::Text("subject", "kind or id"),
        ListFilter::Choice("no_reads", &["true"]),
        ListFilter::Text("since", "30d or 2026-03-01"),
        ListFilter::Text("until", "2026-04-01"),
    ];
    let content = html! {
        (parts::filter_form(visit, &fields))
        (entry_table(at, &found.items))
        (parts::empty_note(&EmptyList(found.items.is_empty())))
        (parts::page_links(visit, found.next.as_deref()))
        (bundle_form(at))
    };
    PageContent::new("Audit log", content).with_data()
}

/// Shows entries as a table. An entry of an unknown shape has no row. The links "This page as data"
/// still give it.
pub(super) fn entry_table(at: &FirmVisit, entries: &[Value]) -> Markup {
    let read = |entry: &Value| serde_json::from_value::<ListedEntry>(entry.clone()).ok();
    let rows = html! { @for entry in entries.iter().filter_map(read) { (entry_row(at, &entry)) } };
    parts::table("Entries", &HEADS, &rows)
}

fn entry_row(at: &FirmVisit, entry: &ListedEntry) -> Markup {
    html! {
        tr {
            td { (parts::id_link(&at.firm_page(&format!("/audit/{}", entry.sequence)), &entry.sequence)) }
            td { (parts::time(entry.at, at.visit.now)) }
            td { (entry.action) }
            td { (party_link(&entry.actor)) }
            td { (party_link(&entry.subject)) }
            td { @if let Some(reason) = &entry.reason { (parts::foreign_text(reason)) } }
            td { code { (parts::plain_id(&entry.hash)) } }
        }
    }
}

/// An actor or a subject. An id leads to all that is known of it.
pub(super) fn party_link(party: &EntryParty) -> Markup {
    html! {
        (party.kind)
        @if let Some(id) = &party.id {
            " "
            @if domain::values::parse_id(id).is_some() {
                (parts::id_link(&format!("/console/find?q={id}"), id))
            } @else { (parts::foreign_text(id)) }
        }
    }
}

/// The form that exports the entries of a period: as a bundle with their proof, its cover, CSV or
/// NDJSON.
pub(super) fn bundle_form(at: &FirmVisit) -> Markup {
    let visit = &at.visit;
    html! {
        form.filters method="get" action=(at.firm_page("/audit/export")) {
            label { "since " input name="since" value=[visit.query_value("since")] placeholder="2026-03-01"; }
            label { "until " input name="until" value=[visit.query_value("until")] placeholder="2026-04-01"; }
            label { "as " select name="format" {
                option value="bundle" { "bundle with its proof" }
                option value="cover" { "cover of the bundle" }
                option value="csv" { "CSV" }
                option value="ndjson" { "NDJSON" }
            } }
            button { "Export" }
        }
    }
}

/// The entries of a period as a file of any length.
pub(crate) async fn export(State(state): State<SharedState>, visit: FirmVisit) -> PageAnswer {
    let api = visit.api_path("/audit/export");
    state.ask_file(&visit.visit.session, &api).await
}
