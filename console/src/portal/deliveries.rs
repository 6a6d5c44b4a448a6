//! Deliveries with their tries, and the replay of a failed one.

use std::str::FromStr;

use api::portal::acts::{self, DeliveryReplay, ReplayOutcome};
use api::portal::views::{self, DeliveryOutlook, DeliveryRow};
use api::queries::listing::DeliveryListQuery;
use axum::extract::State;
use axum::response::IntoResponse;
use domain::delivery::replay::ReplaySkip;
use domain::delivery::{Attempt, DeliveryState, Hop};
use domain::subscription::Trigger;
use domain::values::{Timestamp, When};
use maud::{Markup, html};
use uuid::Uuid;

use super::paging::page_links;
use super::refusal::PortalRefusal;
use super::visit::{PortalAnswer, PortalForm, PortalVisit};
use super::words::Words;
use super::{SharedPortal, look};
use crate::parts;

/// States by which a list is filtered.
const STATES: [&str; 4] = ["pending", "delivered", "failed", "cancelled"];

/// Lists deliveries.
pub(super) async fn list(State(state): State<SharedPortal>, visit: PortalVisit) -> PortalAnswer {
    let asked = list_query(&visit)?;
    let found = visit.or_refusal(views::deliveries(&state.service, &visit.session, asked).await)?;
    let words = visit.words;
    let content = html! {
        (filter_form(&visit))
        (delivery_table(&visit, found.rows.iter()))
        @if found.rows.is_empty() { p.none { (words.empty) } }
        (archived_note(words, found.ends_at()))
        (page_links(&visit, found.next.map(|next| next.to_string()).as_deref()))
    };
    Ok(visit.page(words.deliveries, content))
}

fn list_query(visit: &PortalVisit) -> Result<DeliveryListQuery, PortalRefusal> {
    let time = |name| {
        let when = parse_filter::<When>(visit, name)?;
        Ok::<_, PortalRefusal>(when.map(|when| when.instant_before(visit.now)))
    };
    Ok(DeliveryListQuery {
        hook_id: visit.asked_id("hook_id")?,
        trigger: parse_filter::<Trigger>(visit, "trigger")?.map(|trigger| trigger.key().to_owned()),
        state: parse_filter::<DeliveryState>(visit, "state")?,
        since: time("since")?,
        until: time("until")?,
        after: visit.asked_id("after")?,
        ..DeliveryListQuery::default()
    })
}

fn parse_filter<T: FromStr>(visit: &PortalVisit, name: &str) -> Result<Option<T>, PortalRefusal> {
    let unread = |_| visit.not_accepted(name);
    visit.query_value(name).map(str::parse).transpose().map_err(unread)
}

fn filter_form(visit: &PortalVisit) -> Markup {
    let words = visit.words;
    let choice = |name: &str, label: &str, options: &[[&str; 2]]| {
        html! {
            label { (label) " "
                select name=(name) {
                    option value="" { (words.any) }
                    @for [value, shown] in options {
                        option value=(value) selected[visit.query_value(name) == Some(value)] { (shown) }
                    }
                }
            }
        }
    };
    let time = |name: &str, label: &str| {
        html! {
            label { (label) " "
                input name=(name) value=[visit.query_value(name)] placeholder="2026-03-01" size="12"
                    autocomplete="off" spellcheck="false"; }
        }
    };
    let states = STATES.map(|state| [state, words.state_of(state)]);
    let triggers = Trigger::ALL.map(|trigger| [trigger.key(), trigger.key()]);
    html! {
        form.filters method="get" action="/portal/deliveries" {
            (choice("state", words.state, &states))
            (choice("trigger", words.trigger, &triggers))
            @if let Some(hook) = visit.query_value("hook_id") {
                label { (words.hook) " " input name="hook_id" value=(hook) autocomplete="off"; }
            }
            (time("since", words.from))
            (time("until", words.until))
            button { (words.show) }
        }
    }
}

/// Says where a list ends that was longer once.
pub(super) fn archived_note(words: &Words, before: Option<Timestamp>) -> Markup {
    html! {
        @if let Some(time) = before { p { (words.archived) " " (parts::plain_time(time)) } }
    }
}

/// A table of deliveries.
pub(super) fn delivery_table<'a>(
    visit: &PortalVisit,
    rows: impl Iterator<Item = &'a DeliveryRow>,
) -> Markup {
    let words = visit.words;
    let heads = [words.delivery, words.state, words.trigger, words.created, words.next_try];
    let rows = html! {
        @for row in rows {
            tr {
                td { (delivery_link(row.delivery_id)) }
                td { (state_text(words, row)) }
                td { code { (row.trigger) } }
                td { (parts::plain_time(row.created_at.into())) }
                td { @if let Some(at) = row.next_try_at { (parts::plain_time(at.into())) } }
            }
        }
    };
    parts::table(words.deliveries, &heads, &rows)
}

