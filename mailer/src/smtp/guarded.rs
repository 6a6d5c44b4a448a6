//! The plain connection before STARTTLS.
//!
//! An answer in plain text must never count as an encrypted one (RFC 3207, section 6). An attacker
//! could inject such an answer before the handshake, and lettre keeps all bytes that it reads
//! ahead. So this connection reads one byte at a time until the client begins the handshake.
//! Injected bytes then reach the handshake and break it.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use lettre::transport::smtp::client::AsyncTokioStream;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;

/// The first byte of a TLS handshake (RFC 8446, section 5.1); no command begins with it.
const HANDSHAKE_BYTE: u8 = 22;

/// A connection that reads nothing ahead until the handshake.
#[derive(Debug)]
pub(super) struct PreTlsStream {
    tcp: TcpStream,
    in_handshake: bool,
}

impl PreTlsStream {
    /// Connects to the host's addresses in order, each with its own time limit.
    pub(super) async fn connect(host: &str, port: u16, each: Duration) -> io::Result<Self> {
        let mut failed = io::Error::from(io::ErrorKind::AddrNotAvailable);
        for address in lookup_host((host, port)).await? {
            match timeout(each, TcpStream::connect(address)).await {
                Ok(Ok(tcp)) => return Ok(Self { tcp, in_handshake: false }),
                Ok(Err(error)) => failed = error,
                Err(_) => failed = io::ErrorKind::TimedOut.into(),
            }
        }
        Err(failed)
    }
}

impl AsyncTokioStream for PreTlsStream {
    fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.tcp.peer_addr()
    }
}

impl AsyncRead for PreTlsStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let is_plain = !self.in_handshake;
        let tcp = Pin::new(&mut self.tcp);
        if is_plain && buffer.remaining() > 1 {
            let mut byte = [0];
            let mut one = ReadBuf::new(&mut byte);
            ready!(tcp.poll_read(context, &mut one))?;
            buffer.put_slice(one.filled());
            Poll::Ready(Ok(()))
        } else {
            tcp.poll_read(context, buffer)
        }
    }
}

impl AsyncWrite for PreTlsStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.in_handshake |= bytes.first() == Some(&HANDSHAKE_BYTE);
        Pin::new(&mut self.tcp).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_shutdown(context)
    }
}
