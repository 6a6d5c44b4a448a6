//! Between the socket and hyper. hyper gets a request head only after the whole head has arrived
//! and passed the check. After the head hyper gets only the announced bytes. Every wait for the
//! caller has a deadline here.
//!
//! hyper reads nothing while a request is being answered (`half_close`). So a head is checked only
//! after the answer before it, and pipelined requests wait in the system's buffer.
//!
//! A refused request is replaced by a request of our own, the last of its connection. The service
//! answers this request with the refusal (see [`GateFindings`]). So the refusal follows earlier
//! answers and is an answer like any other. Only hyper ever writes.

mod write;
mod writing;

use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::deadline::Deadline;
use crate::exchange::GateFindings;
use crate::head::{self, BodyFraming, HeadScan};
use crate::refusal::Refusal;
use crate::roster::ConnectionState;
use crate::settings::DoorTimeouts;
use writing::AnswerWriting;

/// The request that hyper gets in place of a refused one.
const REFUSED_REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: refused\r\nConnection: close\r\n\r\n";

/// The most bytes of a request head in one read.
const HEAD_READ_BYTES: usize = 4 << 10;

/// A socket, or TLS on a socket, as hyper sees it.
pub(crate) struct Gate<S> {
    stream: S,
    door: &'static str,
    timeouts: DoorTimeouts,
    state: ConnectionState,
    exchange: Arc<GateFindings>,
    phase: GatePhase,
    /// Bytes that arrived and were not passed on: at most a request head and one read.
    buffer: BytesMut,
    scan: HeadScan,
    read_deadline: Deadline,
    writing: AnswerWriting,
}

