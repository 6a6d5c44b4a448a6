//! One delivery: why it is in its state, its tries, and its contents for a reason.

use api::queries::history;
use axum::extract::State;
use domain::delivery::RetrySchedule;
use domain::values::{Timestamp, parse_id};
use maud::{Markup, html};
use serde::Deserialize;
use url::Url;
use uuid::Uuid;

use super::deliveries::{ListedDelivery, delivery_notes};
use super::steps::{self, ToldStep};
use crate::frame::PageContent;
use crate::parts::{self, OfferedCommand};
use crate::refusal::Refusal;
use crate::visit::{FirmVisit, PageAnswer};
use crate::{SharedState, ask, data};

/// A delivery with its tries.
#[derive(Debug, Deserialize)]
pub(crate) struct WholeDelivery {
    #[serde(flatten)]
    pub(crate) row: ListedDelivery,
    pub(crate) form_id: Uuid,
    pub(crate) response_id: Uuid,
    pub(crate) step_id: Option<Uuid>,
    pub(crate) body_sha256: Option<String>,
    pub(crate) body: Option<ShownText>,
    #[serde(default)]
    pub(crate) attempts: Vec<ShownTry>,
}

/// A body, or why it is not shown.
#[derive(Debug, Deserialize)]
pub(crate) struct ShownText {
    pub(crate) state: String,
    pub(crate) text: Option<String>,
}

/// A try.
#[derive(Debug, Deserialize)]
pub(crate) struct ShownTry {
    number: u32,
    started_at: Timestamp,
    finished_at: Timestamp,
    outcome: String,
    status: Option<u16>,
    error: Option<String>,
    retry_after_seconds: Option<u64>,
    hops: Vec<ShownHop>,
    answer: Option<String>,
    answer_state: String,
    #[serde(default)]
    late: bool,
}

/// A request of a try.
#[derive(Debug, Deserialize)]
struct ShownHop {
    address: Option<String>,
    status: Option<u16>,
    url: Option<String>,
}

/// The explanation of a delivery.
#[derive(Debug, Deserialize)]
struct ToldDelivery {
    held: Option<HoldingPause>,
    steps: Vec<ToldStep>,
}

/// A pause that holds a delivery.
#[derive(Debug, Deserialize)]
struct HoldingPause {
    paused_at: Timestamp,
    paused_by: String,
    reason: String,
}

impl WholeDelivery {
    /// The host of the target, once a try has named it.
    fn target_host(&self) -> Option<String> {
        let first = self.attempts.iter().find_map(|one| one.hops.first());
        let target = first.and_then(|hop| hop.url.as_deref())?;
        Url::parse(target).ok()?.host_str().map(ToOwned::to_owned)
    }

    /// A try, with the number of all tries of its schedule. A replay adds tries beyond them.
    fn numbered_try(&self, number: usize) -> String {
        let is_hook = self.row.hook_id.is_some();
        let schedule = if is_hook { RetrySchedule::RestHook } else { RetrySchedule::WorkflowStep };
        match usize::try_from(schedule.tries()) {
            Ok(all) if number <= all => format!("Try {number} of {all}"),
            Ok(_) | Err(_) => format!("Try {number}"),
        }
    }
}

