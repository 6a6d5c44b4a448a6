//! Pauses in force, longest first.

use axum::extract::State;
use domain::values::Timestamp;
use maud::{Markup, html};
use serde::Deserialize;
use uuid::Uuid;

use crate::SharedState;
use crate::ask::ListAnswer;
use crate::frame::PageContent;
use crate::parts::{self, EmptyList, OfferedCommand};
use crate::visit::{PageAnswer, PageVisit};

/// A pause.
#[derive(Debug, Deserialize)]
pub(super) struct ListedPause {
    id: Uuid,
    kind: String,
    firm_id: Option<Uuid>,
    hook_id: Option<Uuid>,
    host: Option<String>,
    pub(super) reason: String,
    paused_by: String,
    pub(super) paused_at: Timestamp,
}

/// Lists pauses.
pub(crate) async fn list(State(state): State<SharedState>, visit: PageVisit) -> PageAnswer {
    let api = visit.api_path("/pauses");
    visit
        .show_answer(&state, &api, |found: &ListAnswer<ListedPause>| list_content(&visit, found))
        .await
}

fn list_content(visit: &PageVisit, found: &ListAnswer<ListedPause>) -> PageContent {
    let rows = html! { @for one in &found.items { (pause_row(visit, one)) } };
    let content = html! {
        (parts::table("Pauses", &["Held", "Since", "By", "Reason", ""], &rows))
        (parts::empty_note(&EmptyList(found.items.is_empty())))
        @if visit.may_act() && visit.session.holder().reaches_all() { (command_section(visit)) }
    };
    PageContent::new("Pauses", content).with_data()
}

fn pause_row(visit: &PageVisit, one: &ListedPause) -> Markup {
    html! {
        tr {
            td { (pause_scope(one)) }
            td { (parts::time(one.paused_at, visit.now)) }
            td { (one.paused_by) }
            td { (parts::foreign_text(&one.reason)) }
            td {
                @if visit.may_act() {
                    (parts::command_form(visit, &OfferedCommand {
                        action: &format!("/console/pauses/{}/end", one.id),
                        name: "Resume",
                        effect: "The held deliveries continue from their state before the pause.",
                        fields: html! {},
                    }))
                }
            }
        }
    }
}

/// The deliveries that a pause holds.
pub(super) fn pause_scope(one: &ListedPause) -> Markup {
    html! {
        @match (one.firm_id, one.hook_id, &one.host) {
            (Some(firm), Some(hook), _) => {
                "subscription " (parts::id_link(&format!("/console/firms/{firm}/hooks/{hook}"), &hook))
            },
            (Some(firm), None, _) => {
                "firm " (parts::id_link(&format!("/console/firms/{firm}"), &firm))
            },
            (None, _, Some(host)) => { "host " (parts::foreign_text(host)) },
            (None, ..) => { (one.kind) },
        }
    }
}

fn command_section(visit: &PageVisit) -> Markup {
    let host = OfferedCommand {
        action: "/console/pauses/begin",
        name: "Pause a host",
        effect: "Holds all deliveries to this host, of all firms. Nothing is lost.",
        fields: html! { label { "Host " input name="host" required spellcheck="false"; } },
    };
    let all = OfferedCommand {
        action: "/console/pauses/begin",
        name: "Pause all deliveries",
        effect: "Holds every delivery of the installation. Nothing is lost.",
        fields: html! {
            label { "Write ALL, to be sure " input name="all" required autocomplete="off"; }
        },
    };
    let content = html! { (parts::command_form(visit, &host)) (parts::command_form(visit, &all)) };
    parts::section("commands", "Commands", &content)
}