/// The phase of the conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum GatePhase {
    /// No byte of the next request has arrived.
    Idle,
    /// A part of the request head has arrived.
    Head,
    /// The head is good. hyper may still have this many bytes of head and body.
    Open(u64),
    /// The head is good, and chunks follow. hyper finds the last chunk, and the gate reads no other
    /// request.
    Chunked,
    /// The gate reads no other request. hyper may have the rest of the buffer.
    Last,
    /// Nothing more is read: the caller closed the connection, or the gate gave up.
    Ended,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Gate<S> {
    /// A gate for a new connection, before its first byte.
    pub(crate) fn new(
        stream: S,
        door: &'static str,
        times: DoorTimeouts,
        turn: ConnectionState,
        exchange: Arc<GateFindings>,
    ) -> Self {
        let mut coming = Deadline::default();
        coming.set(times.first_byte);
        Self {
            stream,
            door,
            timeouts: times,
            state: turn,
            exchange,
            phase: GatePhase::Idle,
            buffer: BytesMut::new(),
            scan: HeadScan::default(),
            read_deadline: coming,
            writing: AnswerWriting::default(),
        }
    }

    /// The stream, after hyper has written everything. Also says whether the caller may still be
    /// sending. The connection must read that, or the last answer is lost.
    pub(crate) fn into_stream(self) -> (S, bool) {
        let answered =
            matches!(self.phase, GatePhase::Open(_) | GatePhase::Chunked | GatePhase::Last);
        (self.stream, answered)
    }

    /// Waits for the next request, after an answer.
    fn expect_head(&mut self) {
        self.state.begin_waiting();
        self.writing.end_answer();
        self.scan = HeadScan::default();
        if self.buffer.is_empty() {
            // An idle connection keeps no buffer.
            self.buffer = BytesMut::new();
            self.phase = GatePhase::Idle;
            self.read_deadline.set(self.timeouts.idle);
        } else {
            self.begin_head();
        }
    }

    fn begin_head(&mut self) {
        self.phase = GatePhase::Head;
        self.read_deadline.set(self.timeouts.head);
    }

    /// Reads until the request head is whole and decided.
    fn poll_head(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            if let Some(decided) = self.scan_head().transpose() {
                self.admit_request(decided);
                return Poll::Ready(Ok(()));
            }
            match self.poll_piece(cx) {
                Poll::Ready(Ok(0)) => {
                    self.phase = GatePhase::Ended;
                    return Poll::Ready(Ok(()));
                }
                Poll::Ready(read) => drop(read?),
                Poll::Pending => {
                    if self.phase == GatePhase::Idle {
                        self.writing.end_balance();
                    }
                    ready!(self.read_deadline.poll(cx));
                    self.read_timed_out();
                    return Poll::Ready(Ok(()));
                }
            }
            if self.phase == GatePhase::Idle {
                self.begin_head();
            }
        }
    }

    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let mut piece = [const { MaybeUninit::uninit() }; HEAD_READ_BYTES];
        let mut piece = ReadBuf::uninit(&mut piece);
        ready!(Pin::new(&mut self.stream).poll_read(cx, &mut piece))?;
        self.buffer.extend_from_slice(piece.filled());
        Poll::Ready(Ok(piece.filled().len()))
    }

    /// Checks the request head, once it is whole. Returns the length of the head, and the framing
    /// of the body.
    fn scan_head(&mut self) -> Result<Option<(usize, BodyFraming)>, Refusal> {
        let Some(extent) = self.scan.scan_bytes(&self.buffer)? else {
            return Ok(None);
        };
        let body = head::check(&self.buffer[extent.start..extent.end])?;
        self.buffer.advance(extent.start);
        Ok(Some((extent.end - extent.start, body)))
    }

    fn admit_request(&mut self, decided: Result<(usize, BodyFraming), Refusal>) {
        if !self.state.begin_request() {
            self.phase = GatePhase::Ended;
            return;
        }
        self.exchange.mark_partial();
        match decided {
            Ok((head, BodyFraming::Length(body))) => {
                self.phase = GatePhase::Open(head as u64 + body);
            }
            Ok((_, BodyFraming::Chunked)) => self.phase = GatePhase::Chunked,
            Err(refusal) => self.refuse_request(refusal),
        }
    }

    fn refuse_request(&mut self, refusal: Refusal) {
        self.exchange.note_refusal(refusal);
        self.buffer = BytesMut::from(REFUSED_REQUEST);
        self.phase = GatePhase::Last;
    }

    /// Closes a connection without a request silently. Refuses a request head that is too slow.
    fn read_timed_out(&mut self) {
        if self.phase == GatePhase::Idle {
            self.phase = GatePhase::Ended;
        } else {
            self.admit_request(Err(Refusal::HeadTooSlow));
        }
    }

    /// Passes on the bytes that the phase allows.
    fn poll_allowed(
        &mut self,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.phase {
            GatePhase::Open(left) => {
                let passed = ready!(self.poll_pass(cx, left, into))?;
                if passed > 0 {
                    let left = left - passed as u64;
                    self.phase = GatePhase::Open(left);
                    if left == 0 {
                        self.exchange.mark_whole();
                    }
                }
                Poll::Ready(Ok(()))
            }
            GatePhase::Chunked => self.poll_pass(cx, u64::MAX, into).map_ok(drop),
            GatePhase::Last if !self.buffer.is_empty() => {
                self.poll_pass(cx, u64::MAX, into).map_ok(drop)
            }
            GatePhase::Last | GatePhase::Ended | GatePhase::Idle | GatePhase::Head => {
                Poll::Ready(Ok(()))
            }
        }
    }

    /// Passes on up to `most` bytes, first those of the buffer. Zero bytes mean the end of the
    /// stream.
    fn poll_pass(
        &mut self,
        cx: &mut Context<'_>,
        most: u64,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<usize>> {
        let most = usize::try_from(most).unwrap_or(usize::MAX).min(into.remaining());
        if !self.buffer.is_empty() {
            let passed = most.min(self.buffer.len());
            into.put_slice(&self.buffer[..passed]);
            self.buffer.advance(passed);
            return Poll::Ready(Ok(passed));
        }
        let passed = ready!(self.poll_read_up_to(cx, most, into))?;
        if passed == 0 {
            self.phase = GatePhase::Ended;
        }
        Poll::Ready(Ok(passed))
    }

    fn poll_read_up_to(
        &mut self,
        cx: &mut Context<'_>,
        most: usize,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<usize>> {
        let stream = Pin::new(&mut self.stream);
        let before = into.filled().len();
        if most == into.remaining() {
            ready!(stream.poll_read(cx, into))?;
        } else {
            let mut part = ReadBuf::new(into.initialize_unfilled_to(most));
            ready!(stream.poll_read(cx, &mut part))?;
            let read = part.filled().len();
            into.advance(read);
        }
        Poll::Ready(Ok(into.filled().len() - before))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Gate<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let gate = self.get_mut();
        if gate.phase == GatePhase::Open(0) {
            gate.expect_head();
        }
        if matches!(gate.phase, GatePhase::Idle | GatePhase::Head) {
            ready!(gate.poll_head(cx))?;
        }
        gate.poll_allowed(cx, into)
    }
}
