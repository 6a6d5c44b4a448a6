//! Names in a path. A malformed id is answered like an unknown one (ruling 6).

use std::convert::Infallible;

use axum::extract::{FromRequestParts, Path};
use axum::http::request::Parts;
use domain::values::parse_id;
use uuid::Uuid;

use crate::error::Error;

/// The `{id}` of the path, if it is well-formed.
pub(super) struct PathId(Option<Uuid>);

impl PathId {
    /// The id, or the error for an object that does not exist.
    pub(super) fn id_or(self, missing: Error) -> Result<Uuid, Error> {
        self.0.ok_or(missing)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for PathId {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Infallible> {
        let PathText(text) = PathText::from_request_parts(parts, state).await?;
        Ok(Self(text.and_then(|text| parse_id(&text))))
    }
}

/// The name in the path, if it is UTF-8.
pub(super) struct PathText(pub(super) Option<String>);

impl<S: Send + Sync> FromRequestParts<S> for PathText {
    type Rejection = Infallible;

    /// Bytes that are not UTF-8 name nothing.
    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Infallible> {
        let text = Path::<String>::from_request_parts(parts, state).await;
        Ok(Self(text.ok().map(|Path(text)| text)))
    }
}
