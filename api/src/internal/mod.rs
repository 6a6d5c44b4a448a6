//! The internal API: for the product's screens and back end, and for operators and auditors. Ids,
//! timestamps and errors follow the rules of the public API.
//!
//! A handler takes its caller as an extractor that names the admitted roles. A handler therefore
//! cannot forget the check.

mod access;
mod activity;
mod audit;
mod bundle;
mod caller;
mod deliveries;
mod events;
mod feed;
mod find;
mod firms;
pub(crate) mod health;
mod hooks;
mod inner;
mod keys;
mod metrics;
mod path;
mod pauses;
mod people;
mod portal_links;
mod proof;
mod query;
mod receivers;
mod reissue;
mod replays;
mod secrets;
mod stats;
mod tokens;
mod workflow_steps;

pub use inner::InnerDoor;
pub use metrics::{Exposition, metrics_router};

use std::sync::Arc;

use axum::Router;
use axum::routing::{delete, get, post};
use domain::values::Timestamp;
use serde::Serialize;

use crate::error::Error;
use crate::public::layers;
use crate::queries::listing::ListPage;
use crate::service::Service;

/// The routes of the internal API.
pub fn router(service: Service) -> Router {
    let ids = service.request_ids();
    layers::around(bare_routes(service), "internal", ids)
}

/// Puts the layers of the internal API around pages that the internal door serves.
pub fn around_pages(pages: Router, service: &Service) -> Router {
    layers::around(pages, "internal", service.request_ids())
}

/// The routes without layers.
fn bare_routes(service: Service) -> Router {
    let firm = Router::new()
        .route("/members", get(firms::members))
        .route("/forms", get(firms::forms))
        .route("/keys", get(keys::list).post(keys::create))
        .route("/keys/{id}", delete(keys::revoke))
        .route("/keys/{id}/history", get(keys::history))
        .route("/webhook-secret", get(secrets::reveal))
        .route("/webhook-secret/rotate", post(secrets::rotate))
        .route("/portal-links", post(portal_links::create))
        .route("/audit", get(audit::list))
        .route("/audit/export", get(audit::export))
        .route("/audit/{id}", get(audit::entry))
        .route("/hooks", get(hooks::list))
        .route("/hooks/{id}/history", get(hooks::history))
        .route("/hooks/{id}/test", post(hooks::test))
        .route("/deliveries", get(deliveries::list))
        .route("/access", get(access::show))
        .route("/people", post(people::show))
        .route("/deliveries/export", get(deliveries::export))
        .route("/deliveries/{id}", get(deliveries::show))
        .route("/deliveries/{id}/history", get(deliveries::history))
        .route("/deliveries/{id}/reissue", post(reissue::reissue));
    let steps = Router::new()
        .route("/", post(workflow_steps::queue))
        .route("/{run_id}/{step_id}", get(workflow_steps::show))
        .route("/{run_id}/{step_id}/retry", post(workflow_steps::retry));
    let replays = Router::new()
        .route("/", get(replays::list).post(replays::start))
        .route("/{id}", get(replays::show).delete(replays::stop))
        .route("/{id}/pause", post(replays::pause))
        .route("/{id}/resume", post(replays::resume));
    let pauses = Router::new()
        .route("/", get(pauses::list).post(pauses::pause))
        .route("/{id}", delete(pauses::resume));
    let proof = Router::new()
        .route("/keys", get(proof::keys))
        .route("/checkpoints", get(proof::checkpoints))
        .route("/verification", get(proof::verification))
        .route("/archive", get(proof::archive))
        .route("/feed", get(feed::follow));
    let v1 = Router::new()
        .route("/activity", post(activity::report))
        .nest("/workflow-steps", steps)
        .nest("/replays", replays)
        .nest("/pauses", pauses)
        .route("/tokens", get(tokens::list))
        .route("/receivers", get(receivers::list))
        .route("/find", get(find::find))
        .route("/stats", get(stats::show))
        .route("/events", get(events::list))
        .route("/events/{event}", get(events::show))
        .route("/firms", get(firms::list))
        .nest("/audit", proof)
        .nest("/firms/{firm}", firm);
    Router::new()
        .nest("/internal/v1", v1)
        .merge(health::routes())
        .fallback(unknown_route)
        .method_not_allowed_fallback(wrong_method)
        .with_state(Arc::new(service))
}

/// The internal API of a process that serves no calls: health only.
pub fn health_router(service: Service) -> Router {
    let ids = service.request_ids();
    let door = health::routes()
        .fallback(unknown_route)
        .method_not_allowed_fallback(wrong_method)
        .with_state(Arc::new(service));
    layers::around(door, "internal", ids)
}

async fn unknown_route() -> Error {
    Error::NotFound
}

async fn wrong_method() -> Error {
    Error::MethodNotAllowed
}

/// A list, newest first, with the start of the next page if there may be one.
#[derive(Debug, Serialize)]
struct ListBody<T> {
    items: Vec<T>,
    next: Option<String>,
    /// Only of deliveries: older ones have left, and the question reaches there.
    #[serde(skip_serializing_if = "Option::is_none")]
    archived_before: Option<Timestamp>,
}

impl<R: Into<T>, T> From<ListPage<R>> for ListBody<T> {
    fn from(page: ListPage<R>) -> Self {
        let next = page.next.map(|id| id.to_string());
        Self { next, archived_before: page.archived_before, ..Self::new(page.rows) }
    }
}

impl<T> ListBody<T> {
    /// A page of a list, with the `after` of the next one.
    const fn page(items: Vec<T>, next: Option<String>) -> Self {
        Self { items, next, archived_before: None }
    }

    /// A list without further pages.
    fn new(rows: Vec<impl Into<T>>) -> Self {
        Self::page(rows.into_iter().map(Into::into).collect(), None)
    }
}

#[cfg(test)]
mod tests;
