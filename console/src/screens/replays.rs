//! Replays, newest first, of a firm or of all.

use axum::extract::State;
use domain::values::Timestamp;
use maud::{Markup, html};
use serde::Deserialize;
use std::collections::BTreeMap;
use uuid::Uuid;

use crate::SharedState;
use crate::ask::ListAnswer;
use crate::frame::PageContent;
use crate::parts::{self, EmptyList, ListFilter};
use crate::visit::{PageAnswer, PageVisit};

/// A replay.
#[derive(Debug, Deserialize)]
pub(super) struct ListedReplay {
    pub(super) id: Uuid,
    pub(super) firm_id: Uuid,
    pub(super) state: String,
    pub(super) reason: String,
    pub(super) force: bool,
    pub(super) rate_per_second: i32,
    pub(super) selected: i64,
    pub(super) requested_at: Timestamp,
    pub(super) ended_at: Option<Timestamp>,
    #[serde(default)]
    pub(super) outcomes: BTreeMap<String, i64>,
}

const HEADS: [&str; 7] = ["Replay", "State", "Firm", "Deliveries", "A second", "Ordered", "Reason"];

/// Lists replays.
pub(crate) async fn list(State(state): State<SharedState>, visit: PageVisit) -> PageAnswer {
    let is_limited = !visit.session.holder().reaches_all();
    if is_limited && visit.query_value("firm_id").is_none() {
        let content = html! {
            (filter_fields(&visit))
            p { "Your token reaches some firms: name one of them." }
        };
        return Ok(visit.plain_page("Replays", content));
    }
    let api = visit.api_path("/replays");
    visit
        .show_answer(&state, &api, |found: &ListAnswer<ListedReplay>| list_content(&visit, found))
        .await
}

fn filter_fields(visit: &PageVisit) -> Markup {
    parts::filter_form(visit, &[ListFilter::Text("firm_id", "id of a firm")])
}

fn list_content(visit: &PageVisit, found: &ListAnswer<ListedReplay>) -> PageContent {
    let content = html! {
        (filter_fields(visit))
        (replay_table(visit, &found.items))
        (parts::empty_note(&EmptyList(found.items.is_empty())))
        (parts::page_links(visit, found.next.as_deref()))
        p { "A replay begins on the page of a firm or of a delivery." }
    };
    PageContent::new("Replays", content).with_data()
}

/// Replays as a table.
pub(super) fn replay_table(visit: &PageVisit, replays: &[ListedReplay]) -> Markup {
    let rows = html! {
        @for one in replays {
            tr {
                td {
                    // The page of one replay is for operators, as its answer of the API is.
                    @if visit.may_act() {
                        (parts::id_link(&format!("/console/replays/{}", one.id), &one.id))
                    } @else { (parts::plain_id(&one.id)) }
                }
                td { (parts::state(&one.state)) }
                td { (parts::id_link(&format!("/console/firms/{}", one.firm_id), &one.firm_id)) }
                td { (one.selected) }
                td { (one.rate_per_second) }
                td { (parts::time(one.requested_at, visit.now)) }
                td { (parts::foreign_text(&one.reason)) }
            }
        }
    };
    parts::table("Replays", &HEADS, &rows)
}
