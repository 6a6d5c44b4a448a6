//! The internal API: for the product's screens and back end, and for operators and auditors. Ids,
//! timestamps and errors follow the rules of the public API.
//!
//! A handler takes its caller as an extractor that names the admitted roles. A handler therefore
//! cannot forget the check.

mod activity;
mod audit;
mod caller;
mod deliveries;
pub(crate) mod health;
mod hooks;
mod keys;
mod metrics;
mod path;
mod pauses;
mod query;
mod reissue;
mod replays;
mod secrets;
mod workflow_steps;

pub use metrics::{Exposition, metrics};

use std::sync::Arc;

use axum::Router;
use axum::routing::{delete, get, post};
use serde::Serialize;

use crate::error::Error;
use crate::public::layers;
use crate::service::Service;

/// The routes of the internal API.
pub fn router(service: Service) -> Router {
    let ids = service.request_ids();
    let firm = Router::new()
        .route("/keys", get(keys::list).post(keys::create))
        .route("/keys/{id}", delete(keys::revoke))
        .route("/webhook-secret", get(secrets::reveal))
        .route("/webhook-secret/rotate", post(secrets::rotate))
        .route("/audit", get(audit::list))
        .route("/audit/export", get(audit::export))
        .route("/hooks", get(hooks::list))
        .route("/hooks/{id}/history", get(hooks::history))
        .route("/deliveries", get(deliveries::list))
        .route("/deliveries/{id}", get(deliveries::show))
        .route("/deliveries/{id}/reissue", post(reissue::reissue));
    let steps = Router::new()
        .route("/", post(workflow_steps::queue))
        .route("/{run_id}/{step_id}", get(workflow_steps::show))
        .route("/{run_id}/{step_id}/retry", post(workflow_steps::retry));
    let replays = Router::new()
        .route("/", post(replays::start))
        .route("/{id}", get(replays::show).delete(replays::stop))
        .route("/{id}/pause", post(replays::pause))
        .route("/{id}/resume", post(replays::resume));
    let pauses = Router::new()
        .route("/", get(pauses::list).post(pauses::pause))
        .route("/{id}", delete(pauses::resume));
    let v1 = Router::new()
        .route("/activity", post(activity::report))
        .nest("/workflow-steps", steps)
        .nest("/replays", replays)
        .nest("/pauses", pauses)
        .nest("/firms/{firm}", firm);
    let door = Router::new()
        .nest("/internal/v1", v1)
        .merge(health::routes())
        .fallback(unknown_route)
        .method_not_allowed_fallback(wrong_method)
        .with_state(Arc::new(service));
    layers::around(door, "internal", ids)
}

/// The internal API of a process that serves no calls: health only.
pub fn watched(service: Service) -> Router {
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
}

impl<T> ListBody<T> {
    /// A list without further pages.
    fn of(rows: Vec<impl Into<T>>) -> Self {
        Self { items: rows.into_iter().map(Into::into).collect(), next: None }
    }
}

#[cfg(test)]
mod tests;