/// Shows a delivery.
pub(crate) async fn show(State(state): State<SharedState>, visit: FirmVisit) -> PageAnswer {
    let id = parse_id(visit.visit.path_part("id")?).ok_or_else(Refusal::no_page)?;
    let api = visit.api_path(&format!("/deliveries/{id}"));
    let answer = state.ask_bytes(&visit.visit.session, &api).await;
    let json = match (visit.visit.format, answer) {
        (Some(format), Ok(json)) => return data::data_answer(format, &json),
        (Some(_), Err(refusal)) => return Ok(refusal.into_data()),
        (None, answer) => answer?,
    };
    let found: WholeDelivery = ask::parse_json(&json)?;
    // The reading is recorded: the explanation belongs to the same look.
    let told = match visit.visit.query_value("as_of") {
        Some(_) => None,
        None => {
            let told = history::of_delivery(&state.service, visit.firm.id, id).await;
            let told = told.map_err(|error| Refusal::broken(&error.to_string()))?;
            Some(ask::reread_answer::<ToldDelivery>(&told)?)
        }
    };
    let content = html! {
        (delivery_facts(&visit, &found))
        (state_reason(&visit, &found, told.as_ref()))
        (tries_section(&visit, &found))
        (contents_section(&found))
        @if let Some(told) = &told {
            (parts::section("steps", "How it came here", &steps::step_list(&told.steps, visit.visit.now)))
        }
        (command_section(&visit, &found))
        (as_of_form(&visit))
    };
    Ok(visit.page(PageContent::new(&format!("Delivery {id}"), content).with_data()))
}

fn delivery_facts(at: &FirmVisit, found: &WholeDelivery) -> Markup {
    let row = &found.row;
    let hook = html! {
        @match row.hook_id {
            Some(id) => { (parts::id_link(&at.firm_page(&format!("/hooks/{id}")), &id)) },
            None => { (parts::no_value()) },
        }
    };
    let run = html! {
        @match (row.run_id, found.step_id) {
            (Some(run), Some(step)) => {
                (parts::plain_id(&run)) ", step " (parts::plain_id(&step))
            },
            _ => { (parts::no_value()) },
        }
    };
    let receiver = html! {
        @match found.target_host() {
            Some(host) => {
                a href=(format!("/console/receivers?host={}", parts::encode_query(&host))) { (host) }
            },
            None => { (parts::no_value()) },
        }
    };
    let sha = found.body_sha256.as_deref().unwrap_or("none");
    parts::fact_list(&[
        ("State", html! { (parts::state(&row.state)) " " (delivery_notes(row)) }),
        ("Trigger", html! { (row.trigger) }),
        ("Subscription", hook),
        ("Workflow run", run),
        ("Receiver", receiver),
        ("Form", parts::plain_id(&found.form_id)),
        ("Response", parts::plain_id(&found.response_id)),
        ("Created", parts::time(row.created_at, at.visit.now)),
        ("Next try", parts::time_or_none(row.next_try_at, at.visit.now)),
        ("SHA-256 of the body", html! { code data-id=(sha) { (sha) } }),
    ])
}

/// One line: the reason of the state.
fn state_reason(at: &FirmVisit, found: &WholeDelivery, told: Option<&ToldDelivery>) -> Markup {
    let now = at.visit.now;
    let tries = found.attempts.len();
    let asked = found.attempts.last().and_then(|last| last.retry_after_seconds);
    let held = told.and_then(|told| told.held.as_ref());
    html! {
        p.why {
            @match (found.row.state.as_str(), found.row.next_try_at) {
                ("pending", Some(next)) => {
                    (found.numbered_try(tries + 1)) " is due " (parts::time_distance(next, now)) "."
                    @if let Some(seconds) = asked {
                        " The receiver asked to wait " (parts::duration_text(seconds)) "."
                    }
                },
                ("pending", None) => { "It waits for its next try: " (tries) " so far." },
                ("delivered", _) => { (found.numbered_try(tries)) " was answered 2xx." },
                ("failed", _) => { "It failed after " (tries) " tries." },
                (_, _) => {
                    "It was not sent to its end: " (found.row.cause.as_deref().unwrap_or("unknown"))
                    ", after " (tries) " tries."
                },
            }
            @if let Some(pause) = held {
                " Held since " (parts::time(pause.paused_at, now)) " by " (pause.paused_by) ": "
                (parts::foreign_text(&pause.reason)) "."
            }
        }
    }
}

const TRY_HEADS: [&str; 6] = ["Try", "Outcome", "Status or error", "Began", "Took", "Requests"];

