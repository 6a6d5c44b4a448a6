//! Between the socket and hyper: hyper is given a head only when all of it is here and was found
//! good, and of what follows only as much as the head announced. Every wait for the other end has
//! a deadline here.
//!
//! hyper reads nothing while a request is being answered (`half_close`), so a head is looked at
//! only after the answer to the one before: pipelined requests wait in the system's buffer.
//!
//! A request that is refused is replaced by one of our own, the last of its connection, which is
//! answered with the refusal (see [`GateFindings`]). So the refusal follows the answers before it and
//! is an answer like any other; nothing but hyper ever writes.

mod write;

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

/// What hyper is given for a request that was refused.
const REFUSED_REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: refused\r\nConnection: close\r\n\r\n";

/// How much of a head is read at once.
const HEAD_READ_BYTES: usize = 4 << 10;

/// A socket, or TLS on one, as hyper may see it.
pub(crate) struct Gate<S> {
    stream: S,
    timeouts: DoorTimeouts,
    state: ConnectionState,
    exchange: Arc<GateFindings>,
    phase: GatePhase,
    /// What has come and was not passed on: at most a head and a piece.
    buffer: BytesMut,
    scan: HeadScan,
    read_deadline: Deadline,
    write_deadline: Deadline,
}

/// Where the conversation stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum GatePhase {
    /// Nothing of the next head is here.
    Idle,
    /// A part of it is.
    Head,
    /// It was good: hyper may have this many bytes, head and body.
    Open(u64),
    /// It was good, and chunks follow it: hyper finds their end, and no other request is read.
    Chunked,
    /// No other request is read. hyper may have what is in the buffer.
    Last,
    /// Nothing more comes: the other end has closed, or was given up.
    Ended,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Gate<S> {
    /// A gate that expects the first byte of a connection that has just been made.
    pub(crate) fn new(
        stream: S,
        times: DoorTimeouts,
        turn: ConnectionState,
        exchange: Arc<GateFindings>,
    ) -> Self {
        let mut coming = Deadline::default();
        coming.set(times.first_byte);
        Self {
            stream,
            timeouts: times,
            state: turn,
            exchange,
            phase: GatePhase::Idle,
            buffer: BytesMut::new(),
            scan: HeadScan::default(),
            read_deadline: coming,
            write_deadline: Deadline::default(),
        }
    }

    /// The stream, once hyper has written everything; and whether the other end may have more to
    /// send, which must be let come so that the last answer is not lost.
    pub(crate) fn into_stream(self) -> (S, bool) {
        let answered =
            matches!(self.phase, GatePhase::Open(_) | GatePhase::Chunked | GatePhase::Last);
        (self.stream, answered)
    }

    /// The request before is answered: another may come.
    fn expect_head(&mut self) {
        self.state.wait();
        self.scan = HeadScan::default();
        if self.buffer.is_empty() {
            // An idle connection keeps no memory.
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

    /// Reads until it is clear what hyper may have.
    fn poll_head(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            if let Some(decided) = self.decide().transpose() {
                self.settle(decided);
                return Poll::Ready(Ok(()));
            }
            match self.poll_piece(cx) {
                Poll::Ready(Ok(0)) => {
                    self.phase = GatePhase::Ended;
                    return Poll::Ready(Ok(()));
                }
                Poll::Ready(read) => drop(read?),
                Poll::Pending => {
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

    /// What is to be done with the head, if all of it is here.
    fn decide(&mut self) -> Result<Option<(usize, BodyFraming)>, Refusal> {
        let Some(extent) = self.scan.advance(&self.buffer)? else {
            return Ok(None);
        };
        let body = head::check(&self.buffer[extent.start..extent.end])?;
        self.buffer.advance(extent.start);
        Ok(Some((extent.end - extent.start, body)))
    }

    fn settle(&mut self, decided: Result<(usize, BodyFraming), Refusal>) {
        if !self.state.begin() {
            self.phase = GatePhase::Ended;
            return;
        }
        self.exchange.set_whole(false);
        match decided {
            Ok((head, BodyFraming::Length(body))) => {
                self.phase = GatePhase::Open(head as u64 + body);
            }
            Ok((_, BodyFraming::Chunked)) => self.phase = GatePhase::Chunked,
            Err(refusal) => self.refuse(refusal),
        }
    }

    fn refuse(&mut self, refusal: Refusal) {
        self.exchange.refuse(refusal);
        self.buffer = BytesMut::from(REFUSED_REQUEST);
        self.phase = GatePhase::Last;
    }

    /// Who has sent nothing is told nothing.
    fn read_timed_out(&mut self) {
        if self.phase == GatePhase::Idle {
            self.phase = GatePhase::Ended;
        } else {
            self.settle(Err(Refusal::HeadTooSlow));
        }
    }

    /// Gives hyper what the phase allows it.
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
                    self.exchange.set_whole(left == 0);
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

    /// Passes up to `most` bytes on, those first that are here already. None is the end.
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
