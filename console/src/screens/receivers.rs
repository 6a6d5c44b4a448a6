//! Receivers over all firms, those that fail first.

use axum::extract::State;
use domain::values::Timestamp;
use maud::{Markup, html};
use serde::Deserialize;
use uuid::Uuid;

use crate::SharedState;
use crate::ask::ListAnswer;
use crate::frame::PageContent;
use crate::parts::{self, EmptyList, ListFilter, OfferedCommand};
use crate::visit::{PageAnswer, PageVisit};

/// A receiver.
#[derive(Debug, Deserialize)]
pub(super) struct ListedReceiver {
    pub(super) host: String,
    subscriptions: i64,
    pub(super) attempts: i64,
    pub(super) delivered: i64,
    last_attempt_at: Timestamp,
    last_status: Option<i32>,
    last_error: Option<String>,
    pub(super) failing_since: Option<Timestamp>,
    pub(super) failures: i64,
    pub(super) failing: bool,
    pub(super) waiting: i64,
    pub(super) oldest_due_at: Option<Timestamp>,
    paused: Option<HostPause>,
}

/// A pause of a host.
#[derive(Debug, Deserialize)]
struct HostPause {
    id: Uuid,
    by: String,
    reason: String,
}

const HEADS: [&str; 8] = [
    "Host",
    "State",
    "Arrived in 24 h",
    "Last answer",
    "Failing since",
    "Waiting",
    "Oldest due",
    "Subscriptions",
];

/// Lists receivers.
pub(crate) async fn list(State(state): State<SharedState>, visit: PageVisit) -> PageAnswer {
    let api = visit.api_path("/receivers");
    visit
        .show_answer(&state, &api, |found: &ListAnswer<ListedReceiver>| list_content(&visit, found))
        .await
}

fn list_content(visit: &PageVisit, found: &ListAnswer<ListedReceiver>) -> PageContent {
    let rows = html! { @for one in &found.items { (receiver_row(visit, one)) } };
    let only = match &found.items[..] {
        [one] if visit.query_value("host").is_some() => Some(one),
        _ => None,
    };
    let content = html! {
        (parts::filter_form(visit, &[ListFilter::Text("host", "hooks.example.com")]))
        (parts::table("Receivers", &HEADS, &rows))
        (parts::empty_note(&EmptyList(found.items.is_empty())))
        (parts::page_links(visit, found.next.as_deref()))
        @if let (Some(one), true) = (only, visit.may_act()) { (command_section(visit, one)) }
    };
    PageContent::new("Receivers", content).with_data()
}

fn receiver_row(visit: &PageVisit, one: &ListedReceiver) -> Markup {
    let host = parts::encode_query(&one.host);
    html! {
        tr {
            td { (parts::id_link(&format!("/console/receivers?host={host}"), &one.host)) }
            td { (parts::state(one.receiver_state())) }
            td { (parts::share_bar(one.delivered, one.attempts)) }
            td {
                @if let Some(status) = one.last_status { (status) " " }
                @if let Some(error) = &one.last_error { (parts::foreign_text(error)) " " }
                (parts::time(one.last_attempt_at, visit.now))
            }
            td {
                (parts::time_or_none(one.failing_since, visit.now))
                @if one.failures > 0 { " " (one.failures) " failures" }
            }
            td { (one.waiting) }
            td { (parts::time_or_none(one.oldest_due_at, visit.now)) }
            td { (one.subscriptions) }
        }
    }
}

impl ListedReceiver {
    fn receiver_state(&self) -> &'static str {
        match (&self.paused, self.failing, self.failing_since) {
            (Some(_), ..) => "paused",
            (None, true, _) => "failing",
            (None, false, Some(_)) => "warned",
            (None, false, None) => "active",
        }
    }
}

fn command_section(visit: &PageVisit, one: &ListedReceiver) -> Markup {
    let content = html! {
        @match &one.paused {
            Some(pause) => {
                p { "Paused by " (pause.by) ": " (parts::foreign_text(&pause.reason)) }
                (parts::command_form(visit, &OfferedCommand {
                    action: &format!("/console/pauses/{}/end", pause.id),
                    name: "Resume this host",
                    effect: "The held deliveries continue from their state before the pause.",
                    fields: html! {},
                }))
            },
            None => {
                (parts::command_form(visit, &OfferedCommand {
                    action: "/console/pauses/begin",
                    name: "Pause this host",
                    effect: "Holds all deliveries to this host, of all firms. Nothing is lost.",
                    fields: parts::hidden_field("host", &one.host),
                }))
            },
        }
    };
    parts::section("commands", "Commands", &content)
}
