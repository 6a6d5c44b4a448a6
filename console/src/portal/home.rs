//! The first page: figures, and the deliveries that failed last.

use api::portal::views;
use api::queries::as_of::HookFilter;
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
    let keys = visit.told(views::keys(service, session).await)?;
    let hooks = visit.told(views::hooks(service, session, HookFilter::Live, None).await)?;
    let failed =
        DeliveryListQuery { state: Some(DeliveryState::Failed), ..DeliveryListQuery::default() };
    let failed = visit.told(views::deliveries(service, session, failed).await)?;
    let active = keys.iter().filter(|key| key.revoked_at.is_none()).count();
    let content = html! {
        dl.figures {
            div { dt { (words.keys) } dd { a href="/portal/keys" { (active) } } }
            div { dt { (words.live_hooks) } dd { a href="/portal/hooks" {
                (hooks.page.rows.len()) @if hooks.page.next.is_some() { "+" }
            } } }
            div { dt { (words.warned) } dd { (hooks.warned.len()) } }
        }
        (parts::section("failed", words.recent_failures, &html! {
            @if failed.rows.is_empty() { p.none { (words.empty) } } @else {
                (deliveries::table(&visit, failed.rows.iter().take(FAILED_SHOWN)))
                p { a href="/portal/deliveries?state=failed" { (words.deliveries) } }
            }
        }))
    };
    Ok(visit.page(words.home, content))
}
