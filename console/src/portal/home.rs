//! The first page: figures, and the deliveries that failed last.

use api::portal::views;
use api::queries::listing::DeliveryListQuery;
use axum::extract::State;
use domain::delivery::DeliveryState;
use maud::html;

use super::SharedPortal;
use super::deliveries;
use super::visit::{PortalAnswer, PortalVisit};
use crate::parts;

/// Failed deliveries on the first page.
const FAILED_SHOWN: usize = 10;

/// Shows the first page.
pub(super) async fn show(State(state): State<SharedPortal>, visit: PortalVisit) -> PortalAnswer {
    let service = &state.service;
    let session = &visit.session;
    let words = visit.words;
    let figures = visit.or_refusal(views::figures(service, session).await)?;
    let failed =
        DeliveryListQuery { state: Some(DeliveryState::Failed), ..DeliveryListQuery::default() };
    let failed = visit.or_refusal(views::deliveries(service, session, failed).await)?;
    let content = html! {
        dl.figures {
            div { dt { (words.keys) } dd { a href="/portal/keys" { (figures.keys) } } }
            div { dt { (words.live_hooks) } dd { a href="/portal/hooks" { (figures.hooks) } } }
            div { dt { (words.warned) } dd { (figures.warned) } }
        }
        (parts::section("failed", words.recent_failures, &html! {
            @if failed.rows.is_empty() { p.none { (words.empty) } } @else {
                (deliveries::delivery_table(&visit, failed.rows.iter().take(FAILED_SHOWN)))
                p { a href="/portal/deliveries?state=failed" { (words.deliveries) } }
            }
        }))
    };
    Ok(visit.page(words.home, content))
}
