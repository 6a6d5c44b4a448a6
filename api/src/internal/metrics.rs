//! `GET /metrics`: the process's metrics as text for Prometheus, without a token. A metric shows
//! how much happens, never for which firm.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use futures::future::BoxFuture;
use telemetry::request_id::RequestIds;

use super::wrong_method;
use crate::public::layers;

/// Prometheus' text format.
const PROMETHEUS_TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Metrics of a process.
pub trait Exposition: Send + Sync {
    /// All metrics as text. The answer comes within seconds, even without the database.
    fn metrics_text(&self) -> BoxFuture<'_, String>;
}

/// The route `/metrics`. It answers from the start of the process, also while no database answers.
pub fn metrics_router(exposition: Arc<dyn Exposition>, ids: RequestIds) -> Router {
    let routes = Router::new()
        .route("/metrics", get(show))
        .method_not_allowed_fallback(wrong_method)
        .with_state(exposition);
    layers::around(routes, "internal", ids)
}

async fn show(State(exposition): State<Arc<dyn Exposition>>) -> Response {
    ([(CONTENT_TYPE, PROMETHEUS_TEXT)], exposition.metrics_text().await).into_response()
}
