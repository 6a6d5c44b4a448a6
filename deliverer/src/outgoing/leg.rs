//! One request of a chain, and the next request after a redirect (ruling 19, redirects).
//!
//! The client follows no redirects itself. It would drop too few headers, change methods of its own
//! accord, and not check the new target.

use bytes::Bytes;
use domain::delivery::{AttemptAnswer, RedirectFault};
use domain::subscription::{AllowedTargets, Target};
use reqwest::header::{
    ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, LOCATION, USER_AGENT,
};
use reqwest::{Method, StatusCode};

use super::exchange::OutgoingRequest;
use super::wire::SendLatch;

/// Redirects of one attempt, at most (ruling 19, redirects).
const MAX_REDIRECTS: usize = 5;

/// The headers that another host gets (contract, section Request sent to the target).
const FOR_ANOTHER_HOST: [HeaderName; 3] = [CONTENT_TYPE, ACCEPT, USER_AGENT];

/// One request.
#[derive(Clone)]
pub(super) struct RequestLeg {
    pub(super) target: Target,
    method: Method,
    headers: HeaderMap,
    body: Bytes,
}

impl RequestLeg {
    /// The first request of an attempt, with its target checked.
    ///
    /// # Errors
    /// The target's text is refused.
    pub(super) fn first_request(
        request: OutgoingRequest,
        allowed: &AllowedTargets,
        agent: &HeaderValue,
    ) -> Result<Self, AttemptAnswer> {
        let target = Target::parse(&request.target, allowed).map_err(AttemptAnswer::Refused)?;
        let OutgoingRequest { method, mut headers, body, .. } = request;
        headers.entry(ACCEPT).or_insert(HeaderValue::from_static("*/*"));
        headers.entry(USER_AGENT).or_insert_with(|| agent.clone());
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        Ok(Self { target, method, headers, body })
    }

    /// The request as the client sends it.
    pub(super) fn to_send(&self, wire: &SendLatch) -> reqwest::Request {
        let mut request = reqwest::Request::new(self.method.clone(), self.target.url().clone());
        request.headers_mut().clone_from(&self.headers);
        *request.body_mut() = Some(wire.latched_body(self.body.clone()));
        request
    }

    /// The request that the redirect leads to.
    fn redirected_to(
        &self,
        status: StatusCode,
        location: &[u8],
        allowed: &AllowedTargets,
    ) -> Result<Self, RedirectFault> {
        let target = self.target.join(location, allowed).map_err(RedirectFault::Refused)?;
        let mut next = Self { target, ..self.clone() };
        if status == StatusCode::SEE_OTHER {
            next.become_a_get();
        }
        if self.target.origin_differs(&next.target) {
            next.forget_headers();
        }
        Ok(next)
    }

    fn become_a_get(&mut self) {
        self.method = Method::GET;
        self.headers.remove(CONTENT_TYPE);
        self.body = Bytes::new();
    }

    /// Later requests are made from this one, so they do not get the dropped headers back.
    fn forget_headers(&mut self) {
        let mut kept = HeaderMap::with_capacity(FOR_ANOTHER_HOST.len());
        for name in FOR_ANOTHER_HOST {
            if let Some(value) = self.headers.remove(&name) {
                kept.insert(name, value);
            }
        }
        self.headers = kept;
    }

    fn is_same_request(&self, other: &Self) -> bool {
        self.method == other.method && self.target.url() == other.target.url()
    }
}

/// The requests of an attempt so far.
pub(super) struct RedirectChain {
    passed: Vec<RequestLeg>,
    pub(super) now: RequestLeg,
}

impl RedirectChain {
    pub(super) fn from(first: RequestLeg) -> Self {
        Self { passed: Vec::new(), now: first }
    }

    /// Moves on to the request that the redirect leads to.
    ///
    /// # Errors
    /// The redirect has no target, a forbidden target or a target of before, or there were too
    /// many.
    pub(super) fn follow_redirect(
        &mut self,
        status: StatusCode,
        headers: &HeaderMap,
        allowed: &AllowedTargets,
    ) -> Result<(), RedirectFault> {
        let next = self.now.redirected_to(status, only_location(headers)?, allowed)?;
        let last = std::mem::replace(&mut self.now, next);
        self.passed.push(last);
        if self.passed.iter().any(|leg| leg.is_same_request(&self.now)) {
            return Err(RedirectFault::Loop);
        }
        if self.passed.len() > MAX_REDIRECTS { Err(RedirectFault::TooMany) } else { Ok(()) }
    }
}

/// The redirects that are followed. The other 3xx are answers (case C20).
pub(super) fn is_redirect(status: StatusCode) -> bool {
    matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308)
}

fn only_location(headers: &HeaderMap) -> Result<&[u8], RedirectFault> {
    let mut all = headers.get_all(LOCATION).iter();
    match (all.next(), all.next()) {
        (Some(location), None) => Ok(location.as_bytes()),
        (None, _) => Err(RedirectFault::MissingLocation),
        (Some(_), Some(_)) => Err(RedirectFault::SeveralLocations),
    }
}
