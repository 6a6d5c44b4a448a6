//! The writing side of the gate. Every byte passes, unless the caller reads nothing for too long.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite};

use super::Gate;

impl<S: AsyncRead + AsyncWrite + Unpin> Gate<S> {
    /// Ends a write that the caller blocks for too long. The system accepts new bytes only when
    /// much of its buffer is free. So a byte now and then is no progress.
    fn poll_written<T>(
        &mut self,
        cx: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.write_deadline.clear();
            return written;
        }
        self.write_deadline.set_once(self.timeouts.write);
        ready!(self.write_deadline.poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
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
        gate.poll_written(cx, written)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let gate = self.get_mut();
        let written = Pin::new(&mut gate.stream).poll_write_vectored(cx, slices);
        gate.poll_written(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let gate = self.get_mut();
        let flushed = Pin::new(&mut gate.stream).poll_flush(cx);
        gate.poll_written(cx, flushed)
    }

    /// Flushes only. The connection closes the stream, so that the last answer is not lost.
    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_flush(cx)
    }
}
