//! Deliveries of a firm, newest first.

use std::str::FromStr;

use api::queries::listing::{self, DeliveryListQuery};
use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use domain::subscription::Trigger;
use domain::values::{Timestamp, When, parse_id};
use maud::{Markup, html};
use serde::Deserialize;
use serde_json::json;
use uuid::Uuid;

use crate::SharedState;
use crate::ask::ListAnswer;
use crate::frame::PageContent;
use crate::parts::{self, EmptyList, ListFilter};
use crate::refusal::Refusal;
use crate::visit::{FirmVisit, PageAnswer, PageVisit, query_text};

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

/// The filters of the list, which a replay has, too.
const FILTERS: [&str; 5] = ["hook_id", "trigger", "state", "since", "until"];

/// Most newer deliveries that are counted. The script says of so many that they are more than 20.
const NEWER_MAX: i64 = 21;

/// Lists deliveries.
pub(crate) async fn list(State(state): State<SharedState>, visit: FirmVisit) -> PageAnswer {
    let content = |found: &ListAnswer<ListedDelivery>| list_content(&visit, found);
    visit.show_answer(&state, "/deliveries", content).await
}

fn list_content(at: &FirmVisit, found: &ListAnswer<ListedDelivery>) -> PageContent {
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
    let rows = html! { @for one in &found.items { (delivery_row(at, one)) } };
    let content = html! {
        (parts::filter_form(visit, &fields))
        (newer_line(at, found))
        (parts::table("Deliveries", &HEADS, &rows))
        (parts::empty_note(&EmptyList(found.items.is_empty())))
        (parts::archived_note(found.archived_before))
        (parts::page_links(visit, found.next.as_deref()))
        (export_links(at))
        @if visit.may_act() { p { a href=(replay_link(at)) { "Replay deliveries like these" } } }
    };
    PageContent::new("Deliveries", content).with_data()
}

fn delivery_row(at: &FirmVisit, one: &ListedDelivery) -> Markup {
    let now = at.visit.now;
    html! {
        tr {
            td { (parts::id_link(&at.firm_page(&format!("/deliveries/{}", one.id)), &one.id)) }
            td { (parts::state(&one.state)) }
            td { (one.trigger) }
            td {
                @if let Some(hook_id) = one.hook_id {
                    (parts::id_link(&at.firm_page(&format!("/hooks/{hook_id}")), &hook_id))
                } @else if let Some(run_id) = one.run_id {
                    "run " (parts::plain_id(&run_id))
                }
            }
            td { (parts::time(one.created_at, now)) }
            td { (parts::time_or_none(one.next_try_at, now)) }
            td { (delivery_notes(one)) }
        }
    }
}

/// The cause of a state, and all that is unusual about a delivery.
pub(crate) fn delivery_notes(one: &ListedDelivery) -> Markup {
    html! {
        @if let Some(cause) = &one.cause { (cause) " " }
        @if one.paused.is_some() { a href="/console/pauses" { "paused" } " " }
        @if one.reissue_of.is_some() { "reissued " }
        @if one.erased == Some(true) { "response erased by now" }
    }
}

/// A place for the script to say how many deliveries came since. Without it the line stays away.
fn newer_line(at: &FirmVisit, found: &ListAnswer<ListedDelivery>) -> Markup {
    let is_first =
        at.visit.query_value("after").is_none() && at.visit.query_value("as_of").is_none();
    let newest = found.items.first().filter(|_| is_first);
    html! {
        @if let Some(newest) = newest {
            p.newer hidden data-newer=(newer_path(at, newest.id)) {
                a href=(at.visit.link_with("after", None)) { "newer deliveries: show" }
            }
        }
    }
}

fn newer_path(at: &FirmVisit, newest: Uuid) -> String {
    let mut query = vec![("than".to_owned(), newest.to_string())];
    query.extend(kept_parameters(at, &FILTERS));
    at.firm_page(&format!("/deliveries/newer?{}", query_text(&query)))
}

/// These parameters of the page.
fn kept_parameters(at: &FirmVisit, names: &[&str]) -> Vec<(String, String)> {
    let query = at.visit.query.iter();
    query.filter(|(name, _)| names.contains(&name.as_str())).cloned().collect()
}

fn export_links(at: &FirmVisit) -> Markup {
    let link = |format: &str| {
        let mut query = kept_parameters(at, &["hook_id", "since", "until"]);
        query.push(("format".to_owned(), format.to_owned()));
        at.firm_page(&format!("/deliveries/export?{}", query_text(&query)))
    };
    html! {
        p { "All of them, a line for each try: "
            a href=(link("csv")) { "CSV" } ", " a href=(link("ndjson")) { "NDJSON" } }
    }
}

fn replay_link(at: &FirmVisit) -> String {
    at.firm_page(&format!("/replay?{}", query_text(&kept_parameters(at, &FILTERS))))
}

/// Deliveries with their tries, as a file of any length.
pub(crate) async fn export(State(state): State<SharedState>, visit: FirmVisit) -> PageAnswer {
    let api = visit.api_path("/deliveries/export");
    state.ask_file(&visit.visit.session, &api).await
}

/// Counts the deliveries that came after the newest one of a page and have its filters. It shows
/// none of them, so it is no reading.
pub(crate) async fn newer(
    State(state): State<SharedState>,
    visit: FirmVisit,
) -> Result<Response, Refusal> {
    let than = visit.visit.query_value("than").and_then(parse_id).ok_or_else(Refusal::no_page)?;
    let filters = list_query(&visit.visit)?;
    let newer = listing::count_newer(&state.service, visit.firm.id, than, NEWER_MAX, filters).await;
    let newer = newer.map_err(|error| match error {
        error @ api::Error::InvalidRequest(_) => Refusal::invalid(&error.to_string()),
        error => Refusal::broken(&error.to_string()),
    })?;
    Ok(Json(json!({ "newer": newer })).into_response())
}

fn list_query(visit: &PageVisit) -> Result<DeliveryListQuery, Refusal> {
    let time = |name| {
        let when = parse_filter::<When>(visit, name)?;
        Ok::<_, Refusal>(when.map(|when| when.instant_before(visit.now)))
    };
    Ok(DeliveryListQuery {
        hook_id: parse_filter(visit, "hook_id")?,
        trigger: visit.query_value("trigger").map(str::to_owned),
        state: parse_filter(visit, "state")?,
        since: time("since")?,
        until: time("until")?,
        ..DeliveryListQuery::default()
    })
}

fn parse_filter<T: FromStr>(visit: &PageVisit, name: &str) -> Result<Option<T>, Refusal> {
    let unread = |_| Refusal::invalid(&format!("`{name}` cannot be read"));
    visit.query_value(name).map(str::parse).transpose().map_err(unread)
}
