//! The latch of an attempt: whether a receiver can have seen anything of it. Also the attempt's
//! deadlines.
//!
//! A connection takes the request's body only once it stands, with TLS. An attempt that is given up
//! before that leaves no trace. Ruling 29 (in flight at removal) depends on this.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use bytes::Bytes;
use domain::delivery::{AttemptAnswer, NetworkError};
use hyper::body::{Body, Frame, SizeHint};
use tokio::time::{Instant, timeout_at};

/// The fate of an attempt's first request. It is decided once, by the connection or by the
/// deadline.
#[derive(Clone, Default)]
pub(super) struct SendLatch {
    fate: Arc<OnceLock<SendFate>>,
    /// Set if a look-up or a connection found no file descriptor.
    shortage: Arc<OnceLock<()>>,
    /// The deadline of the body. A process that stood still must not send afterwards (case E21).
    until: Option<Instant>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum SendFate {
    Taken,
    GivenUp,
}

impl SendLatch {
    /// A latch that no connection takes after `until`.
    pub(super) fn open_until(until: Option<Instant>) -> Self {
        Self { until, ..Self::default() }
    }

    /// Notes that a look-up or a connection found no file descriptor.
    pub(super) fn note_shortage(&self) {
        let _ = self.shortage.set(());
    }

    /// Whether a look-up or a connection of this attempt found no file descriptor.
    pub(super) fn met_shortage(&self) -> bool {
        self.shortage.get().is_some()
    }

    /// Whether a connection has taken a request of this attempt.
    pub(super) fn is_taken(&self) -> bool {
        self.fate.get() == Some(&SendFate::Taken)
    }

    /// Takes the request for a connection. False if the attempt was given up, or it is too late.
    pub(super) fn take_request(&self) -> bool {
        let too_late = || self.until.is_some_and(|until| until <= Instant::now());
        let fate = || if too_late() { SendFate::GivenUp } else { SendFate::Taken };
        *self.fate.get_or_init(fate) == SendFate::Taken
    }

    /// Gives the attempt up, so that no connection takes it. False if a connection has taken it.
    fn give_up(&self) -> bool {
        *self.fate.get_or_init(|| SendFate::GivenUp) == SendFate::GivenUp
    }

    /// The body to send. A connection that reads it takes the latch.
    pub(super) fn latched_body(&self, bytes: Bytes) -> reqwest::Body {
        if bytes.is_empty() {
            return reqwest::Body::from(bytes);
        }
        reqwest::Body::wrap(LatchedBody { bytes, wire: self.clone() })
    }
}

struct LatchedBody {
    bytes: Bytes,
    wire: SendLatch,
}

impl Body for LatchedBody {
    type Data = Bytes;
    type Error = &'static str;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        if !self.wire.take_request() {
            return Poll::Ready(Some(Err("given up")));
        }
        let bytes = std::mem::take(&mut self.bytes);
        Poll::Ready((!bytes.is_empty()).then(|| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.bytes.len() as u64)
    }
}

/// The two deadlines of an attempt.
pub(super) struct AttemptDeadlines {
    /// A connection must stand by then, or nothing is sent.
    pub(super) connect_by: Option<Instant>,
    /// The headers of the last answer must be there by then.
    pub(super) headers_by: Instant,
}

impl AttemptDeadlines {
    /// Drives the work until a deadline passes. The work stays pinned, because a future that is
    /// handed on is stored twice.
    ///
    /// # Errors
    /// The meaning of the deadline that passed.
    pub(super) async fn drive_work<T>(
        &self,
        wire: &SendLatch,
        mut work: Pin<&mut impl Future<Output = Result<T, AttemptAnswer>>>,
    ) -> Result<T, AttemptAnswer> {
        if let Some(connect_by) = self.connect_by.filter(|at| *at < self.headers_by) {
            // Checked before the first poll, which could already send over a kept connection.
            if connect_by <= Instant::now() {
                return Err(AttemptAnswer::NeverSent);
            }
            match timeout_at(connect_by, &mut work).await {
                Ok(done) => return done,
                Err(_) if wire.give_up() => return Err(AttemptAnswer::NeverSent),
                Err(_) => {}
            }
        }
        let done = timeout_at(self.headers_by, work).await;
        done.unwrap_or(Err(NetworkError::Timeout.into()))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use domain::subscription::{AllowedTargets, Target};
    use reqwest::Method;
    use tokio::io::AsyncReadExt as _;

    use super::super::clients::{ClientCache, EgressAddresses};
    use super::super::tls;
    use super::*;

    fn look(body: &mut LatchedBody) -> Poll<Option<Result<Frame<Bytes>, &'static str>>> {
        Pin::new(body).poll_frame(&mut Context::from_waker(std::task::Waker::noop()))
    }

    fn carried() -> (SendLatch, LatchedBody) {
        let wire = SendLatch::default();
        let bytes = Bytes::from_static(b"body");
        (wire.clone(), LatchedBody { bytes, wire })
    }

    #[test]
    fn a_body_given_up_is_not_taken() {
        let (wire, mut body) = carried();
        assert!(wire.give_up());
        assert!(matches!(look(&mut body), Poll::Ready(Some(Err(_)))));
        assert!(!wire.is_taken());
    }

    #[test]
    fn e21_a_late_body_is_not_taken() {
        let wire = SendLatch::open_until(Some(Instant::now()));
        let mut body = LatchedBody { bytes: Bytes::from_static(b"body"), wire: wire.clone() };
        assert!(matches!(look(&mut body), Poll::Ready(Some(Err(_)))));
        assert!(!wire.is_taken());
    }

    #[test]
    fn a_taken_body_cannot_be_given_up() {
        let (wire, mut body) = carried();
        assert!(matches!(look(&mut body), Poll::Ready(Some(Ok(_)))));
        assert!(wire.is_taken() && !wire.give_up() && wire.is_taken());
    }

    /// The receiver must not even see the head.
    #[tokio::test]
    async fn a_given_up_request_sends_nothing() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = listener.local_addr().unwrap();
        let allowed = AllowedTargets::new(vec![at.ip().into()]).with_http();
        let target = Target::parse(&format!("http://{at}/"), &allowed).unwrap();
        let clients = ClientCache::new(
            tls::config(&[]).unwrap(),
            Duration::from_secs(5),
            EgressAddresses::new(Vec::new()),
        );
        let (wire, _) = carried();
        assert!(wire.give_up());

        let mut request = reqwest::Request::new(Method::POST, target.url().clone());
        *request.body_mut() = Some(wire.latched_body(Bytes::from_static(b"body")));
        let client = clients.client_dialling(&target, at.ip()).unwrap();
        let heard = async {
            let mut heard = Vec::new();
            let (mut stream, _) = listener.accept().await.unwrap();
            stream.read_to_end(&mut heard).await.unwrap();
            heard
        };
        let (sent, heard) = tokio::join!(client.execute(request), heard);
        assert!(sent.is_err() && heard.is_empty(), "{heard:?}");
    }
}
