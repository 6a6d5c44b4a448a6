//! Layers around each API: request ids, one task per call, its metrics and trace, limits on the
//! head and on the time, gzip, and headers of every answer.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use axum::Router;
use axum::extract::{MatchedPath, Request};
use axum::http::header::{ALLOW, CACHE_CONTROL, X_CONTENT_TYPE_OPTIONS};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use futures::FutureExt;
use telemetry::metrics::AnsweredRequest;
use telemetry::request_id::{self, REQUEST_ID_HEADER, RequestId, RequestIds, current_request_id};
use telemetry::trace::{self, CallerTrace, TraceSpan, TracedCall};
use tokio::time::{Instant, timeout};

use super::key_rate;
use crate::encoding;
use crate::error::Error;

/// Most header lines of a request, and most bytes of all lines (case A22).
const HEADER_LINES_MAX: usize = 100;
const HEAD_BYTES_MAX: usize = 16 << 10;

/// Longest duration of a call, including its body (at most 12 s, or a minute on the internal door)
/// and its statements (30 s each). A call that exceeds it has lost the database without notice.
/// The doors wait ten seconds longer, so that the call itself gives the answer.
const fn call_time_max(door: &'static str) -> Duration {
    Duration::from_secs(if matches!(door.as_bytes(), b"internal") { 95 } else { 50 })
}

const REQUEST_ID: HeaderName = HeaderName::from_static(REQUEST_ID_HEADER);

/// Puts the layers around an API, each as a function that calls the next one. Seven layers of the
/// router would copy each other at each call.
pub(crate) fn around(door: Router, name: &'static str, ids: RequestIds) -> Router {
    door.layer(middleware::from_fn(move |request, next| {
        identify_call(ids.clone(), name, request, next)
    }))
}

/// Puts the layers around the public API, which tells the rate of a key, and its methods only in a
/// 405. The router adds `Allow` outside of its layers.
pub(crate) fn around_public(door: Router, ids: RequestIds) -> Router {
    let door = around(door, "public", ids);
    let around_router =
        async |request, next| only_allow_in_405(key_rate::tell(request, next).await);
    Router::new().fallback_service(door).layer(middleware::from_fn(around_router))
}

/// Names the call in its answer, and for its log lines, its trace and its errors (ruling 38). A
/// call through a door has its name from there.
async fn identify_call(
    ids: RequestIds,
    door: &'static str,
    request: Request,
    next: Next,
) -> Response {
    if let Some(id) = current_request_id() {
        return in_a_task_of_its_own(id, watch_call(door, request, next)).await;
    }
    let id = ids.id_of(request.headers().get_all(REQUEST_ID).iter().map(HeaderValue::as_bytes));
    let name = HeaderValue::from_str(id.as_str());
    let mut response = in_a_task_of_its_own(id, watch_call(door, request, next)).await;
    if let Ok(name) = name {
        response.headers_mut().insert(REQUEST_ID, name);
    }
    response
}

/// Removes `Allow` from every answer but 405. It would tell a caller without a key which routes
/// there are (ruling 12).
fn only_allow_in_405(mut response: Response) -> Response {
    if response.status() != StatusCode::METHOD_NOT_ALLOWED {
        response.headers_mut().remove(ALLOW);
    }
    response
}

/// Counts and traces answers by the template of the route. The path itself is foreign text.
async fn watch_call(door: &'static str, request: Request, next: Next) -> Response {
    let began = Instant::now();
    let method = method_name(request.method());
    let route = request.extensions().get::<MatchedPath>().cloned();
    let route = route.as_ref().map(MatchedPath::as_str);
    let traced =
        TraceSpan::call(TracedCall { door, method, route }, caller_trace(door, request.headers()));
    let response =
        trace::with_traceparent(traced.traceparent(), limit_call(door, request, next)).await;
    let status = response.status().as_u16();
    traced.record_status(status);
    AnsweredRequest { door, route, method, status }.count_answer(began.elapsed());
    mark_private(response)
}

