//! The APIs before the service has its databases (case E11). The process lives, is not ready, and
//! answers 503. Once opened, each API answers as [`crate::public`] and [`crate::internal`] say.

use std::net::IpAddr;
use std::sync::{Arc, OnceLock};

use axum::Router;
use axum::extract::{Request, State};
use axum::response::Response;
use axum::routing::get;
use telemetry::request_id::RequestIds;
use tower::ServiceExt;

use crate::docs::ServedDocs;
use crate::error::Error;
use crate::internal::health;
use crate::public::layers;

/// An API that is opened once.
#[derive(Clone)]
pub struct OpeningDoor(Arc<DoorRouters>);

struct DoorRouters {
    closed: Router,
    open: OnceLock<Router>,
}

impl OpeningDoor {
    /// The public API at this base URL, with the addresses that deliveries leave from. Until it is
    /// opened it answers its documents, and 503 to every other call.
    #[must_use]
    pub fn public(base_url: &str, egress: &[IpAddr], ids: RequestIds) -> Self {
        let documents = ServedDocs::for_service(base_url, egress).routes();
        let door = documents.fallback(not_yet).method_not_allowed_fallback(not_yet);
        Self::until_opened(layers::around_public(door, ids))
    }

    /// The internal API, which answers `/livez` and metrics until it is opened.
    #[must_use]
    pub fn internal(metrics: Router, ids: RequestIds) -> Self {
        let lives = Router::new().route("/livez", get(health::live));
        let door = layers::around(lives.fallback(not_yet), "internal", ids);
        Self::until_opened(door.merge(metrics))
    }

    fn until_opened(closed: Router) -> Self {
        Self(Arc::new(DoorRouters { closed, open: OnceLock::new() }))
    }

    /// The router to serve from the start.
    pub fn router(&self) -> Router {
        Router::new().fallback(answer).with_state(self.clone())
    }

    /// Opens the API with this router. A second call changes nothing.
    pub fn open(&self, router: Router) {
        let _ = self.0.open.set(router);
    }
}

async fn answer(State(OpeningDoor(routers)): State<OpeningDoor>, request: Request) -> Response {
    let router = routers.open.get().unwrap_or(&routers.closed);
    match router.clone().oneshot(request).await {
        Ok(response) => response,
        Err(never) => match never {},
    }
}

async fn not_yet() -> Error {
    Error::Unavailable("the databases have not answered yet".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::Body;
    use axum::http::StatusCode;
    use futures::FutureExt;
    use futures::future::{BoxFuture, ready};
    use uuid::Uuid;

    use crate::internal::{Exposition, metrics_router};

    struct NoMetrics;

    impl Exposition for NoMetrics {
        fn metrics_text(&self) -> BoxFuture<'_, String> {
            ready(String::new()).boxed()
        }
    }

    async fn status(opening: &OpeningDoor, path: &str) -> StatusCode {
        let request = Request::get(path).body(Body::empty()).unwrap();
        let response = opening.router().oneshot(request).await.unwrap();
        assert_eq!(response.headers().contains_key("retry-after"), response.status() == 503);
        response.status()
    }

    /// Only the internal door lives before its opening. The public door serves its documents.
    #[tokio::test]
    async fn e11_an_unopened_door_answers_503() {
        let ids = || RequestIds::new(|| Uuid::from_u128(1));
        for (opening, livez) in [
            (OpeningDoor::public("http://a/api/v1", &[], ids()), 503),
            (OpeningDoor::internal(metrics_router(Arc::new(NoMetrics), ids()), ids()), 200),
        ] {
            assert_eq!(status(&opening, "/livez").await, livez);
            let is_public = livez == 503;
            for (path, documented) in [
                ("/api/v1/openapi.json", 200),
                ("/docs", 200),
                ("/docs/signature", 200),
                ("/docs/code/receiver.py", 200),
                ("/", 303),
            ] {
                let expected = if is_public { documented } else { 503 };
                assert_eq!(status(&opening, path).await, expected, "{path}");
            }
            for path in ["/readyz", "/api/v1/me", "/internal/v1/activity", "/nothing"] {
                assert_eq!(status(&opening, path).await, 503, "{path}");
            }
            opening.open(Router::new().route("/api/v1/me", get(health::live)));
            assert_eq!(status(&opening, "/api/v1/me").await, 200);
            assert_eq!(status(&opening, "/nothing").await, 404);
        }
    }
}
