//! The plain connection before STARTTLS.
//!
//! What was sent in plain text must not be read as if it had come encrypted (RFC 3207, section 6;
//! answers injected before the handshake). lettre keeps what it has read ahead, so nothing is read
//! ahead here: one byte at a time, until this side begins the handshake. What lies unread then is
//! taken for the handshake, and breaks it.

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
    /// Tries the host's addresses in order, each for so long.
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
