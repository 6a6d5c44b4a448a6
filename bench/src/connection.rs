//! One kept connection: HTTP/1.1, one call at a time, and no more of it than the answers need.

use std::io::Write;
use std::net::SocketAddr;

use anyhow::Context;
use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// An open one.
pub(crate) struct Connection {
    stream: TcpStream,
    address: SocketAddr,
    request: Vec<u8>,
    answer: BytesMut,
}

/// How a call was answered.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Answer {
    pub(crate) ok: bool,
    pub(crate) body_bytes: usize,
}

impl Connection {
    pub(crate) async fn open(address: SocketAddr) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let (request, answer) = (Vec::new(), BytesMut::with_capacity(256 << 10));
        Ok(Self { stream, address, request, answer })
    }

    /// Calls, and reads the answer to its end.
    pub(crate) async fn get(&mut self, path: &str, key: &str) -> anyhow::Result<Answer> {
        self.request.clear();
        write!(
            self.request,
            "GET {path} HTTP/1.1\r\nhost: {}\r\nx-api-key: {key}\r\naccept: */*\r\n\r\n",
            self.address
        )?;
        let (answer, head_bytes) = self.answer().await?;
        self.answer.advance(head_bytes + answer.body_bytes);
        Ok(answer)
    }

    /// Reports lines of activity, and reads the answer to its end.
    pub(crate) async fn report(
        &mut self,
        token: &str,
        lines: &[u8],
    ) -> anyhow::Result<(Answer, Bytes)> {
        self.request.clear();
        write!(
            self.request,
            "POST /internal/v1/activity HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {token}\r\n\
             content-type: application/x-ndjson\r\ncontent-length: {}\r\n\r\n",
            self.address,
            lines.len()
        )?;
        self.request.extend_from_slice(lines);
        let (answer, head_bytes) = self.answer().await?;
        self.answer.advance(head_bytes);
        Ok((answer, self.answer.copy_to_bytes(answer.body_bytes)))
    }

    /// Sends the request, and reads until all of the answer is there. Returns the answer and the
    /// length of its head.
    async fn answer(&mut self) -> anyhow::Result<(Answer, usize)> {
        self.stream.write_all(&self.request).await?;
        let (answer, head_bytes) = loop {
            if let Some(head) = head(&self.answer)? {
                break head;
            }
            self.read().await?;
        };
        while self.answer.len() < head_bytes + answer.body_bytes {
            self.read().await?;
        }
        Ok((answer, head_bytes))
    }

    async fn read(&mut self) -> anyhow::Result<()> {
        let bytes = self.stream.read_buf(&mut self.answer).await?;
        (bytes > 0).then_some(()).context("the door closed a connection")
    }
}

/// The head of an answer and its length, if all of it is here.
fn head(answer: &[u8]) -> anyhow::Result<Option<(Answer, usize)>> {
    let Some(end) = answer.windows(4).position(|end| end == b"\r\n\r\n") else {
        return Ok(None);
    };
    let head = std::str::from_utf8(&answer[..end])?;
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let body_bytes = length.context("an answer without a length")?.parse()?;
    Ok(Some((Answer { ok: head.starts_with("HTTP/1.1 20"), body_bytes }, end + 4)))
}
