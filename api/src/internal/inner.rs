//! The internal API for pages of the same process. A session stands in place of the token, and all
//! else is as for a call from outside: roles, lists of firms, recorded readings.

use axum::Router;
use axum::extract::Request;
use axum::response::Response;
use tower::ServiceExt;

use super::bare_routes;
use super::caller::SessionHolder;
use crate::service::Service;
use crate::sessions::Session;

/// The internal API without a socket. Clones share it.
#[derive(Clone)]
pub struct InnerDoor(Router);

impl InnerDoor {
    /// The internal API of this service.
    #[must_use]
    pub fn new(service: Service) -> Self {
        Self(bare_routes(service))
    }

    /// Answers a call as for the holder of the session.
    pub async fn call(&self, session: &Session, mut request: Request) -> Response {
        request.extensions_mut().insert(SessionHolder(session.holder().clone()));
        match self.0.clone().oneshot(request).await {
            Ok(response) => response,
            Err(never) => match never {},
        }
    }
}
