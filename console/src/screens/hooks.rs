//! Subscriptions of a firm: live ones, those that the next 410 removes, and removed ones.

use axum::extract::State;
use domain::values::Timestamp;
use maud::{Markup, html};
use serde::Deserialize;
use uuid::Uuid;

use crate::SharedState;
use crate::ask::ListAnswer;
use crate::frame::PageContent;
use crate::parts::{self, EmptyList, ListFilter};
use crate::visit::{FirmVisit, PageAnswer};

/// A subscription of a list.
#[derive(Debug, Deserialize)]
struct ListedHook {
    id: Uuid,
    key_id: Uuid,
    trigger: String,
    target: String,
    form_id: Option<Uuid>,
    created_at: Timestamp,
    removed_at: Option<Timestamp>,
    reason: Option<String>,
}

const HEADS: [&str; 7] = ["Subscription", "Trigger", "Target", "Form", "Key", "Made", "Removed"];

/// Lists subscriptions.
pub(crate) async fn list(State(state): State<SharedState>, visit: FirmVisit) -> PageAnswer {
    let content = |found: &ListAnswer<ListedHook>| list_content(&visit, found);
    visit.show_answer(&state, "/hooks", content).await
}

fn list_content(at: &FirmVisit, found: &ListAnswer<ListedHook>) -> PageContent {
    let visit = &at.visit;
    let rows = html! { @for one in &found.items { (hook_row(at, one)) } };
    let fields = [
        ListFilter::Choice("warned", &["true"]),
        ListFilter::Choice("removed", &["true"]),
        ListFilter::Text("since", "7d: removed since"),
        ListFilter::Text("until", "1d: removed before"),
        ListFilter::Text("as_of", "a position or an instant"),
    ];
    let content = html! {
        p.tabs {
            a href=(at.firm_page("/hooks")) { "Live" } " "
            a href=(at.firm_page("/hooks?warned=true")) { "Warned: one more 410 removes it" } " "
            a href=(at.firm_page("/hooks?removed=true")) { "Removed" }
        }
        (parts::filter_form(visit, &fields))
        (parts::table("Subscriptions", &HEADS, &rows))
        (parts::empty_note(&EmptyList(found.items.is_empty())))
        (parts::page_links(visit, found.next.as_deref()))
    };
    PageContent::new("Subscriptions", content).with_data()
}

fn hook_row(at: &FirmVisit, one: &ListedHook) -> Markup {
    let now = at.visit.now;
    html! {
        tr {
            td { (parts::id_link(&at.firm_page(&format!("/hooks/{}", one.id)), &one.id)) }
            td { (one.trigger) }
            td { (parts::foreign_text(&one.target)) }
            td { @match one.form_id { Some(id) => { (parts::plain_id(&id)) }, None => { "all" } } }
            td { (parts::id_link(&at.firm_page(&format!("/keys/{}", one.key_id)), &one.key_id)) }
            td { (parts::time(one.created_at, now)) }
            td {
                (parts::time_or_none(one.removed_at, now))
                @if let Some(reason) = &one.reason { " " (reason) }
            }
        }
    }
}
