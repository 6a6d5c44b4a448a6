//! One key: its life, and all that went with it.

use axum::extract::State;
use domain::values::Timestamp;
use maud::{Markup, html};
use serde::Deserialize;
use uuid::Uuid;

use super::steps::{self, ToldStep};
use crate::SharedState;
use crate::frame::PageContent;
use crate::parts::{self, OfferedCommand};
use crate::visit::{FirmVisit, PageAnswer};

/// A key's life and end.
#[derive(Debug, Deserialize)]
struct KeyLife {
    id: Uuid,
    name: String,
    prefix: String,
    member_id: Uuid,
    state: String,
    steps: Vec<ToldStep>,
    hooks_removed: Vec<Uuid>,
    cancelled: Vec<CancelledDeliveries>,
    archived_before: Option<Timestamp>,
}

/// Number of cancelled deliveries of one cause.
#[derive(Debug, Deserialize)]
struct CancelledDeliveries {
    cause: String,
    deliveries: i64,
}

/// Shows a key.
pub(crate) async fn show(State(state): State<SharedState>, visit: FirmVisit) -> PageAnswer {
    let path = format!("/keys/{}/history", visit.visit.path_part("id")?);
    visit.show_answer(&state, &path, |found: &KeyLife| key_content(&visit, found)).await
}

fn key_content(at: &FirmVisit, found: &KeyLife) -> PageContent {
    let hooks = html! {
        @for id in &found.hooks_removed { (parts::id_link(&at.firm_page(&format!("/hooks/{id}")), id)) " " }
        @if found.hooks_removed.is_empty() { (parts::no_value()) }
    };
    let cancelled = html! {
        @for one in &found.cancelled { (one.deliveries) " " (one.cause) " " }
        @if found.cancelled.is_empty() { (parts::no_value()) }
    };
    let facts = [
        ("State", parts::state(&found.state)),
        ("Name", parts::foreign_text(&found.name)),
        ("Prefix", html! { code { (found.prefix) } }),
        ("Member", parts::plain_id(&found.member_id)),
        ("Subscriptions removed with it", hooks),
        ("Deliveries cancelled with it", cancelled),
    ];
    let content = html! {
        (parts::fact_list(&facts))
        (parts::archived_note(found.archived_before))
        (parts::section("steps", "How it came here", &steps::step_list(&found.steps, at.visit.now)))
        @if at.visit.may_act() && found.state == "active" { (revoke_section(at, found)) }
    };
    PageContent::new(&format!("Key {}", found.prefix), content).with_data()
}

/// The form asks for the prefix of the key, because nothing brings a key back.
fn revoke_section(at: &FirmVisit, found: &KeyLife) -> Markup {
    let fields = html! {
        label { "Prefix of the key, to be sure "
            input name="prefix" required autocomplete="off" spellcheck="false";
        }
    };
    let offered = OfferedCommand {
        action: &at.firm_page(&format!("/keys/{}/revoke", found.id)),
        name: "Revoke this key",
        effect: "Ends the key for good. Its subscriptions are removed, and their deliveries \
                 cancelled.",
        fields,
    };
    parts::section("commands", "Commands", &parts::command_form(&at.visit, &offered))
}