/// A link to a delivery.
pub(super) fn delivery_link(delivery_id: Uuid) -> Markup {
    parts::id_link(&format!("/portal/deliveries/{delivery_id}"), &delivery_id)
}

/// The state of a delivery, with the cause of its end.
pub(super) fn state_text(words: &Words, row: &DeliveryRow) -> Markup {
    html! {
        (parts::state_named(&row.state, words.state_of(&row.state)))
        @if let Some(cause) = &row.cause { " " code { (cause) } }
    }
}

/// Shows a delivery with its tries.
pub(super) async fn show(State(state): State<SharedPortal>, visit: PortalVisit) -> PortalAnswer {
    let found = views::delivery(&state.service, &visit.session, visit.path_id()?).await;
    let DeliveryOutlook { then, skip } = visit.or_refusal(found)?;
    let words = visit.words;
    let row = &then.row;
    let content = html! {
        (delivery_facts(words, row))
        (parts::section("tries", words.tries, &tries_table(words, &then.attempts)))
        @if row.state == DeliveryState::Failed.name() { (command_section(&visit, row, skip)) }
    };
    Ok(visit.page(words.delivery, content))
}

fn delivery_facts(words: &Words, row: &DeliveryRow) -> Markup {
    parts::fact_list(&[
        (words.delivery, html! { code { (row.delivery_id) } }),
        (words.state, state_text(words, row)),
        (words.trigger, html! { code { (row.trigger) } }),
        (
            words.hook,
            html! {
                @if let Some(id) = row.hook_id { (parts::id_link(&format!("/portal/hooks/{id}"), &id)) }
                @else { (words.none) }
            },
        ),
        (
            words.run,
            html! {
                @if let Some(id) = row.run_id { (parts::id_link(&format!("/portal/runs/{id}"), &id)) }
                @else { (words.none) }
            },
        ),
        (words.response, html! { code { (row.response_id) } }),
        (words.created, parts::plain_time(row.created_at.into())),
        (
            words.next_try,
            html! {
                @if let Some(at) = row.next_try_at { (parts::plain_time(at.into())) }
                @else { (words.none) }
            },
        ),
    ])
}

/// A table of tries. The text of an answer is for operators.
fn tries_table(words: &Words, attempts: &[Attempt]) -> Markup {
    let heads = [
        words.number,
        words.time,
        words.duration,
        words.outcome,
        words.status,
        words.error,
        words.target,
    ];
    let rows = html! {
        @for one in attempts {
            tr {
                td { (one.number) }
                td { (parts::plain_time(one.started_at)) }
                td { (milliseconds_between(one.started_at, one.finished_at)) " ms" }
                td { code { (one.outcome.name()) } }
                td { @if let Some(status) = one.status { (status) } }
                td { @if let Some(error) = &one.error { (parts::foreign_text(error)) } }
                td { @for hop in &one.hops { (hop_target(hop)) " " } }
            }
        }
    };
    html! {
        (parts::table(words.tries, &heads, &rows))
        @if attempts.is_empty() { p.none { (words.empty) } }
    }
}

fn hop_target(hop: &Hop) -> Markup {
    parts::foreign_text(hop.url.as_deref().unwrap_or_default())
}

fn milliseconds_between(from: Timestamp, to: Timestamp) -> i64 {
    (to.get() - from.get()).num_milliseconds()
}

/// A failed delivery of a subscription is replayed, and a failed step is tried again on the page of
/// its run.
fn command_section(visit: &PortalVisit, row: &DeliveryRow, skip: Option<ReplaySkip>) -> Markup {
    let words = visit.words;
    let content = html! {
        @if let Some(run_id) = row.run_id {
            p { a href=(format!("/portal/runs/{run_id}")) { (words.retry) } }
        } @else if let Some(why) = skip {
            p { (words.why_skipped(why)) }
        } @else {
            form.stacked method="post" action=(format!("{}/replay", visit.path)) {
                (look::token_field(visit))
                (parts::hidden_field("request_id", &visit.request_id))
                p { (words.replay_effect) }
                label { (words.reason) " "
                    input name="reason" required maxlength="200" autocomplete="off"; }
                button { (words.replay) }
            }
        }
    };
    parts::section("commands", words.commands, &content)
}

/// Sends a failed delivery once more. The same form sent again begins no second replay.
pub(super) async fn replay(State(state): State<SharedPortal>, form: PortalForm) -> PortalAnswer {
    let PortalForm { visit, .. } = &form;
    let delivery_id = visit.path_id()?;
    let request_id = form.request_id()?;
    let order = DeliveryReplay { delivery_id, request_id, reason: form.required_text("reason")? };
    let outcome = acts::replay_delivery(&state.service, &visit.session, order).await;
    if let ReplayOutcome::Skipped(why) = visit.or_refusal(outcome)? {
        return Err(PortalRefusal::of_skip(why, &visit.page_look()));
    }
    let page = format!("/portal/deliveries/{delivery_id}");
    Ok(form.redirect_done(&page, "replayed").into_response())
}
