//! What goes in and what comes out of one try.

use std::time::Duration;

use bytes::Bytes;
use domain::answer::{AnswerVerdict, AttemptAnswer};
use domain::delivery::Hop;
use reqwest::header::{HeaderMap, RETRY_AFTER};
use reqwest::{Method, Response};
use tokio::time::Instant;

use super::snippet;

/// One try, ordered. Not to be printed: its body is somebody's answers.
#[derive(Clone)]
pub struct OutgoingRequest {
    /// Where to, as it is stored: checked again here, at every try.
    pub target: String,
    /// POST; a workflow step also PUT or PATCH.
    pub method: Method,
    /// Everything but `Accept`, `Accept-Encoding`, `User-Agent`, `Host` and the length.
    pub headers: HeaderMap,
    /// The frozen bytes (ruling 21).
    pub body: Bytes,
    /// Dropped unsent unless a connection stands by then (ruling 29).
    pub connect_by: Option<Instant>,
}

/// One try, made.
#[derive(Clone, Debug)]
pub struct OutgoingExchange {
    /// The last answer, or why there is none.
    pub answer: AttemptAnswer,
    /// The only `Retry-After` of an answer that is retried, as it was written.
    pub retry_after: Option<String>,
    /// Every request of the try in order, the target's first.
    pub hops: Vec<Hop>,
    /// The start of the last answer's body: foreign bytes, not yet cleaned (ruling 25).
    pub snippet: Vec<u8>,
    /// Whether a receiver may have seen anything of it.
    pub connected: bool,
}

impl OutgoingExchange {
    pub(super) async fn answered(response: Response, hops: Vec<Hop>, body: Duration) -> Self {
        let answer = AttemptAnswer::Status(response.status().as_u16());
        let retry_after = match answer.verdict() {
            AnswerVerdict::Retry => only_retry_after(response.headers()),
            AnswerVerdict::Delivered | AnswerVerdict::Failed => None,
        };
        let snippet = snippet::read(response, body).await;
        Self { answer, retry_after, hops, snippet, connected: true }
    }

    pub(super) fn failed(answer: AttemptAnswer, hops: Vec<Hop>, connected: bool) -> Self {
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