/// The trace that the caller names, if its header is there once and well-formed. Only the internal
/// API continues it: anybody can write the header of a public call.
fn caller_trace(door: &'static str, headers: &HeaderMap) -> CallerTrace {
    let mut values = headers.get_all("traceparent").iter();
    let said = match (values.next(), values.next()) {
        (Some(value), None) => value.to_str().ok().and_then(|value| value.parse().ok()),
        _ => None,
    };
    if door == "internal" { CallerTrace::Ours(said) } else { CallerTrace::Theirs(said) }
}

/// The method as a fixed text, because a method is foreign text, too.
fn method_name(method: &Method) -> &'static str {
    match method.as_str() {
        "GET" => "GET",
        "HEAD" => "HEAD",
        "POST" => "POST",
        "PUT" => "PUT",
        "PATCH" => "PATCH",
        "DELETE" => "DELETE",
        "OPTIONS" => "OPTIONS",
        _ => "other",
    }
}

/// Runs a call in its own task. A caller that disconnects stops no call half-way (case A23), and
/// the call is counted and traced all the same.
async fn in_a_task_of_its_own(
    id: RequestId,
    call: impl Future<Output = Response> + Send + 'static,
) -> Response {
    match tokio::spawn(request_id::with_request_id(Some(id), call)).await {
        Ok(response) => response,
        Err(error) if error.is_panic() => mark_private(panic_answer()),
        Err(_) => mark_private(Error::Unavailable("the server is stopping".into()).into_response()),
    }
}

/// Ends a call that takes too long, and turns a panic into an answer (case A24). The panic hook of
/// the process logs the panic. Its text stays out of the answer.
async fn end_in_time(time_max: Duration, call: impl Future<Output = Response>) -> Response {
    match timeout(time_max, AssertUnwindSafe(call).catch_unwind()).await {
        Ok(Ok(response)) => response,
        Ok(Err(_)) => panic_answer(),
        Err(_) => Error::Unavailable("a call took too long and was ended".into()).into_response(),
    }
}

fn panic_answer() -> Response {
    Error::Internal("a panic".into()).into_response()
}

/// Refuses a head that is too large, and limits the time of the call.
async fn limit_call(door: &'static str, request: Request, next: Next) -> Response {
    let target = request.uri().path_and_query().map_or(0, |target| target.as_str().len());
    if head_fits(target, request.headers()) {
        end_in_time(call_time_max(door), encoding::compress(request, next)).await
    } else {
        Error::HeadTooLarge.into_response()
    }
}

fn head_fits(target: usize, headers: &HeaderMap) -> bool {
    let bytes: usize = headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
    headers.len() <= HEADER_LINES_MAX && target + bytes <= HEAD_BYTES_MAX
}

/// Marks every answer as private to its caller. A cache knows `Authorization`, but not `X-API-Key`
/// (RFC 9111, section 3.5).
fn mark_private(mut response: Response) -> Response {
    let headers = response.headers_mut();
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderName;

    fn headers(lines: usize, bytes: usize) -> HeaderMap {
        let name = HeaderName::from_static("x-test");
        (0..lines)
            .map(|_| (name.clone(), HeaderValue::from_str(&"a".repeat(bytes)).unwrap()))
            .collect()
    }

    /// A request with two such headers names none.
    #[test]
    fn h4_only_the_product_names_a_trace() {
        let said = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let of = |values: &[&str]| -> HeaderMap {
            let name = HeaderName::from_static("traceparent");
            let values = values.iter().map(|value| HeaderValue::from_str(value).unwrap());
            values.map(|value| (name.clone(), value)).collect()
        };
        let sound = said.parse().ok();
        assert_eq!(caller_trace("internal", &of(&[said])), CallerTrace::Ours(sound));
        assert_eq!(caller_trace("public", &of(&[said])), CallerTrace::Theirs(sound));
        for other in [&[][..], &[said, said], &["canary"]] {
            assert_eq!(caller_trace("internal", &of(other)), CallerTrace::Ours(None), "{other:?}");
        }
    }

    /// A head has at most 100 lines and 16 KiB.
    #[test]
    fn a22_head_lines_and_bytes_are_bounded() {
        assert!(head_fits(0, &headers(100, 1)));
        assert!(!head_fits(0, &headers(101, 1)));
        let name = "x-test".len();
        assert!(head_fits(0, &headers(1, HEAD_BYTES_MAX - name)));
        assert!(!head_fits(1, &headers(1, HEAD_BYTES_MAX - name)));
    }
}