fn tries_section(at: &FirmVisit, found: &WholeDelivery) -> Markup {
    let rows = html! { @for one in &found.attempts { (try_row(at, one)) } };
    let content = html! {
        @if found.attempts.is_empty() { p.none { "No try yet." } }
        @else { (parts::table("Tries", &TRY_HEADS, &rows)) }
    };
    parts::section("tries", "Tries", &content)
}

fn try_row(at: &FirmVisit, one: &ShownTry) -> Markup {
    let took = (one.finished_at.get() - one.started_at.get()).num_milliseconds();
    html! {
        tr id=(format!("try-{}", one.number)) {
            td { (one.number) }
            td { (parts::state(&one.outcome)) @if one.late { " (late)" } }
            td {
                @if let Some(status) = one.status { (status) }
                @if let Some(error) = &one.error { " " (parts::foreign_text(error)) }
            }
            td { (parts::time(one.started_at, at.visit.now)) }
            td { (took) " ms" }
            td { @for hop in &one.hops { (hop_line(hop)) } }
        }
    }
}

fn hop_line(hop: &ShownHop) -> Markup {
    html! {
        div {
            @if let Some(url) = &hop.url { (parts::foreign_text(url)) " " }
            (hop.address.as_deref().unwrap_or("no address"))
            @if let Some(status) = hop.status { " → " (status) }
        }
    }
}

fn contents_section(found: &WholeDelivery) -> Markup {
    let content = html! {
        dl.facts {
            @if let Some(body) = &found.body {
                dt { "Body" } dd { (shown_text(&body.state, body.text.as_deref())) }
            }
            @for one in &found.attempts {
                dt { "Answer to try " (one.number) }
                dd { (shown_text(&one.answer_state, one.answer.as_deref())) }
            }
        }
    };
    parts::section("contents", "Contents", &content)
}

/// A text, or why it is not shown.
pub(crate) fn shown_text(state: &str, text: Option<&str>) -> Markup {
    html! {
        @match (state, text) {
            (_, Some(text)) => pre tabindex="0" { (parts::foreign_lines(text)) },
            ("withheld", _) => { "withheld: give a reason to see it" },
            ("purged", _) => { "purged: its retention is over" },
            ("erased", _) => { "erased with its response" },
            (_, _) => { "empty" },
        }
    }
}

fn command_section(at: &FirmVisit, found: &WholeDelivery) -> Markup {
    let visit = &at.visit;
    let page = at.firm_page(&format!("/deliveries/{}", found.row.id));
    let reveal = |what: &'static str, name: &'static str, effect: &'static str| {
        let fields = parts::hidden_field("what", what);
        parts::command_form(
            visit,
            &OfferedCommand { action: &format!("{page}/reveal"), name, effect, fields },
        )
    };
    let has_ended = matches!(found.row.state.as_str(), "delivered" | "failed");
    let again = at.firm_page(&format!("/replay?delivery_ids={}", found.row.id));
    let content = html! {
        (reveal("body", "Show the body", "Shows the bytes that were sent. The look is an entry."))
        (reveal("answer", "Show the answers", "Shows the receiver's answers. The look is an entry."))
        @if visit.may_act() {
            (reveal("target", "Show the whole target", "Shows path and query. The look is an entry."))
            @if has_ended {
                p { a href=(again) { "Replay this delivery" } }
                (parts::command_form(visit, &OfferedCommand {
                    action: &format!("{page}/reissue"),
                    name: "Reissue",
                    effect: "Sends the same occurrence as a new delivery, under a new id.",
                    fields: parts::hidden_field("request_id", &visit.request_id),
                }))
            }
        }
    };
    parts::section("commands", "Commands", &content)
}

fn as_of_form(at: &FirmVisit) -> Markup {
    parts::filter_form(&at.visit, &[parts::ListFilter::Text("as_of", "a position or an instant")])
}
