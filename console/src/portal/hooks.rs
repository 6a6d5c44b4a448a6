//! Subscriptions: their health, why one went, and a test.

use api::portal::acts;
use api::portal::views::{self, HookHealth, HookLife};
use api::queries::as_of::HookFilter;
use axum::extract::State;
use domain::audit::AuditPeriod;
use domain::values::Timestamp;
use maud::{Markup, html};
use serde::Deserialize;
use uuid::Uuid;

use super::paging::page_links;
use super::visit::{PortalAnswer, PortalForm, PortalVisit};
use super::words::Words;
use super::{SharedPortal, deliveries, look};
use crate::parts;

/// Deliveries that count for the health of a subscription.
const HEALTH_OF: &str = " / ";

/// Lists live or removed subscriptions.
pub(super) async fn list(State(state): State<SharedPortal>, visit: PortalVisit) -> PortalAnswer {
    let which = match visit.query_value("removed") {
        None => HookFilter::Live,
        Some("true") => HookFilter::Removed(AuditPeriod::default()),
        Some(_) => return Err(visit.not_accepted("removed")),
    };
    let after = visit.asked_id("after")?;
    let found = views::hooks(&state.service, &visit.session, which, after).await;
    let found = visit.or_refusal(found)?;
    let words = visit.words;
    let heads = [
        words.target,
        words.trigger,
        words.form,
        words.key,
        words.created,
        words.state,
        words.health,
        words.last_arrival,
    ];
    let health_of = |hook: &HookLife| found.health.iter().find(|one| one.hook_id == hook.hook_id);
    let rows = html! {
        @for hook in &found.page.rows {
            @let state = state_of(hook, &found.warned);
            tr {
                td { (hook_link(hook)) }
                td { code { (hook.trigger) } }
                td { @if let Some(form) = hook.form_id { (parts::plain_id(&form)) }
                    @else { (words.all_forms) } }
                td { (parts::id_link(&format!("/portal/keys/{}", hook.key_id), &hook.key_id)) }
                td { (parts::plain_time(hook.created_at.into())) }
                td { (parts::state_named(state, words.state_of(state))) }
                td { @if let Some(health) = health_of(hook) { (success_share(words, health)) } }
                td { (last_arrival(words, health_of(hook))) }
            }
        }
    };
    let tab = |removed: Option<&str>, name: &str| {
        let here = (removed == visit.query_value("removed")).then_some("page");
        html! { a href=(visit.link_with("removed", removed)) aria-current=[here] { (name) } " " }
    };
    let content = html! {
        p { (tab(None, words.live_hooks)) (tab(Some("true"), words.removed_hooks)) }
        (parts::table(words.hooks, &heads, &rows))
        @if found.page.rows.is_empty() { p.none { (words.empty) } }
        (page_links(&visit, found.page.next.map(|next| next.to_string()).as_deref()))
    };
    Ok(visit.page(words.hooks, content))
}

fn state_of(hook: &HookLife, warned: &[Uuid]) -> &'static str {
    match hook.removed_at {
        Some(_) => "removed",
        None if warned.contains(&hook.hook_id) => "warned",
        None => "live",
    }
}

fn hook_link(hook: &HookLife) -> Markup {
    html! {
        a href=(format!("/portal/hooks/{}", hook.hook_id)) { (parts::foreign_text(&hook.target_url)) }
    }
}

fn success_share(words: &Words, health: &HookHealth) -> Markup {
    let HookHealth { delivered, failed, pending, .. } = *health;
    html! {
        @if delivered + failed + pending == 0 { span.none { (words.none) } } @else {
            (delivered) (HEALTH_OF) (delivered + failed)
            @if pending > 0 { " · " (words.waiting) " " (pending) }
        }
    }
}

fn last_arrival(words: &Words, health: Option<&HookHealth>) -> Markup {
    html! {
        @if let Some(at) = health.and_then(|health| health.delivered_at) {
            (parts::plain_time(at.into()))
        } @else { span.none { (words.none) } }
    }
}

/// Subscriptions by target and trigger.
pub(super) fn short_list(words: &Words, hooks: &[HookLife]) -> Markup {
    let rows = html! {
        @for hook in hooks { tr { td { (hook_link(hook)) } td { code { (hook.trigger) } } } }
    };
    parts::table(words.hooks, &[words.target, words.trigger], &rows)
}

/// A subscription's life and end.
#[derive(Debug, Deserialize)]
struct HookStory {
    id: Uuid,
    key: Option<HookMaker>,
    trigger: Option<String>,
    target: Option<String>,
    form_id: Option<Uuid>,
    state: String,
    created_at: Option<Timestamp>,
    removal: Option<HookFarewell>,
}

/// The key that made a subscription.
#[derive(Debug, Deserialize)]
struct HookMaker {
    name: String,
    prefix: String,
}

/// The end of a subscription.
#[derive(Debug, Deserialize)]
struct HookFarewell {
    at: Timestamp,
    reason: String,
    deciding: Vec<GoneDelivery>,
}

