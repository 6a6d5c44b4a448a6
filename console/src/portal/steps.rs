//! Workflow steps: the page of a run, and the retry of a failed step.

use api::portal::acts;
use api::portal::views::{self, DeliveryRow};
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use domain::delivery::DeliveryState;
use maud::{Markup, html};

use super::paging::page_links;
use super::visit::{PortalAnswer, PortalForm, PortalVisit};
use super::{SharedPortal, deliveries, look};
use crate::parts;

/// Lists the steps of all runs, newest first.
pub(super) async fn list(State(state): State<SharedPortal>, visit: PortalVisit) -> PortalAnswer {
    let after = visit.asked_id("after")?;
    let found = visit.or_refusal(views::steps(&state.service, &visit.session, after).await)?;
    let words = visit.words;
    let heads = [words.step, words.run, words.state, words.trigger, words.created];
    let rows = html! {
        @for row in &found.rows {
            tr {
                td { (step_link(row)) }
                td { @if let Some(id) = row.run_id {
                    (parts::id_link(&format!("/portal/runs/{id}"), &id))
                } }
                td { (deliveries::state_text(words, row)) }
                td { code { (row.trigger) } }
                td { (parts::plain_time(row.created_at.into())) }
            }
        }
    };
    let content = html! {
        (parts::table(words.steps, &heads, &rows))
        @if found.rows.is_empty() { p.none { (words.empty) } }
        (deliveries::archived_note(words, found.ends_at()))
        (page_links(&visit, found.next.map(|next| next.to_string()).as_deref()))
    };
    Ok(visit.page(words.steps, content))
}

fn step_link(row: &DeliveryRow) -> Markup {
    let page = format!("/portal/deliveries/{}", row.delivery_id);
    parts::id_link(&page, &row.step_id.unwrap_or(row.delivery_id))
}

/// Shows the steps of a run, oldest first. A failed one can be tried again.
pub(super) async fn run(State(state): State<SharedPortal>, visit: PortalVisit) -> PortalAnswer {
    let after = visit.asked_id("after")?;
    let steps = views::run(&state.service, &visit.session, visit.path_id()?, after).await;
    let steps = visit.or_refusal(steps)?;
    let words = visit.words;
    let heads = [words.step, words.state, words.trigger, words.created, words.next_try, ""];
    let rows = html! {
        @for row in &steps.rows {
            tr {
                td { (step_link(row)) }
                td { (deliveries::state_text(words, row)) }
                td { code { (row.trigger) } }
                td { (parts::plain_time(row.created_at.into())) }
                td { @if let Some(at) = row.next_try_at { (parts::plain_time(at.into())) } }
                td { @if row.state == DeliveryState::Failed.name() { (retry_form(&visit, row)) } }
            }
        }
    };
    let content = html! {
        (parts::table(words.steps, &heads, &rows))
        p { (words.retry_effect) }
        (page_links(&visit, steps.next.map(|next| next.to_string()).as_deref()))
    };
    Ok(visit.page(words.run, content))
}

fn retry_form(visit: &PortalVisit, row: &DeliveryRow) -> Markup {
    html! {
        @if let Some(step_id) = row.step_id {
            form method="post" action=(format!("{}/retry", visit.path)) {
                (look::token_field(visit))
                (parts::hidden_field("step_id", &step_id))
                button { (visit.words.retry) }
            }
        }
    }
}

/// Tries a failed step again.
pub(super) async fn retry(State(state): State<SharedPortal>, form: PortalForm) -> PortalAnswer {
    let PortalForm { visit, .. } = &form;
    let run_id = visit.path_id()?.to_string();
    let name = acts::step_name(&run_id, form.required_text("step_id")?);
    let nothing = || visit.refusal_page(StatusCode::NOT_FOUND, visit.words.nothing);
    let name = name.ok_or_else(nothing)?;
    visit.or_refusal(acts::retry_step(&state.service, &visit.session, name).await)?;
    Ok(form.redirect_done(&format!("/portal/runs/{run_id}"), "retried").into_response())
}
