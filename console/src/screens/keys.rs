//! Keys of a firm, revoked ones too.

use axum::extract::State;
use domain::values::Timestamp;
use maud::{Markup, html};
use serde::Deserialize;
use uuid::Uuid;

use crate::SharedState;
use crate::ask::ListAnswer;
use crate::frame::PageContent;
use crate::parts::{self, EmptyList};
use crate::visit::{FirmVisit, PageAnswer};

/// A key of a list.
#[derive(Debug, Deserialize)]
pub(super) struct ListedKey {
    id: Uuid,
    name: String,
    prefix: String,
    member_id: Uuid,
    created_at: Timestamp,
    revoked_at: Option<Timestamp>,
    last_used_at: Option<Timestamp>,
}

const HEADS: [&str; 7] = ["Key", "Name", "Prefix", "Member", "Made", "Last call", "Revoked"];

/// Lists keys.
pub(crate) async fn list(State(state): State<SharedState>, visit: FirmVisit) -> PageAnswer {
    let content = |found: &ListAnswer<ListedKey>| {
        let content = html! {
            (key_table(&visit, &found.items))
            (parts::empty_note(&EmptyList(found.items.is_empty())))
        };
        PageContent::new("Keys", content).with_data()
    };
    visit.show_answer(&state, "/keys", content).await
}

/// Keys as a table.
pub(super) fn key_table(at: &FirmVisit, keys: &[ListedKey]) -> Markup {
    let now = at.visit.now;
    let rows = html! {
        @for key in keys {
            tr {
                td { (parts::id_link(&at.firm_page(&format!("/keys/{}", key.id)), &key.id)) }
                td { (parts::foreign_text(&key.name)) }
                td { code { (key.prefix) } }
                td { (parts::plain_id(&key.member_id)) }
                td { (parts::time(key.created_at, now)) }
                td { (parts::time_or_none(key.last_used_at, now)) }
                td { (parts::time_or_none(key.revoked_at, now)) }
            }
        }
    };
    parts::table("Keys", &HEADS, &rows)
}