/// A delivery that was answered 410.
#[derive(Debug, Deserialize)]
struct GoneDelivery {
    delivery_id: Uuid,
    status: u16,
    finished_at: Timestamp,
}

/// Shows a subscription.
pub(super) async fn show(State(state): State<SharedPortal>, visit: PortalVisit) -> PortalAnswer {
    let found = views::hook(&state.service, &visit.session, visit.path_id()?).await;
    let (history, health) = visit.or_refusal(found)?;
    let story: HookStory = visit.or_refusal(reread_answer(&history))?;
    let words = visit.words;
    let content = html! {
        (hook_facts(words, &story, &health))
        p { a href=(format!("/portal/deliveries?hook_id={}", story.id)) { (words.deliveries) } }
        @if let Some(removal) = &story.removal { (removal_section(words, removal)) }
        @else { (command_section(&visit)) }
    };
    Ok(visit.page(words.hook, content))
}

/// Reads the answer of a query as the API would show it.
fn reread_answer<T: for<'a> Deserialize<'a>>(
    found: &impl serde::Serialize,
) -> Result<T, api::Error> {
    let value = serde_json::to_value(found).and_then(serde_json::from_value);
    value.map_err(|error| api::Error::Internal(error.to_string()))
}

fn hook_facts(words: &Words, story: &HookStory, health: &HookHealth) -> Markup {
    let code = |text: Option<&str>| html! { code { (text.unwrap_or(words.none)) } };
    parts::fact_list(&[
        (words.target, parts::foreign_text(story.target.as_deref().unwrap_or(words.none))),
        (words.trigger, code(story.trigger.as_deref())),
        (words.state, parts::state_named(&story.state, words.state_of(&story.state))),
        (
            words.form,
            html! {
                @if let Some(id) = story.form_id { code { (id) } } @else { (words.all_forms) }
            },
        ),
        (
            words.key,
            html! {
                @if let Some(key) = &story.key {
                    (parts::foreign_text(&key.name)) " " code { (key.prefix) "…" }
                } @else { (words.none) }
            },
        ),
        (
            words.created,
            html! {
                @if let Some(at) = story.created_at { (parts::plain_time(at)) }
            },
        ),
        (words.health, success_share(words, health)),
        (words.last_arrival, last_arrival(words, Some(health))),
    ])
}

fn removal_section(words: &Words, removal: &HookFarewell) -> Markup {
    let content = html! {
        (parts::fact_list(&[
            (words.removed_at, parts::plain_time(removal.at)),
            (words.cause, html! { code { (removal.reason) } }),
        ]))
        @if !removal.deciding.is_empty() {
            p { (words.decided) ":" }
            ul { @for one in &removal.deciding {
                li {
                    (deliveries::delivery_link(one.delivery_id))
                    " " (one.status) " " (parts::plain_time(one.finished_at))
                }
            } }
        }
    };
    parts::section("why", words.why_removed, &content)
}

fn command_section(visit: &PortalVisit) -> Markup {
    let words = visit.words;
    let command = |end: &str, effect: &str, name: &str| {
        html! {
            form.stacked method="post" action=(format!("{}/{end}", visit.path)) {
                (look::token_field(visit))
                p { (effect) }
                button { (name) }
            }
        }
    };
    let content = html! {
        (command("test", words.test_effect, words.test))
        (command("target", words.target_effect, words.show_target))
    };
    parts::section("commands", words.commands, &content)
}

/// Sends a test, and shows how the target answered. The text of the answer is for operators.
pub(super) async fn send_test(State(state): State<SharedPortal>, form: PortalForm) -> PortalAnswer {
    let PortalForm { visit, .. } = &form;
    let id = visit.path_id()?;
    let sent = visit.or_refusal(acts::test_hook(&state.service, &visit.session, id).await)?;
    let words = visit.words;
    let content = html! {
        p.done role="status" { (words.tested) }
        (parts::fact_list(&[
            (words.target, parts::foreign_text(&sent.target)),
            (words.trigger, html! { code { (sent.trigger) } }),
            (words.status, html! {
                @if let Some(status) = sent.status { (status) } @else { (words.none) }
            }),
            (words.error, html! { (sent.error.unwrap_or(words.none)) }),
        ]))
        p { a href=(format!("/portal/hooks/{id}")) { (words.hook) } }
    };
    Ok(visit.page(words.test, content))
}

/// Shows the whole target.
pub(super) async fn reveal(State(state): State<SharedPortal>, form: PortalForm) -> PortalAnswer {
    let PortalForm { visit, .. } = &form;
    let id = visit.path_id()?;
    let target = visit.or_refusal(acts::reveal_target(&state.service, &visit.session, id).await)?;
    let words = visit.words;
    let content = html! {
        pre.shown tabindex="0" { (parts::foreign_text(&target)) }
        p { a href=(format!("/portal/hooks/{id}")) { (words.hook) } }
    };
    Ok(visit.page(words.target, content))
}
