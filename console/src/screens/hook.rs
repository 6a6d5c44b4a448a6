//! One subscription: its life, and why it went.

use axum::extract::State;
use domain::values::Timestamp;
use maud::{Markup, html};
use serde::Deserialize;
use serde_json::Value;
use uuid::Uuid;

use super::audit;
use super::steps::{self, ToldStep};
use crate::SharedState;
use crate::frame::PageContent;
use crate::parts::{self, ListFilter, OfferedCommand};
use crate::visit::{FirmVisit, PageAnswer};

/// A subscription's life and end.
#[derive(Debug, Deserialize)]
struct HookLife {
    id: Uuid,
    key_id: Option<Uuid>,
    key: Option<NamedKey>,
    trigger: Option<String>,
    target: Option<String>,
    form_id: Option<Uuid>,
    state: String,
    created_at: Option<Timestamp>,
    removal: Option<HookEnd>,
    steps: Vec<ToldStep>,
    entries: Vec<Value>,
}

/// The key that made a subscription.
#[derive(Debug, Deserialize)]
struct NamedKey {
    name: String,
    prefix: String,
}

/// The end of a subscription.
#[derive(Debug, Deserialize)]
struct HookEnd {
    at: Timestamp,
    reason: String,
    actor: String,
    caused_by: Option<Uuid>,
    position: i64,
    deciding: Vec<DecidingDelivery>,
    delivered_between: Option<i64>,
    cancelled: Option<i64>,
    archived_before: Option<Timestamp>,
}

/// A delivery that was answered 410.
#[derive(Debug, Deserialize)]
struct DecidingDelivery {
    delivery_id: Uuid,
    status: u16,
    finished_at: Timestamp,
    attempts: Vec<DecidingTry>,
}

/// A try of such a delivery.
#[derive(Debug, Deserialize)]
struct DecidingTry {
    number: u32,
    started_at: Timestamp,
    outcome: String,
    status: Option<u16>,
    error: Option<String>,
    answer_sha256: Option<String>,
}

/// Shows a subscription.
pub(crate) async fn show(State(state): State<SharedState>, visit: FirmVisit) -> PageAnswer {
    let path = format!("/hooks/{}/history", visit.visit.path_part("id")?);
    visit.show_answer(&state, &path, |found: &HookLife| hook_content(&visit, found)).await
}

fn hook_content(at: &FirmVisit, found: &HookLife) -> PageContent {
    let now = at.visit.now;
    let deliveries = at.firm_page(&format!("/deliveries?hook_id={}", found.id));
    let entries = html! {
        (audit::entry_table(at, &found.entries))
        (audit::bundle_form(at))
    };
    let content = html! {
        (hook_facts(at, found))
        @if let Some(end) = &found.removal { (removal_section(at, end)) }
        p { a href=(deliveries) { "Its deliveries" } }
        (parts::section("steps", "How it came here", &steps::step_list(&found.steps, now)))
        (parts::section("entries", "Entries of the audit log", &entries))
        (command_section(at, found))
        (parts::filter_form(&at.visit, &[ListFilter::Text("as_of", "a position or an instant")]))
    };
    PageContent::new(&format!("Subscription {}", found.id), content).with_data()
}

fn hook_facts(at: &FirmVisit, found: &HookLife) -> Markup {
    let key = html! {
        @if let Some(id) = found.key_id { (parts::id_link(&at.firm_page(&format!("/keys/{id}")), &id)) " " }
        @if let Some(key) = &found.key { (parts::foreign_text(&key.name)) " " code { (key.prefix) } }
    };
    let form = match found.form_id {
        Some(id) => parts::plain_id(&id),
        None => html! { "all forms" },
    };
    parts::fact_list(&[
        ("State", parts::state(&found.state)),
        ("Trigger", html! { (found.trigger.as_deref().unwrap_or("unknown")) }),
        ("Target", parts::foreign_text(found.target.as_deref().unwrap_or("unknown"))),
        ("Form", form),
        ("Key", key),
        ("Made", parts::time_or_none(found.created_at, at.visit.now)),
    ])
}

/// The rule that removed the subscription, and its evidence side by side.
fn removal_section(at: &FirmVisit, end: &HookEnd) -> Markup {
    let content = html! {
        p.why {
            strong { (rule_words(&end.reason)) } " "
            (parts::time(end.at, at.visit.now)) ", by " (end.actor) ", "
            a href=(steps::event_page(end.position)) { "event " (end.position) } "."
            @if let Some(cause) = end.caused_by {
                " Its cause is the event " (parts::id_link(&format!("/console/log/{cause}"), &cause)) "."
            }
            @if let Some(between) = end.delivered_between {
                " Deliveries that arrived between the two: " (between) "."
            }
            @if let Some(cancelled) = end.cancelled { " Deliveries cancelled: " (cancelled) "." }
        }
        (parts::archived_note(end.archived_before))
        div.beside { @for one in &end.deciding { (deciding_article(at, one)) } }
    };
    parts::section("why", "Why it went", &content)
}

/// The rule in words.
fn rule_words(reason: &str) -> &str {
    match reason {
        "target_gone" => "Two deliveries in a row were answered 410 Gone.",
        "key_revoked" => "Its key was revoked.",
        "firm_closed" => "The firm was closed.",
        "deleted_by_key" => "The holder of its key deleted it.",
        other => other,
    }
}

fn deciding_article(at: &FirmVisit, one: &DecidingDelivery) -> Markup {
    let page = at.firm_page(&format!("/deliveries/{}", one.delivery_id));
    html! {
        article {
            h3 { "Delivery " (parts::id_link(&page, &one.delivery_id)) }
            p { "Answered " (one.status) " " (parts::time(one.finished_at, at.visit.now)) }
            ul { @for one in &one.attempts {
                li {
                    "Try " (one.number) " " (parts::state(&one.outcome)) " "
                    @if let Some(status) = one.status { (status) " " }
                    @if let Some(error) = &one.error { (parts::foreign_text(error)) " " }
                    (parts::time(one.started_at, at.visit.now))
                    @if let Some(sha) = &one.answer_sha256 {
                        " answer " code { (parts::plain_id(sha)) }
                    }
                }
            } }
        }
    }
}

fn command_section(at: &FirmVisit, found: &HookLife) -> Markup {
    let visit = &at.visit;
    if !visit.may_act() {
        return html! {};
    }
    let page = at.firm_page(&format!("/hooks/{}", found.id));
    let is_live = found.state != "removed";
    let pause = OfferedCommand {
        action: "/console/pauses/begin",
        name: "Pause this subscription",
        effect: "Holds its deliveries from the next claim on. Nothing is lost.",
        fields: parts::hidden_field("hook_id", &found.id),
    };
    let test = OfferedCommand {
        action: &format!("{page}/test"),
        name: "Send a test",
        effect: "Sends a signed sample once, and shows the answer. Nothing is kept.",
        fields: html! {},
    };
    let reveal = OfferedCommand {
        action: &format!("{page}/reveal"),
        name: "Show the whole target",
        effect: "Shows path and query. The look is an entry of the audit log.",
        fields: html! {},
    };
    let content = html! {
        @if is_live { (parts::command_form(visit, &pause)) (parts::command_form(visit, &test)) }
        (parts::command_form(visit, &reveal))
    };
    parts::section("commands", "Commands", &content)
}
