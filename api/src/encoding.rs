//! gzip for large answers. A known body is compressed as a whole; a stream is sent as it is. Other
//! encodings save little more.

use std::io::{self, Write};

use axum::body::{Bytes, HttpBody, to_bytes};
use axum::extract::Request;
use axum::http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, VARY};
use axum::http::{HeaderMap, HeaderValue};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use flate2::Compression;
use flate2::write::GzEncoder;
use tokio::task::spawn_blocking;

use crate::error::Error;

/// Shortest body that is compressed. A list of ten subscriptions is shorter, and costs more time
/// than its compression would save.
const COMPRESSED_MIN: u64 = 4 << 10;

/// The value of `Content-Encoding`.
pub(crate) const GZIP: HeaderValue = HeaderValue::from_static("gzip");

/// The value of `Vary` of an answer that gzip may encode.
pub(crate) const VARY_ENCODING: HeaderValue = HeaderValue::from_static("accept-encoding");

/// Compresses a large answer for a caller that takes gzip, unless it is encoded already.
pub(crate) async fn compress(request: Request, next: Next) -> Response {
    let takes_gzip = takes_gzip(request.headers());
    let mut response = next.run(request).await;
    if !is_large_text(&response) {
        return response;
    }
    response.headers_mut().entry(VARY).or_insert(VARY_ENCODING);
    if !takes_gzip {
        return response;
    }
    response.headers_mut().remove(CONTENT_LENGTH);
    response.headers_mut().insert(CONTENT_ENCODING, GZIP);
    let (parts, body) = response.into_parts();
    match gzip_body(body).await {
        Ok(body) => Response::from_parts(parts, body.into()),
        Err(error) => Error::Internal(error.to_string()).into_response(),
    }
}

/// The body as gzip, made beside the threads that serve other calls.
async fn gzip_body(body: axum::body::Body) -> io::Result<Bytes> {
    let plain = to_bytes(body, usize::MAX).await.map_err(io::Error::other)?;
    spawn_blocking(move || gzip_bytes(&plain, Compression::fast())).await?
}

/// These bytes as gzip.
pub(crate) fn gzip_bytes(plain: &[u8], level: Compression) -> io::Result<Bytes> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(plain.len() / 4), level);
    encoder.write_all(plain)?;
    Ok(encoder.finish()?.into())
}

/// Whether a caller takes gzip (RFC 9110, section 12.5.3): the weight of `gzip`, else of `*`, is
/// above zero.
pub(crate) fn takes_gzip(headers: &HeaderMap) -> bool {
    let lists = headers.get_all(ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    let mut any = false;
    for coding in lists.flat_map(|list| list.split(',')) {
        let mut parts = coding.split(';').map(str::trim);
        let name = parts.next().unwrap_or_default();
        let weighs = parts.all(|part| parse_weight(part) != Some(0.0));
        if name.eq_ignore_ascii_case("gzip") || name.eq_ignore_ascii_case("x-gzip") {
            return weighs;
        }
        any |= name == "*" && weighs;
    }
    any
}

/// The weight in `q=0.5`.
fn parse_weight(parameter: &str) -> Option<f32> {
    let (name, value) = parameter.split_once('=')?;
    if name.trim().eq_ignore_ascii_case("q") { value.trim().parse().ok() } else { None }
}

/// Whether the answer's body is text of a known length that is worth compressing. The router takes
/// the body of an answer to `HEAD` away after this.
fn is_large_text(response: &Response) -> bool {
    let headers = response.headers();
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let is_text = kind.starts_with("text/") || kind.starts_with("application/json");
    let length = response.body().size_hint().exact().unwrap_or_default();
    is_text && length >= COMPRESSED_MIN && !headers.contains_key(CONTENT_ENCODING)
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderName;
    use rstest::rstest;

    #[rstest]
    #[case(&[], false)]
    #[case(&["gzip"], true)]
    #[case(&["GZIP"], true)]
    #[case(&["br, gzip;q=0.5"], true)]
    #[case(&["br", "gzip"], true)]
    #[case(&["*"], true)]
    #[case(&["*, gzip;q=0"], false)]
    #[case(&["gzip; q=0.000"], false)]
    #[case(&["*;q=0"], false)]
    #[case(&["identity"], false)]
    #[case(&["br, deflate"], false)]
    #[case(&[""], false)]
    fn gzip_goes_to_callers_that_ask(#[case] lines: &[&str], #[case] takes: bool) {
        let name = HeaderName::from_static("accept-encoding");
        let lines = lines.iter().map(|line| (name.clone(), HeaderValue::from_str(line).unwrap()));
        assert_eq!(takes_gzip(&lines.collect()), takes);
    }
}
