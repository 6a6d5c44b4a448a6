//! Ids in a path. A malformed id is answered like an unknown one (ruling 6).

use std::convert::Infallible;

use axum::extract::{FromRequestParts, RawPathParams};
use axum::http::request::Parts;
use domain::values::parse_id;
use uuid::Uuid;

use crate::error::Error;

/// The `{firm}` of the path.
pub(super) struct PathFirm(pub(super) Uuid);

/// The `{id}` of the path, if it is well-formed.
pub(super) struct PathParamId(Option<Uuid>);

impl PathParamId {
    /// The id, or the error for an object that does not exist.
    pub(super) fn id_or(self, missing: Error) -> Result<Uuid, Error> {
        self.0.ok_or(missing)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for PathFirm {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Error> {
        path_id(parts, state, "firm").await.map(Self).ok_or(Error::FirmNotFound)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for PathParamId {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Infallible> {
        Ok(Self(path_id(parts, state, "id").await))
    }
}

/// The firm in the path of a route, if the route has one and its id is well-formed.
pub(super) async fn firm_of_route(parts: &mut Parts) -> Option<Uuid> {
    path_id(parts, &(), "firm").await
}

async fn path_id<S: Send + Sync>(parts: &mut Parts, state: &S, name: &str) -> Option<Uuid> {
    let params = RawPathParams::from_request_parts(parts, state).await.ok()?;
    params.iter().find(|(param, _)| *param == name).and_then(|(_, text)| parse_id(text))
}
