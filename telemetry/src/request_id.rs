//! Request ids: the name of one call, in its answer, in its log lines and in its trace (ruling 38).

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use uuid::Uuid;

/// The header of a request id, in requests and in answers.
pub const REQUEST_ID_HEADER: &str = "x-request-id";

/// Longest request id of a caller (ruling 38).
const LENGTH_MAX: usize = 128;

tokio::task_local! {
    static CURRENT: RequestId;
}

/// The request id of the current task, if the task answers a call.
#[must_use]
pub fn current_request_id() -> Option<RequestId> {
    CURRENT.try_with(Clone::clone).ok()
}

/// Runs `work` with this request id. With `None`, an id that is already set stays.
pub async fn with_request_id<W: Future>(id: Option<RequestId>, work: W) -> W::Output {
    match id {
        Some(id) => CURRENT.scope(id, work).await,
        None => work.await,
    }
}

/// A request id: 1 to 128 characters of `[A-Za-z0-9._:-]`. The alphabet is safe in headers, in JSON
/// and on a terminal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestId(Arc<str>);

impl RequestId {
    /// The id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<Uuid> for RequestId {
    fn from(id: Uuid) -> Self {
        Self(id.to_string().into())
    }
}

/// The text is no request id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoRequestId;

impl FromStr for RequestId {
    type Err = NoRequestId;

    fn from_str(text: &str) -> Result<Self, NoRequestId> {
        let fits = (1..=LENGTH_MAX).contains(&text.len());
        if fits && text.bytes().all(is_allowed) { Ok(Self(text.into())) } else { Err(NoRequestId) }
    }
}

const fn is_allowed(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b':' | b'-')
}

/// The source of ids for calls that bring none. Clones share it.
#[derive(Clone)]
pub struct RequestIds(Arc<dyn Fn() -> Uuid + Send + Sync>);

impl RequestIds {
    /// A source that takes each new id from `new`.
    pub fn new(new: impl Fn() -> Uuid + Send + Sync + 'static) -> Self {
        Self(Arc::new(new))
    }

    /// The id of a call whose header has these values: the caller's own, if it is there once and
    /// well-formed, else a new one.
    pub fn id_of<'a>(&self, mut values: impl Iterator<Item = &'a [u8]>) -> RequestId {
        let own = match (values.next(), values.next()) {
            (Some(value), None) => str::from_utf8(value).ok().and_then(|value| value.parse().ok()),
            _ => None,
        };
        own.unwrap_or_else(|| (self.0)().into())
    }
}

impl fmt::Debug for RequestIds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RequestIds")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEW: &str = "01936d1c-0000-7000-8000-000000000001";

    /// A caller's own id is taken if it is well formed and there once.
    #[test]
    fn a_single_sound_id_is_taken() {
        let ids = RequestIds::new(|| NEW.parse().unwrap());
        let of =
            |values: &[&str]| ids.id_of(values.iter().map(|value| value.as_bytes())).to_string();
        let longest = "a".repeat(128);
        for own in ["a", "A-b_c.d:9", NEW, &longest] {
            assert_eq!(of(&[own]), own);
        }
        let longer = "a".repeat(129);
        for other in ["", " a", "a b", "é", "a\"", "a\n", "<b>", "a/b", "a,b", &longer] {
            assert_eq!(of(&[other]), NEW, "{other:?}");
        }
        assert_eq!(of(&[]), NEW);
        assert_eq!(of(&["a", "a"]), NEW, "twice");
        assert_eq!(ids.id_of([&[0xff][..]].into_iter()).as_str(), NEW, "no text");
    }

    #[tokio::test]
    async fn a_task_knows_its_call() {
        let id = || "a".parse::<RequestId>().ok();
        assert_eq!(current_request_id(), None);
        assert_eq!(with_request_id(id(), async { current_request_id() }).await, id());
        assert_eq!(with_request_id(None, async { current_request_id() }).await, None);
    }
}
