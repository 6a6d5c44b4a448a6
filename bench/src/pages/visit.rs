//! A browser with a session, on one kept connection.

use std::net::SocketAddr;
use std::time::Instant;

use anyhow::{Context, ensure};
use api::commands::tokens::{self, HolderRole};
use axum::body::Body;
use axum::http::Request;
use serde_json::json;
use tests::{Answer, Firm, World, raw};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// First visits, which are not counted: connections, plans and caches are new.
const UNCOUNTED: u32 = 3;

/// A browser with a session.
pub(super) struct Visitor {
    door: SocketAddr,
    cookie: String,
}

/// The visits of one screen.
pub(super) struct PageVisits {
    /// Time to the first byte of each visit, in microseconds.
    pub(super) first_bytes_us: Vec<u64>,
    /// Bytes of the page, compressed as browsers get it.
    pub(super) bytes: usize,
}

impl Visitor {
    /// An operator at the console.
    pub(super) async fn of_console(world: &World, door: SocketAddr) -> anyhow::Result<Self> {
        let token = tokens::create(world.service(), "bench", HolderRole::Operator).await?;
        let form = Request::post("/console/sign-in")
            .header("content-type", "application/x-www-form-urlencoded")
            .body(Body::from(format!("token={}", token.token)))?;
        Ok(Self { door, cookie: cookie_of(&world.internal(form).await)? })
    }

    /// The owner of the firm at the portal.
    pub(super) async fn of_portal(
        world: &World,
        firm: &Firm,
        door: SocketAddr,
    ) -> anyhow::Result<Self> {
        let order = Request::post(format!("/internal/v1/firms/{}/portal-links", firm.id))
            .body(Body::from(json!({"member_id": firm.owner}).to_string()))?;
        let ordered = world.internal(order).await;
        let url = ordered.body["url"].as_str().context("no link to the portal")?;
        let path = url.find("/portal").map(|at| &url[at..]).context("no path in the link")?;
        // The process names the cookie by its own URL, which has no TLS.
        let (_, entered) = raw::get(door, path).await.context("no answer of the portal")?;
        let set = entered.lines().find_map(|line| line.strip_prefix("set-cookie: "));
        Ok(Self { door, cookie: pair_of(set.context("no session began at the portal")?) })
    }

    /// Opens a screen so many times.
    pub(super) async fn open(&self, path: &str, visits: u32) -> anyhow::Result<PageVisits> {
        let mut stream = TcpStream::connect(self.door).await?;
        stream.set_nodelay(true)?;
        let request = format!(
            "GET {path} HTTP/1.1\r\nhost: {}\r\ncookie: {}\r\naccept: text/html\r\n\
             accept-encoding: gzip\r\n\r\n",
            self.door, self.cookie
        );
        let (mut first_bytes_us, mut bytes) = (Vec::new(), 0);
        for visit in 0..UNCOUNTED + visits {
            let began = Instant::now();
            stream.write_all(request.as_bytes()).await?;
            let mut answer = Vec::with_capacity(128 << 10);
            ensure!(stream.read_buf(&mut answer).await? > 0, "{path}: the connection was closed");
            let first_byte = began.elapsed();
            bytes = rest(&mut stream, answer).await.with_context(|| path.to_owned())?;
            if visit >= UNCOUNTED {
                first_bytes_us.push(u64::try_from(first_byte.as_micros())?);
            }
        }
        Ok(PageVisits { first_bytes_us, bytes })
    }
}

/// Reads an answer to its end; the bytes of its body.
async fn rest(stream: &mut TcpStream, mut answer: Vec<u8>) -> anyhow::Result<usize> {
    loop {
        if let Some(end) = answer.windows(4).position(|end| end == b"\r\n\r\n") {
            let head = std::str::from_utf8(&answer[..end])?;
            let status = head.lines().next().unwrap_or_default();
            ensure!(status.starts_with("HTTP/1.1 200"), "{status}");
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            let length: usize = length.context("an answer without a length")?.parse()?;
            let missing = (end + 4 + length).saturating_sub(answer.len());
            let mut last = vec![0; missing];
            stream.read_exact(&mut last).await?;
            return Ok(length);
        }
        ensure!(stream.read_buf(&mut answer).await? > 0, "the connection was closed");
    }
}

fn cookie_of(answer: &Answer) -> anyhow::Result<String> {
    let set = answer.headers.get("set-cookie").context("no session began")?;
    Ok(pair_of(set.to_str()?))
}

/// The name and the value of a cookie that is set.
fn pair_of(set: &str) -> String {
    set.split(';').next().unwrap_or_default().to_owned()
}
