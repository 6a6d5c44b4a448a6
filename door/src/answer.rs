//! Between hyper and the router: the data that every request gets, and the limits of every answer.

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::header::CONNECTION;
use axum::http::{HeaderValue, Request};
use axum::response::{IntoResponse, Response};
use hyper::body::Incoming;
use tower::ServiceExt;

use crate::exchange::GateFindings;
use crate::refusal::Refusal;

/// The peer's address, an extension of every request. An IPv4 address stays IPv4 on a socket of
/// both families (ruling 5, client address).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SocketPeer(pub IpAddr);

/// Answers the requests of one connection.
#[derive(Clone)]
pub(crate) struct ConnectionService {
    pub(crate) router: Router,
    pub(crate) peer: SocketPeer,
    pub(crate) limit: Duration,
    pub(crate) exchange: Arc<GateFindings>,
}

impl ConnectionService {
    /// Answers a request. Closes the connection if hyper does not have the whole request, or if the
    /// body is chunked: the next request's start is then unknown.
    pub(crate) async fn answer(self, request: Request<Incoming>) -> Result<Response, Infallible> {
        let exchange = Arc::clone(&self.exchange);
        let mut response = match exchange.refusal() {
            Some(refusal) => refusal.into_response(),
            None => self.route(request).await,
        };
        if !exchange.is_whole() {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        Ok(response)
    }

    async fn route(self, request: Request<Incoming>) -> Response {
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(self.peer);
        match tokio::time::timeout(self.limit, self.router.oneshot(request)).await {
            Ok(Ok(response)) => response,
            Ok(Err(never)) => match never {},
            Err(_) => Refusal::AnswerTooSlow.into_response(),
        }
    }
}
