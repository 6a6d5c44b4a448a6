//! Between hyper and the router: the data that every request gets, and the limits of every answer.

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::header::CONNECTION;
use axum::http::{HeaderName, HeaderValue, Request};
use axum::response::{IntoResponse, Response};
use hyper::body::Incoming;
use telemetry::request_id::{self, REQUEST_ID_HEADER, RequestId, RequestIds};
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
    pub(crate) request_ids: Option<RequestIds>,
}

const REQUEST_ID: HeaderName = HeaderName::from_static(REQUEST_ID_HEADER);

impl ConnectionService {
    /// Answers a request. Closes the connection if hyper does not have the whole request, or if the
    /// body is chunked: the next request's start is then unknown.
    pub(crate) async fn answer(
        self,
        mut request: Request<Incoming>,
    ) -> Result<Response, Infallible> {
        let exchange = Arc::clone(&self.exchange);
        let id = self.name(&mut request);
        let answered = async {
            match exchange.refusal() {
                Some(refusal) => refusal.into_response(),
                None => self.route(request).await,
            }
        };
        let mut response = request_id::scope(id.clone(), answered).await;
        if let Some(id) = id.as_ref().and_then(header) {
            response.headers_mut().insert(REQUEST_ID, id);
        }
        if !exchange.is_whole() {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        Ok(response)
    }

    /// Gives the request its id (ruling 38). The router finds exactly one well-formed id.
    fn name(&self, request: &mut Request<Incoming>) -> Option<RequestId> {
        let values = request.headers().get_all(REQUEST_ID).iter().map(HeaderValue::as_bytes);
        let id = self.request_ids.as_ref()?.of(values);
        request.headers_mut().insert(REQUEST_ID, header(&id)?);
        Some(id)
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

/// The value of the header. Every request id is one.
fn header(id: &RequestId) -> Option<HeaderValue> {
    HeaderValue::from_str(id.as_str()).ok()
}
