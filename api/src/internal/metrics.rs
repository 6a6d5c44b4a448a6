//! `GET /metrics`: what the process counts, as text that Prometheus reads; no token. Whoever can reach
//! this door sees how much happens, and never whose it is.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use futures::future::BoxFuture;

use super::wrong_method;
use crate::public::layers;

/// Prometheus' text format.
const PROMETHEUS_TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// What a process counts.
pub trait Exposition: Send + Sync {
    /// All of it now. Answers within seconds, also when the database does not.
    fn text(&self) -> BoxFuture<'_, String>;
}

/// The route, to be merged with those of a door: it answers before the databases do.
pub fn metrics(exposition: Arc<dyn Exposition>) -> Router {
    let routes = Router::new()
        .route("/metrics", get(show))
        .method_not_allowed_fallback(wrong_method)
        .with_state(exposition);
    layers::around(routes, "internal")
}

async fn show(State(exposition): State<Arc<dyn Exposition>>) -> Response {
    ([(CONTENT_TYPE, PROMETHEUS_TEXT)], exposition.text().await).into_response()
}
