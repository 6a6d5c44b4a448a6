//! Receivers on hosts of their own, because limits and fairness count by host: each has an address
//! in 127.0.0.0/8. They are in this process, so arrivals are on the clock of the reporter.

use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::BytesMut;
use serde::Serialize;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::sleep;
use uuid::Uuid;

use crate::receiver::{ANSWER, next};

/// The head of an answer without an end.
const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n\r\n";

/// An answer that asks for a retry.
const REFUSAL: &[u8] = b"HTTP/1.1 500 Internal Server Error\r\ncontent-length: 0\r\n\r\n";

/// The time to a slow answer.
const SLOW_ANSWER_AFTER: Duration = Duration::from_secs(9);

/// How a receiver answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Manner {
    /// 200 at once.
    Well,
    /// 200 after 9 s, a second before a delivery stops waiting.
    Slow,
    /// 500 at once.
    Refusing,
    /// The connection is closed without an answer.
    Down,
    /// Never.
    Silent,
    /// 200, and a byte of the body now and then, without end.
    Drip,
    /// 200, and as much of a body as the connection takes, without end.
    Flood,
    /// One header without end: 40 KiB a second, which is just less than is read of a head in 10 s.
    Head,
}

/// The receivers.
pub(crate) struct Hosts {
    addresses: Vec<SocketAddr>,
    shared: Arc<Shared>,
}

struct Shared {
    manner: Mutex<Manner>,
    arrivals: Mutex<Vec<(Uuid, Instant)>>,
    out: AtomicUsize,
    /// Whether answers that begin together may begin.
    begun: AtomicBool,
}

impl Hosts {
    /// So many, in 127.`network`.0.0/16.
    pub(crate) async fn start(network: u8, count: u8, manner: Manner) -> anyhow::Result<Self> {
        let shared = Arc::new(Shared {
            manner: Mutex::new(manner),
            arrivals: Mutex::default(),
            out: AtomicUsize::new(0),
            begun: AtomicBool::new(false),
        });
        let mut addresses = Vec::new();
        for host in 1..=count {
            let listener = TcpListener::bind((Ipv4Addr::new(127, network, 0, host), 0)).await?;
            addresses.push(listener.local_addr()?);
            tokio::spawn(listen(listener, Arc::clone(&shared)));
        }
        Ok(Self { addresses, shared })
    }

    /// A target on one of them; beyond the last it begins anew.
    pub(crate) fn target(&self, host: usize) -> String {
        format!("http://{}/hook", self.addresses[host % self.addresses.len()])
    }

    /// Answers in another manner from now on.
    pub(crate) fn behave(&self, manner: Manner) {
        *self.shared.manner.lock().unwrap_or_else(PoisonError::into_inner) = manner;
    }

    /// Lets answers with a body begin, which wait for it: so all are out at once.
    pub(crate) fn begin(&self) {
        self.shared.begun.store(true, Ordering::Relaxed);
    }

    /// Requests that have no whole answer, and whose sender still waits.
    pub(crate) fn out(&self) -> usize {
        self.shared.out.load(Ordering::Relaxed)
    }

    /// Requests that arrived so far.
    pub(crate) fn arrived(&self) -> usize {
        self.shared.arrivals.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// The arrivals since the last call, with their times, by the part of their ids that the
    /// reporter knows.
    pub(crate) fn take_arrivals(&self) -> Vec<(Uuid, Instant)> {
        std::mem::take(&mut self.shared.arrivals.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The id of a delivery as if its occurrence had been recorded in 1970.
fn without_time(delivery_id: Uuid) -> Uuid {
    let mut bytes = delivery_id.into_bytes();
    bytes[..6].fill(0);
    Uuid::from_bytes(bytes)
}

async fn listen(listener: TcpListener, shared: Arc<Shared>) {
    while let Ok((stream, _)) = listener.accept().await {
        let shared = Arc::clone(&shared);
        // A connection that breaks is the sender's to notice.
        tokio::spawn(async move { serve(stream, &shared).await.ok() });
    }
}

async fn serve(mut stream: TcpStream, shared: &Shared) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut buffer = BytesMut::with_capacity(4 * 1024);
    while let Some(request) = next(&mut stream, &mut buffer).await? {
        if let Some(delivery_id) = request.delivery {
            let mut arrivals = shared.arrivals.lock().unwrap_or_else(PoisonError::into_inner);
            arrivals.push((without_time(delivery_id), Instant::now()));
        }
        let manner = *shared.manner.lock().unwrap_or_else(PoisonError::into_inner);
        match manner {
            Manner::Well => stream.write_all(ANSWER).await?,
            Manner::Refusing => stream.write_all(REFUSAL).await?,
            Manner::Down => return Ok(()),
            Manner::Slow | Manner::Silent | Manner::Drip | Manner::Flood | Manner::Head => {
                shared.out.fetch_add(1, Ordering::Relaxed);
                answer_until_closed(stream, manner, shared).await;
                shared.out.fetch_sub(1, Ordering::Relaxed);
                return Ok(());
            }
        }
    }
    Ok(())
}

async fn answer_until_closed(mut stream: TcpStream, manner: Manner, shared: &Shared) {
    let (mut reading, mut writing) = stream.split();
    let closed = async {
        let mut more = [0; 64];
        while reading.read(&mut more).await.is_ok_and(|bytes| bytes > 0) {}
    };
    let answer = async {
        // An error here is a sender that is gone.
        match manner {
            Manner::Slow => {
                sleep(SLOW_ANSWER_AFTER).await;
                writing.write_all(ANSWER).await?;
                std::future::pending().await
            }
            Manner::Well | Manner::Refusing | Manner::Down | Manner::Silent => {
                std::future::pending().await
            }
            Manner::Head => {
                writing.write_all(b"HTTP/1.1 200 OK\r\nx-long: ").await?;
                endlessly(&mut writing, 4 << 10, Duration::from_millis(100)).await
            }
            Manner::Drip | Manner::Flood => {
                while !shared.begun.load(Ordering::Relaxed) {
                    sleep(Duration::from_millis(1)).await;
                }
                writing.write_all(HEAD).await?;
                let (bytes, every_ms) =
                    if manner == Manner::Drip { (1, 10) } else { (64 << 10, 0) };
                endlessly(&mut writing, bytes, Duration::from_millis(every_ms)).await
            }
        }
    };
    tokio::select! {
        () = closed => {}
        _ = answer => {}
    }
}

async fn endlessly(
    writing: &mut (impl AsyncWriteExt + Unpin),
    bytes: usize,
    every: Duration,
) -> std::io::Result<Infallible> {
    let piece = vec![b'a'; bytes];
    loop {
        writing.write_all(&piece).await?;
        sleep(every).await;
    }
}
