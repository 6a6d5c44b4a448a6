//! Between hyper and the router: the data that every request gets, and the limits of every answer.

use std::convert::Infallible;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::Router;
use axum::body::Body;
use axum::http::header::{CONNECTION, STRICT_TRANSPORT_SECURITY};
use axum::http::{HeaderName, HeaderValue, Request};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame, Incoming, SizeHint};
use telemetry::request_id::{self, REQUEST_ID_HEADER, RequestId, RequestIds};
use tower::ServiceExt;

use crate::deadline::Deadline;
use crate::exchange::GateFindings;
use crate::refusal::{Refusal, count_refusal};
use crate::settings::{DoorTimeouts, UrlScheme};

/// The peer's address, an extension of every request. An IPv4 address stays IPv4 on a socket of
/// both families (ruling 5, client address).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SocketPeer(pub IpAddr);

/// Answers the requests of one connection.
#[derive(Clone)]
pub(crate) struct ConnectionService {
    pub(crate) router: Router,
    /// The name of the door in metrics.
    pub(crate) door: &'static str,
    pub(crate) peer: SocketPeer,
    pub(crate) timeouts: DoorTimeouts,
    pub(crate) exchange: Arc<GateFindings>,
    pub(crate) request_ids: Option<RequestIds>,
    pub(crate) scheme: UrlScheme,
}

/// A year, for this host alone: its other names and subdomains are not the service's.
const HTTPS_ONLY: HeaderValue = HeaderValue::from_static("max-age=31536000");

const REQUEST_ID: HeaderName = HeaderName::from_static(REQUEST_ID_HEADER);

impl ConnectionService {
    /// Answers a request. Closes the connection if hyper does not have the whole request, or if the
    /// body is chunked: the next request's start is then unknown.
    pub(crate) async fn answer_request(
        self,
        mut request: Request<Incoming>,
    ) -> Result<Response, Infallible> {
        let exchange = Arc::clone(&self.exchange);
        let id = self.name_request(&mut request);
        let scheme = self.scheme;
        let answered = async {
            match exchange.refusal() {
                Some(refusal) => refusal_response(self.door, refusal),
                None => self.route_request(request).await,
            }
        };
        let mut response = request_id::with_request_id(id.clone(), answered).await;
        if let Some(id) = id.as_ref().and_then(id_header) {
            response.headers_mut().insert(REQUEST_ID, id);
        }
        if scheme == UrlScheme::Https {
            response.headers_mut().insert(STRICT_TRANSPORT_SECURITY, HTTPS_ONLY);
        }
        if !exchange.is_whole() {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        Ok(response)
    }

    /// Gives the request its id (ruling 38). The router finds exactly one well-formed id.
    fn name_request(&self, request: &mut Request<Incoming>) -> Option<RequestId> {
        let values = request.headers().get_all(REQUEST_ID).iter().map(HeaderValue::as_bytes);
        let id = self.request_ids.as_ref()?.id_of(values);
        request.headers_mut().insert(REQUEST_ID, id_header(&id)?);
        Some(id)
    }

    async fn route_request(self, request: Request<Incoming>) -> Response {
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(self.peer);
        let answered = self.router.oneshot(request);
        match tokio::time::timeout(self.timeouts.request, answered).await {
            Ok(Ok(response)) => response.map(|body| TimedBody::limit_time(body, &self.timeouts)),
            Ok(Err(never)) => match never {},
            Err(_) => refusal_response(self.door, Refusal::AnswerTooSlow),
        }
    }
}

fn refusal_response(door: &'static str, refusal: Refusal) -> Response {
    count_refusal(door, refusal.metric_reason());
    refusal.into_response()
}

/// The body of an answer. It fails when the time of the answer is over, so that a body that never
/// ends does not keep its connection.
struct TimedBody {
    body: Body,
    end: Deadline,
}

impl TimedBody {
    fn limit_time(body: Body, timeouts: &DoorTimeouts) -> Body {
        if body.is_end_stream() {
            return body;
        }
        let mut end = Deadline::default();
        end.set(timeouts.answer);
        Body::new(Self { body, end })
    }
}

impl HttpBody for TimedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(cx);
        if frame.is_pending() && self.end.poll(cx).is_ready() {
            return Poll::Ready(Some(Err(axum::Error::new(std::io::Error::from(
                std::io::ErrorKind::TimedOut,
            )))));
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The value of the header. Every request id is one.
fn id_header(id: &RequestId) -> Option<HeaderValue> {
    HeaderValue::from_str(id.as_str()).ok()
}
