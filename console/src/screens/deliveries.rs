//! Deliveries of a firm, newest first.

use api::queries::listing::{self, DeliveryListQuery};
use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use domain::ids::parse_id;
use domain::time::Timestamp;
use domain::trigger::Trigger;
use maud::{Markup, html};
use serde::Deserialize;
use serde_json::json;
use uuid::Uuid;

use crate::SharedState;
use crate::ask::ListAnswer;
use crate::frame::PageContent;
use crate::parts::{self, EmptyList, ListFilter};
use crate::refusal::Refusal;
use crate::visit::{FirmVisit, PageAnswer};

/// A delivery of a list.
#[derive(Debug, Deserialize)]
pub(crate) struct ListedDelivery {
    pub(crate) id: Uuid,
    pub(crate) hook_id: Option<Uuid>,
    pub(crate) run_id: Option<Uuid>,
    pub(crate) trigger: String,
    pub(crate) state: String,
    pub(crate) cause: Option<String>,
    pub(crate) created_at: Timestamp,
    pub(crate) next_try_at: Option<Timestamp>,
    pub(crate) paused: Option<Uuid>,
    pub(crate) reissue_of: Option<Uuid>,
    pub(crate) erased: Option<bool>,
}

const HEADS: [&str; 7] =
    ["Delivery", "State", "Trigger", "Subscription or step", "Created", "Next try", "Notes"];

/// Lists deliveries.
pub(crate) async fn list(State(state): State<SharedState>, visit: FirmVisit) -> PageAnswer {
    let content = |found: &ListAnswer<ListedDelivery>| content(&visit, found);
    visit.shown(&state, "/deliveries", content).await
}

fn content(at: &FirmVisit, found: &ListAnswer<ListedDelivery>) -> PageContent {
    let visit = &at.visit;
    let triggers = Trigger::ALL.map(Trigger::key);
    let fields = [
        ListFilter::Choice("state", &["pending", "delivered", "failed", "cancelled"]),
        ListFilter::Choice("trigger", &triggers),
        ListFilter::Text("hook_id", "id of a subscription"),
        ListFilter::Text("since", "24h or 2026-03-01"),
        ListFilter::Text("until", "2026-04-01"),
        ListFilter::Text("as_of", "a position or an instant"),
    ];
    let rows = html! { @for one in &found.items { (row(at, one)) } };
    let content = html! {
        (parts::filters(visit, &fields))
        (newer_line(at, found))
        (parts::table("Deliveries", &HEADS, &rows))
        (parts::empty(&EmptyList(found.items.is_empty())))
        (parts::pages(visit, found.next.as_deref()))
        (exports(at))
        @if visit.may_act() { p { a href=(replay_link(at)) { "Replay deliveries like these" } } }
    };
    PageContent::of("Deliveries", content).with_data()
}

fn row(at: &FirmVisit, one: &ListedDelivery) -> Markup {
    let now = at.visit.now;
    html! {
        tr {
            td { (parts::id(&at.at(&format!("/deliveries/{}", one.id)), &one.id)) }
            td { (parts::state(&one.state)) }
            td { (one.trigger) }
            td {
                @if let Some(hook_id) = one.hook_id {
                    (parts::id(&at.at(&format!("/hooks/{hook_id}")), &hook_id))
                } @else if let Some(run_id) = one.run_id {
                    "run " (parts::plain_id(&run_id))
                }
            }
            td { (parts::time(one.created_at, now)) }
            td { (parts::time_or_none(one.next_try_at, now)) }
            td { (notes(one)) }
        }
    }
}

/// The cause of a state, and all that is unusual about a delivery.
pub(crate) fn notes(one: &ListedDelivery) -> Markup {
    html! {
        @if let Some(cause) = &one.cause { (cause) " " }
        @if one.paused.is_some() { a href="/console/pauses" { "paused" } " " }
        @if one.reissue_of.is_some() { "reissued " }
        @if one.erased == Some(true) { "response erased by now" }
    }
}

/// A place for the script to say how many deliveries came since. Without it the line stays away.
fn newer_line(at: &FirmVisit, found: &ListAnswer<ListedDelivery>) -> Markup {
    let is_first = at.visit.asked("after").is_none() && at.visit.asked("as_of").is_none();
    let newest = found.items.first().filter(|_| is_first);
    html! {
        @if let Some(newest) = newest {
            p.newer hidden data-newer=(at.at(&format!("/deliveries/newer?than={}", newest.id))) {
                a href=(at.visit.link("after", None)) { "newer deliveries: show" }
            }
        }
    }
}

fn exports(at: &FirmVisit) -> Markup {
    let query: Vec<(String, String)> = at
        .visit
        .query
        .iter()
        .filter(|(name, _)| matches!(name.as_str(), "hook_id" | "since" | "until"))
        .cloned()
        .collect();
    let link = |format: &str| {
        let mut query = query.clone();
        query.push(("format".to_owned(), format.to_owned()));
        let query =
            url::form_urlencoded::Serializer::new(String::new()).extend_pairs(&query).finish();
        at.at(&format!("/deliveries/export?{query}"))
    };
    html! {
        p { "All of them, a line for each try: "
            a href=(link("csv")) { "CSV" } ", " a href=(link("ndjson")) { "NDJSON" } }
    }
}

fn replay_link(at: &FirmVisit) -> String {
    let named = ["hook_id", "trigger", "since", "until"];
    let mut query = url::form_urlencoded::Serializer::new(String::new());
    for (name, value) in &at.visit.query {
        if named.contains(&name.as_str()) {
            query.append_pair(name, value);
        }
    }
    at.at(&format!("/replay?{}", query.finish()))
}

/// Deliveries with their tries, as a file of any length.
pub(crate) async fn export(State(state): State<SharedState>, visit: FirmVisit) -> PageAnswer {
    let api = visit.api("/deliveries/export");
    state.file(&visit.visit.session, &api).await
}

/// Counts the deliveries after the newest one of a page, up to 500. It shows none of them, so it is
/// no reading.
pub(crate) async fn newer(
    State(state): State<SharedState>,
    visit: FirmVisit,
) -> Result<Response, Refusal> {
    let than = visit.visit.asked("than").and_then(parse_id).ok_or_else(Refusal::no_page)?;
    let newest = DeliveryListQuery { limit: Some(500), ..DeliveryListQuery::default() };
    let page = listing::deliveries(&state.service, visit.firm.id, &newest)
        .await
        .map_err(|error| Refusal::broken(&error.to_string()))?;
    let newer = page.rows.iter().take_while(|row| row.delivery_id != than).count();
    Ok(Json(json!({ "newer": newer })).into_response())
}
