//! Tokens of the internal API. They are made at the terminal.

use axum::extract::State;
use domain::values::Timestamp;
use maud::{Markup, html};
use serde::Deserialize;
use uuid::Uuid;

use crate::SharedState;
use crate::ask::ListAnswer;
use crate::frame::PageContent;
use crate::parts;
use crate::visit::{PageAnswer, PageVisit};

/// A token of a list.
#[derive(Debug, Deserialize)]
struct ListedToken {
    id: Uuid,
    name: String,
    role: String,
    created_at: Timestamp,
    expires_at: Option<Timestamp>,
    firm_ids: Option<Vec<Uuid>>,
    last_used_at: Option<Timestamp>,
    revoked_at: Option<Timestamp>,
}

const HEADS: [&str; 8] =
    ["Token", "Name", "Role", "Firms", "Made", "Last use", "Expires", "Revoked"];

/// Lists tokens.
pub(crate) async fn list(State(state): State<SharedState>, visit: PageVisit) -> PageAnswer {
    let api = visit.api_path("/tokens");
    visit
        .show_answer(&state, &api, |found: &ListAnswer<ListedToken>| list_content(&visit, found))
        .await
}

fn list_content(visit: &PageVisit, found: &ListAnswer<ListedToken>) -> PageContent {
    let rows = html! { @for token in &found.items { (token_row(visit, token)) } };
    let content = html! { (parts::table("Tokens", &HEADS, &rows)) };
    PageContent::new("Tokens", content).with_data()
}

fn token_row(visit: &PageVisit, token: &ListedToken) -> Markup {
    html! {
        tr {
            td { (parts::id_link(&format!("/console/log?stream={}", token.id), &token.id)) }
            td { (parts::foreign_text(&token.name)) }
            td { (token.role) }
            td {
                @match &token.firm_ids {
                    None => { "all" },
                    Some(ids) => {
                        @for id in ids { (parts::id_link(&format!("/console/firms/{id}"), id)) " " }
                    },
                }
            }
            td { (parts::time(token.created_at, visit.now)) }
            td { (parts::time_or_none(token.last_used_at, visit.now)) }
            td { (parts::time_or_none(token.expires_at, visit.now)) }
            td { (parts::time_or_none(token.revoked_at, visit.now)) }
        }
    }
}
