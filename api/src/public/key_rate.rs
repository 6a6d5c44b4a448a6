//! The rest of a key's rate, told in every answer to a known key (ruling 39).

use std::sync::{Arc, OnceLock};

use axum::extract::Request;
use axum::http::{Extensions, HeaderName, HeaderValue};
use axum::middleware::Next;
use axum::response::Response;
use domain::access::rate::{KEY_RATE_POLICY, KeyRate};

const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");
const RATE_LIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");

/// The place in a request where the look-up of its key leaves the rate for the answer.
#[derive(Clone, Default)]
struct RatePlace(Arc<OnceLock<KeyRate>>);

/// Leaves the rate for the answer to the request with these extensions.
pub(super) fn note(extensions: &Extensions, rate: KeyRate) {
    if let Some(RatePlace(place)) = extensions.get() {
        // A request looks its key up once.
        let _ = place.set(rate);
    }
}

/// Adds the headers to the answer, once the key is known.
pub(super) async fn tell(mut request: Request, next: Next) -> Response {
    let RatePlace(place) = RatePlace::default();
    request.extensions_mut().insert(RatePlace(Arc::clone(&place)));
    let mut response = next.run(request).await;
    if let Some(rate) = place.get()
        && let Ok(rate) = HeaderValue::try_from(rate.header_value())
    {
        let headers = response.headers_mut();
        headers.insert(RATE_LIMIT_POLICY, HeaderValue::from_static(KEY_RATE_POLICY));
        headers.insert(RATE_LIMIT, rate);
    }
    response
}
