//! The request and the result of one attempt.

use std::time::Duration;

use bytes::Bytes;
use domain::delivery::{AnswerVerdict, AttemptAnswer, Hop};
use reqwest::header::{HeaderMap, RETRY_AFTER};
use reqwest::{Method, Response};
use tokio::time::Instant;

use super::snippet;
use super::wire::SendLatch;

/// The request of an attempt. The type is not `Debug`, because the body holds answers of people.
#[derive(Clone)]
pub struct OutgoingRequest {
    /// The stored target. It is checked again at every attempt.
    pub target: String,
    /// POST, or PUT or PATCH for a workflow step.
    pub method: Method,
    /// All headers but `Accept`, `Accept-Encoding`, `User-Agent`, `Host` and the length.
    pub headers: HeaderMap,
    /// The frozen bytes (ruling 21, body).
    pub body: Bytes,
    /// The attempt is dropped unsent if no connection stands by then (ruling 29, in flight at
    /// removal).
    pub connect_by: Option<Instant>,
}

/// The result of an attempt.
#[derive(Clone, Debug)]
pub struct OutgoingExchange {
    /// The last answer, or the reason why there is none.
    pub answer: AttemptAnswer,
    /// The `Retry-After` of an answer that is retried, as it was written. `None` if there are
    /// several.
    pub retry_after: Option<String>,
    /// The requests of the attempt in order, the target's first.
    pub hops: Vec<Hop>,
    /// The start of the last answer's body: foreign bytes, not yet cleaned (ruling 25, delivered).
    pub snippet: Vec<u8>,
    /// Whether a receiver may have seen the request.
    pub connected: bool,
}

impl OutgoingExchange {
    pub(super) async fn from_response(response: Response, hops: Vec<Hop>, body: Duration) -> Self {
        let answer = AttemptAnswer::Status(response.status().as_u16());
        let retry_after = match answer.verdict() {
            AnswerVerdict::Retry => only_retry_after(response.headers()),
            AnswerVerdict::Delivered | AnswerVerdict::Failed => None,
        };
        let snippet = snippet::read(response, body).await;
        Self { answer, retry_after, hops, snippet, connected: true }
    }

    pub(super) fn from_failure(answer: AttemptAnswer, hops: Vec<Hop>, wire: &SendLatch) -> Self {
        let connected = wire.is_taken();
        let answer = if wire.met_shortage() { AttemptAnswer::OutOfDescriptors } else { answer };
        Self { answer, retry_after: None, hops, snippet: Vec::new(), connected }
    }
}

fn only_retry_after(headers: &HeaderMap) -> Option<String> {
    let mut all = headers.get_all(RETRY_AFTER).iter();
    let (Some(value), None) = (all.next(), all.next()) else {
        return None;
    };
    value.to_str().ok().map(str::to_owned)
}
