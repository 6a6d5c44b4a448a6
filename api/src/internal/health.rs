//! `GET /livez` and `GET /readyz`: health, for the process supervisor, without a token. A caller
//! with a token is told why a process is not ready.

use std::sync::Arc;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use eventstore::outage;
use serde::Serialize;

use super::caller::bearer_token;
use crate::batching::token_lookup;
use crate::error::Error;
use crate::readiness::{Alarm, check_readiness};
use crate::service::{SendingMode, Service};

/// Answer of a healthy process.
#[derive(Debug, Default, Serialize)]
pub(crate) struct HealthBody {
    ok: bool,
    /// Whether the process sends nothing. It serves all the same.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    paused: bool,
    /// Faults that an operator must end. The process serves all the same.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    alarms: Vec<Alarm>,
}

/// Both routes, which every role of a process has.
pub(super) fn routes() -> Router<Arc<Service>> {
    Router::new().route("/livez", get(live)).route("/readyz", get(ready))
}

/// Answers as long as the process runs.
pub(crate) async fn live() -> Json<HealthBody> {
    Json(HealthBody { ok: true, ..HealthBody::default() })
}

/// Answers if this process can serve.
async fn ready(
    State(service): State<Arc<Service>>,
    headers: HeaderMap,
) -> Result<Json<HealthBody>, NotReady> {
    let paused = service.settings.sending == SendingMode::Held;
    match check_readiness(&service).await {
        Ok(alarms) => Ok(Json(HealthBody { ok: true, paused, alarms })),
        Err(error) => {
            let is_told = match bearer_token(&headers) {
                Some(token) => token_lookup::was_active(&service, token).await,
                None => false,
            };
            Err(NotReady { reason: untold_reason(&error).filter(|_| is_told), error })
        }
    }
}

/// The answer of a process that is not ready.
struct NotReady {
    error: Error,
    reason: Option<String>,
}

impl IntoResponse for NotReady {
    fn into_response(self) -> Response {
        self.error.answer_with_reason(self.reason)
    }
}

/// The reason that the sentence of an error does not tell.
fn untold_reason(error: &Error) -> Option<String> {
    let (Error::Unavailable(detail) | Error::NoKeyring(detail)) = error else { return None };
    let outages = outage::known_reasons();
    Some(if outages.is_empty() { detail.clone() } else { outages.join("; ") })
}
