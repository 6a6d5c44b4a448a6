//! Callers of the internal API. An extractor admits the holder of a bearer token by role.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use domain::event::Actor;
use uuid::Uuid;

use super::path;
use crate::batching::token_cache::Bearer;
use crate::batching::token_lookup;
use crate::body;
use crate::commands::tokens::{HolderRole, TokenHolder};
use crate::error::Error;
use crate::intake;
use crate::service::Service;

/// The product, or an operator in its place.
#[derive(Debug, Clone)]
pub(super) struct Product(TokenHolder);

/// Any holder of a token, who may see settings of firms.
#[derive(Debug, Clone)]
pub(super) struct Viewer(TokenHolder);

/// The product, or an operator in its place, with a report. If the report is announced as a small
/// one, the token may come from the cache. Intake then confirms the token in its transaction.
#[derive(Debug, Clone)]
pub(super) struct Reporter(pub(super) Bearer);

/// An operator or an auditor, who may read deliveries.
#[derive(Debug, Clone)]
pub(super) struct Reader(TokenHolder);

/// An operator.
#[derive(Debug, Clone)]
pub(super) struct Operator(TokenHolder);

impl Operator {
    /// The token's holder, for its firms.
    pub(super) const fn holder(&self) -> &TokenHolder {
        &self.0
    }

    /// The operator in the log.
    pub(super) const fn actor(&self) -> Actor {
        self.0.actor()
    }
}

impl Product {
    const ROLES: &[HolderRole] = &[HolderRole::Product, HolderRole::Operator];

    /// The actor in the log for a member's action on the product's screens: the member, unless an
    /// operator acts.
    pub(super) fn for_member(&self, member_id: Uuid) -> Actor {
        match self.0.role {
            HolderRole::Operator => self.actor(),
            HolderRole::Product | HolderRole::Auditor => Actor::Member(member_id),
        }
    }

    /// The token's holder, for its firms.
    pub(super) const fn holder(&self) -> &TokenHolder {
        &self.0
    }

    /// The caller in the log.
    pub(super) const fn actor(&self) -> Actor {
        self.0.actor()
    }
}

impl Viewer {
    const ROLES: &[HolderRole] = &[HolderRole::Product, HolderRole::Operator, HolderRole::Auditor];

    /// The token's holder, for its firms.
    pub(super) const fn holder(&self) -> &TokenHolder {
        &self.0
    }
}

impl Reader {
    const ROLES: &[HolderRole] = &[HolderRole::Operator, HolderRole::Auditor];

    /// The token's holder, for its firms.
    pub(super) const fn holder(&self) -> &TokenHolder {
        &self.0
    }

    /// The reader in the log.
    pub(super) const fn actor(&self) -> Actor {
        self.0.actor()
    }

    /// Refuses a token for some firms, where the answer is about all.
    ///
    /// # Errors
    /// `forbidden`.
    pub(super) fn check_reach(&self) -> Result<(), Error> {
        self.0.reaches_all().then_some(()).ok_or(Error::Forbidden)
    }

    /// Refuses a reader whose token has ended since its call began.
    ///
    /// # Errors
    /// `unauthorized`; or if the database does not answer.
    pub(super) async fn confirm_token(
        &self,
        service: &Service,
        headers: &HeaderMap,
    ) -> Result<(), Error> {
        let token = bearer_token(headers).ok_or(Error::NoToken)?;
        let holder = token_lookup::authenticate(service, token).await?;
        if holder.as_ref() == Some(&self.0) { Ok(()) } else { Err(Error::NoToken) }
    }

    /// Refuses a reader who asks for a whole target and is no operator.
    ///
    /// # Errors
    /// `forbidden`.
    pub(super) fn check_reveal(&self, reason: Option<&str>) -> Result<(), Error> {
        if reason.is_some() && self.0.role != HolderRole::Operator {
            return Err(Error::Forbidden);
        }
        Ok(())
    }
}

impl FromRequestParts<Arc<Service>> for Product {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, service: &Arc<Service>) -> Result<Self, Error> {
        admit_holder(parts, service, Self::ROLES).await.map(Self)
    }
}

impl FromRequestParts<Arc<Service>> for Reporter {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, service: &Arc<Service>) -> Result<Self, Error> {
        let token = bearer_token(&parts.headers).ok_or(Error::NoToken)?;
        let is_small = |bytes| bytes <= intake::SMALL_CALL_BYTES_MAX as u64;
        let caller = if body::content_length(&parts.headers).is_some_and(is_small) {
            token_lookup::authenticate_cached(service, token).await?
        } else {
            token_lookup::authenticate(service, token).await?.map(Bearer::confirmed)
        };
        let caller = caller.ok_or(Error::NoToken)?;
        if Product::ROLES.contains(&caller.holder.role) {
            return Ok(Self(caller));
        }
        token_lookup::confirm(service, &caller).await?;
        Err(Error::Forbidden)
    }
}

impl FromRequestParts<Arc<Service>> for Reader {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, service: &Arc<Service>) -> Result<Self, Error> {
        admit_holder(parts, service, Self::ROLES).await.map(Self)
    }
}

impl FromRequestParts<Arc<Service>> for Viewer {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, service: &Arc<Service>) -> Result<Self, Error> {
        admit_holder(parts, service, Self::ROLES).await.map(Self)
    }
}

impl FromRequestParts<Arc<Service>> for Operator {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, service: &Arc<Service>) -> Result<Self, Error> {
        admit_holder(parts, service, &[HolderRole::Operator]).await.map(Self)
    }
}

/// The holder of a session, looked up for this call. A request from outside has no such extension.
#[derive(Debug, Clone)]
pub(super) struct SessionHolder(pub(super) TokenHolder);

/// The holder of the session or of the token.
async fn find_holder(parts: &Parts, service: &Service) -> Result<TokenHolder, Error> {
    if let Some(SessionHolder(holder)) = parts.extensions.get() {
        return Ok(holder.clone());
    }
    let token = bearer_token(&parts.headers).ok_or(Error::NoToken)?;
    token_lookup::authenticate(service, token).await?.ok_or(Error::NoToken)
}

/// Admits a holder with one of these roles to the route's firm, if the route has one. A firm that
/// the token may not reach looks like a missing one.
async fn admit_holder(
    parts: &mut Parts,
    service: &Service,
    roles: &[HolderRole],
) -> Result<TokenHolder, Error> {
    let holder = find_holder(parts, service).await?;
    if !roles.contains(&holder.role) {
        return Err(Error::Forbidden);
    }
    match path::firm_of_route(parts).await {
        Some(firm_id) if !holder.reaches(firm_id) => Err(Error::FirmNotFound),
        _ => Ok(holder),
    }
}

/// The token in the `Authorization` header, which must be there once.
pub(super) fn bearer_token(headers: &HeaderMap) -> Option<&str> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let value = values.next()?;
    if values.next().is_some() {
        return None;
    }
    let (scheme, token) = value.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(token)
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    fn read(values: &[&str]) -> Option<String> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(AUTHORIZATION, HeaderValue::from_str(value).unwrap());
        }
        bearer_token(&headers).map(str::to_owned)
    }

    #[test]
    fn a_token_is_sent_once_as_bearer() {
        assert_eq!(read(&["Bearer fft_a"]).as_deref(), Some("fft_a"));
        assert_eq!(read(&["bearer fft_a"]).as_deref(), Some("fft_a"));
        for other in [&[][..], &["fft_a"], &["Basic fft_a"], &["Bearer a", "Bearer a"]] {
            assert_eq!(read(other), None, "{other:?}");
        }
    }
}
