//! The header `Idempotency-Key` (ruling 40).

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use domain::access::{BadIdempotencyKey, IdempotencyKey};

use crate::error::Error;

/// The request's `Idempotency-Key`, if it has one.
pub(super) struct IdempotencyHeader(pub(super) Option<IdempotencyKey>);

impl<S: Sync> FromRequestParts<S> for IdempotencyHeader {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Error> {
        let mut values = parts.headers.get_all("idempotency-key").iter();
        let key = match (values.next(), values.next()) {
            (None, _) => Ok(None),
            (Some(value), None) => {
                value.to_str().map_err(|_| BadIdempotencyKey).and_then(str::parse).map(Some)
            }
            (Some(_), Some(_)) => Err(BadIdempotencyKey),
        };
        key.map(Self).map_err(|error| Error::invalid(error.to_string()))
    }
}
