//! A firm: its members, keys and forms, and commands about it.

use axum::extract::State;
use domain::values::Timestamp;
use maud::{Markup, html};
use serde::Deserialize;
use uuid::Uuid;

use super::keys::{self, ListedKey};
use crate::SharedState;
use crate::ask::ListAnswer;
use crate::frame::PageContent;
use crate::parts::{self, OfferedCommand};
use crate::visit::{FirmVisit, PageAnswer};

/// A member.
#[derive(Debug, Deserialize)]
struct FirmMember {
    id: Uuid,
    role: Option<String>,
    active: bool,
    active_keys: i64,
}

/// A form.
#[derive(Debug, Deserialize)]
struct FirmForm {
    id: Uuid,
    title: String,
    status: String,
    created_at: Timestamp,
}

/// Shows a firm.
pub(crate) async fn show(State(state): State<SharedState>, visit: FirmVisit) -> PageAnswer {
    let session = &visit.visit.session;
    let members: ListAnswer<FirmMember> =
        state.ask_json(session, &visit.api_path("/members")).await?;
    let forms: ListAnswer<FirmForm> = state.ask_json(session, &visit.api_path("/forms")).await?;
    let listed: ListAnswer<ListedKey> = state.ask_json(session, &visit.api_path("/keys")).await?;
    let content = html! {
        (parts::fact_list(&[
            ("Id", html! { code data-id=(visit.firm.id) { (visit.firm.id) } }),
            ("Status", parts::state(&visit.firm.status)),
        ]))
        (parts::section("members", "Members", &member_table(&visit, &members.items)))
        (parts::section("keys", "Keys", &keys::key_table(&visit, &listed.items)))
        (parts::section("forms", "Forms", &form_table(&visit, &forms.items)))
        @if visit.visit.may_act() { (command_section(&visit)) }
    };
    let title = visit.firm.name.clone();
    Ok(visit.page(PageContent::new(&title, content)))
}

fn member_table(at: &FirmVisit, members: &[FirmMember]) -> Markup {
    let rows = html! {
        @for member in members {
            @let entries = at.firm_page(&format!("/audit?actor={}", member.id));
            tr {
                td { (parts::id_link(&entries, &member.id)) }
                td { (member.role.as_deref().unwrap_or("left")) }
                td { (parts::state(if member.active { "active" } else { "inactive" })) }
                td { (member.active_keys) }
            }
        }
    };
    parts::table("Members", &["Member and entries", "Role", "State", "Active keys"], &rows)
}

fn form_table(at: &FirmVisit, forms: &[FirmForm]) -> Markup {
    let rows = html! {
        @for form in forms {
            tr {
                td { (parts::id_link(&format!("/console/log?stream={}", form.id), &form.id)) }
                td { (parts::foreign_text(&form.title)) }
                td { (form.status) }
                td { (parts::time(form.created_at, at.visit.now)) }
            }
        }
    };
    parts::table("Forms", &["Form", "Title", "Status", "Made"], &rows)
}

fn command_section(at: &FirmVisit) -> Markup {
    let pause = OfferedCommand {
        action: "/console/pauses/begin",
        name: "Pause this firm",
        effect: "Holds all its deliveries from the next claim on. Nothing is lost.",
        fields: parts::hidden_field("firm_id", &at.firm.id),
    };
    let content = html! {
        (parts::command_form(&at.visit, &pause))
        p { a href=(at.firm_page("/replay")) { "Replay deliveries" } }
    };
    parts::section("commands", "Commands", &content)
}
