//! Requests with header lines that a test chooses.

use axum::body::Body;
use axum::http::Request;

/// Makes a request with these header lines and no others.
pub fn make_request(
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: impl Into<Body>,
) -> Request<Body> {
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(body.into()).unwrap()
}
