//! The connection beneath the client, with a bound on each answer of the server.
//!
//! lettre parses the whole answer again with each line, in one go. No time limit fires meanwhile,
//! so a server of many lines would hold the call and its thread.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use lettre::transport::smtp::client::AsyncTokioStream;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;

/// Most lines of an answer. A server that lists its extensions needs some twenty.
const ANSWER_LINES_MAX: usize = 256;

/// Longest answer, in bytes: room for 32 lines of the greatest length (RFC 5321, section
/// 4.5.3.1.5).
const ANSWER_BYTES_MAX: usize = 16 << 10;

/// A connection whose answers are bounded. A write begins another answer.
#[derive(Debug)]
pub(super) struct BoundedStream<S> {
    inner: S,
    peer: SocketAddr,
    /// Bytes to read before those of the server.
    preface: &'static [u8],
    answer: AnswerSize,
}

#[derive(Debug, Default)]
struct AnswerSize {
    lines: usize,
    bytes: usize,
}

impl AnswerSize {
    fn count_bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.bytes += bytes.len();
        self.lines += bytes.iter().filter(|byte| **byte == b'\n').count();
        if self.bytes > ANSWER_BYTES_MAX || self.lines > ANSWER_LINES_MAX {
            return Err(io::Error::other("an answer of the server is too long"));
        }
        Ok(())
    }
}

/// Connects to the host's addresses in order, each with its own time limit.
pub(super) async fn open_tcp(host: &str, port: u16, each: Duration) -> io::Result<TcpStream> {
    let mut failed = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for address in lookup_host((host, port)).await? {
        match timeout(each, TcpStream::connect(address)).await {
            Ok(Ok(tcp)) => return Ok(tcp),
            Ok(Err(error)) => failed = error,
            Err(_) => failed = io::ErrorKind::TimedOut.into(),
        }
    }
    Err(failed)
}

impl<S> BoundedStream<S> {
    pub(super) fn new(inner: S, peer: SocketAddr) -> Self {
        Self { inner, peer, preface: b"", answer: AnswerSize::default() }
    }

    /// A stream that begins with these bytes.
    pub(super) fn with_preface(self, preface: &'static [u8]) -> Self {
        Self { preface, ..self }
    }

    /// The connection without a bound.
    pub(super) fn into_inner(self) -> S {
        self.inner
    }
}

impl<S: AsyncRead + AsyncWrite + Send + Sync + Unpin + std::fmt::Debug> AsyncTokioStream
    for BoundedStream<S>
{
    fn peer_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.peer)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for BoundedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.preface.is_empty() {
            let (now, later) = self.preface.split_at(self.preface.len().min(buffer.remaining()));
            buffer.put_slice(now);
            self.preface = later;
            return Poll::Ready(Ok(()));
        }
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.inner).poll_read(context, buffer))?;
        Poll::Ready(self.answer.count_bytes(&buffer.filled()[before..]))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for BoundedStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.answer = AnswerSize::default();
        Pin::new(&mut self.inner).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}
