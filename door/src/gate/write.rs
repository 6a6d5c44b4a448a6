//! The writing side of the gate. Every byte passes, unless the caller reads too slowly.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Instant;

use super::{Gate, GatePhase};
use crate::refusal::count_refusal;

impl<S: AsyncRead + AsyncWrite + Unpin> Gate<S> {
    /// Notes how many bytes the system has taken. Ends a write that the caller blocks for too long,
    /// and lets the roster evict the connection meanwhile.
    fn poll_written<T>(
        &mut self,
        cx: &mut Context<'_>,
        written: Poll<io::Result<T>>,
        bytes: impl FnOnce(&T) -> usize,
    ) -> Poll<io::Result<T>> {
        let now = Instant::now();
        if let Poll::Ready(result) = written {
            if self.writing.is_blocked() {
                self.note_unblocked();
            }
            self.writing.note_taken(result.as_ref().map_or(0, bytes), now);
            return Poll::Ready(result);
        }
        let behind_since = self.writing.note_blocked(&self.timeouts, now);
        self.state.mark_blocked(behind_since);
        ready!(self.writing.poll_overdue(cx));
        count_refusal(self.door, "unread");
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }

    /// hyper may expect the next request before the last bytes of an answer are written.
    fn note_unblocked(&self) {
        match self.phase {
            GatePhase::Idle | GatePhase::Head => self.state.begin_waiting(),
            GatePhase::Open(_) | GatePhase::Chunked | GatePhase::Last | GatePhase::Ended => {
                self.state.mark_unblocked();
            }
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Gate<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let gate = self.get_mut();
        let written = Pin::new(&mut gate.stream).poll_write(cx, bytes);
        gate.poll_written(cx, written, |written| *written)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let gate = self.get_mut();
        let written = Pin::new(&mut gate.stream).poll_write_vectored(cx, slices);
        gate.poll_written(cx, written, |written| *written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let gate = self.get_mut();
        let flushed = Pin::new(&mut gate.stream).poll_flush(cx);
        gate.poll_written(cx, flushed, |()| 0)
    }

    /// Flushes only. The connection closes the stream, so that the last answer is not lost.
    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_flush(cx)
    }
}
