//! Firms by name.

use axum::extract::State;
use maud::html;
use serde::Deserialize;
use uuid::Uuid;

use crate::SharedState;
use crate::ask::ListAnswer;
use crate::frame::PageContent;
use crate::parts::{self, EmptyList};
use crate::visit::{PageAnswer, PageVisit};

/// A firm of a list.
#[derive(Debug, Deserialize)]
pub(super) struct ListedFirm {
    pub(super) id: Uuid,
    pub(super) name: String,
    pub(super) status: String,
}

/// Lists firms.
pub(crate) async fn list(State(state): State<SharedState>, visit: PageVisit) -> PageAnswer {
    let api = visit.api_path("/firms");
    visit
        .show_answer(&state, &api, |found: &ListAnswer<ListedFirm>| list_content(&visit, found))
        .await
}

fn list_content(visit: &PageVisit, found: &ListAnswer<ListedFirm>) -> PageContent {
    let content = html! {
        (firm_table(&found.items))
        (parts::empty_note(&EmptyList(found.items.is_empty())))
        (parts::page_links(visit, found.next.as_deref()))
    };
    PageContent::new("Firms", content).with_data()
}

/// Firms with the pages that are asked for most.
pub(super) fn firm_table(firms: &[ListedFirm]) -> maud::Markup {
    let rows = html! {
        @for firm in firms {
            @let base = format!("/console/firms/{}", firm.id);
            tr {
                td { a href=(base) data-id=(firm.id) { (parts::foreign_text(&firm.name)) } }
                td { (parts::state(&firm.status)) }
                td { a href=(format!("{base}/deliveries")) { "Deliveries" } }
                td { a href=(format!("{base}/hooks?removed=true")) { "Removed subscriptions" } }
                td { a href=(format!("{base}/audit")) { "Audit log" } }
            }
        }
    };
    parts::table("Firms", &["Firm", "Status", "", "", ""], &rows)
}
