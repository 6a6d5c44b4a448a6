//! The receiver: HTTP/1.1 on kept connections. Requests are answered 200 unread, and counted. One
//! thread in a process of its own, so that its CPU is not the service's.
//!
//! The receiver says its port on standard output, then answers each line of its standard input with
//! a [`Tally`] in JSON. `reset` begins a new tally. A number delays all later answers by so many
//! milliseconds. The process ends with its standard input, so with its parent.

use std::collections::HashSet;
use std::io::{BufRead, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use bytes::{Buf, BytesMut};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use uuid::Uuid;

/// The answer of a receiver that is well.
pub(crate) const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";

/// The line that begins a new tally; any other asks for the present one.
pub(crate) const RESET: &str = "reset";

/// The arrivals since the last reset.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(crate) struct Tally {
    pub(crate) requests: u64,
    /// Different values of `X-Service-Delivery`.
    pub(crate) deliveries: u64,
    pub(crate) body_bytes: u64,
    /// From the reset to the last request.
    pub(crate) last_after_seconds: f64,
}

struct Counting {
    tally: Tally,
    seen: HashSet<Uuid>,
    began: Instant,
}

type Shared = Arc<Mutex<Counting>>;

/// Receives until standard input ends.
pub(crate) fn run() -> anyhow::Result<()> {
    let shared = Arc::new(Mutex::new(Counting::new()));
    let asked = Arc::clone(&shared);
    std::thread::spawn(move || {
        // A parent that is gone wants no answer.
        let _ = answer(&asked);
        std::process::exit(0);
    });
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(listen(shared))
}

fn answer(shared: &Shared) -> anyhow::Result<()> {
    for line in std::io::stdin().lock().lines() {
        let tally = {
            let mut counting = shared.lock().unwrap_or_else(PoisonError::into_inner);
            if line? == RESET {
                *counting = Counting::new();
            }
            counting.tally
        };
        say(&serde_json::to_string(&tally)?)?;
    }
    Ok(())
}

/// One line for the run.
pub(crate) fn say(line: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()
}

async fn listen(shared: Shared) -> anyhow::Result<()> {
    // All of 127.0.0.0/8: each subscription has a host of its own.
    let listener = TcpListener::bind("0.0.0.0:0").await?;
    say(&listener.local_addr()?.port().to_string())?;
    loop {
        let (stream, _) = listener.accept().await?;
        let shared = Arc::clone(&shared);
        // A connection that breaks is the sender's to notice.
        tokio::spawn(async move { serve(stream, &shared).await.ok() });
    }
}

async fn serve(mut stream: TcpStream, shared: &Shared) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut buffer = BytesMut::with_capacity(16 * 1024);
    while let Some(request) = next(&mut stream, &mut buffer).await? {
        shared.lock().unwrap_or_else(PoisonError::into_inner).count(&request);
        stream.write_all(ANSWER).await?;
    }
    Ok(())
}

/// The next request of a connection, if it does not end before.
pub(crate) async fn next(
    stream: &mut TcpStream,
    buffer: &mut BytesMut,
) -> std::io::Result<Option<Request>> {
    loop {
        if let Some(request) = Request::first_of(buffer) {
            buffer.advance(request.bytes);
            return Ok(Some(request));
        }
        if stream.read_buf(buffer).await? == 0 {
            return Ok(None);
        }
    }
}

impl Counting {
    fn new() -> Self {
        Self { tally: Tally::default(), seen: HashSet::new(), began: Instant::now() }
    }

    fn count(&mut self, request: &Request) {
        self.tally.requests += 1;
        self.tally.body_bytes += request.body_bytes;
        self.tally.last_after_seconds = self.began.elapsed().as_secs_f64();
        if request.delivery.is_some_and(|id| self.seen.insert(id)) {
            self.tally.deliveries += 1;
        }
    }
}

/// A whole request at the start of the bytes read.
pub(crate) struct Request {
    bytes: usize,
    body_bytes: u64,
    pub(crate) delivery: Option<Uuid>,
}

impl Request {
    fn first_of(buffer: &[u8]) -> Option<Self> {
        let head_bytes = buffer.windows(4).position(|end| end == b"\r\n\r\n")? + 4;
        let head = std::str::from_utf8(&buffer[..head_bytes]).ok()?;
        let header = |wanted: &str| {
            head.lines().find_map(|line| {
                let (name, value) = line.split_once(':')?;
                name.eq_ignore_ascii_case(wanted).then(|| value.trim())
            })
        };
        let body_bytes = header("content-length").map_or(Some(0), |text| text.parse().ok())?;
        let bytes = head_bytes + usize::try_from(body_bytes).ok()?;
        (bytes <= buffer.len()).then(|| Self {
            bytes,
            body_bytes,
            delivery: header("x-service-delivery").and_then(|text| text.parse().ok()),
        })
    }
}
