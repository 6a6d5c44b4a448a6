//! Callers that ask for large answers without a key, and do not read them.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::ensure;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};

use super::Case;

/// Pipelined requests of one socket: far more bytes of answers than the systems' buffers hold.
const REQUESTS: usize = 20;

/// The receive buffer of a socket: as small as the system allows.
const RECEIVE_BUFFER: u32 = 2_304;

/// The time after which a socket is opened anew, closed or not. A door lets its callers read
/// nothing for about this time.
const HELD: Duration = Duration::from_secs(30);

/// The time between two bytes.
const DRIP: Duration = Duration::from_secs(1);

/// All sockets are open by then.
const OPEN_WITHIN: Duration = Duration::from_secs(120);

/// How a bad caller reads.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Reading {
    /// It reads nothing.
    Nothing,
    /// It reads a byte a second.
    Drip,
}

/// The bad callers of a case.
pub(super) struct BadCallers {
    tasks: JoinSet<()>,
    opened: Arc<AtomicUsize>,
}

impl BadCallers {
    /// Opens all sockets, and waits until each has been open once.
    pub(super) async fn begin(door: SocketAddr, case: Case) -> anyhow::Result<Self> {
        let opened = Arc::new(AtomicUsize::new(0));
        let mut tasks = JoinSet::new();
        for number in 0..case.sockets {
            let address = 2 + u8::try_from(number % usize::from(case.addresses.max(1)))?;
            let from = Ipv4Addr::new(127, 0, 0, address);
            // The first time is longer by a share, so that not all sockets are opened anew at once.
            let share = HELD * u32::try_from(number)? / u32::try_from(case.sockets)?;
            let caller = BadCaller { door, from, reading: case.reading, first_held: HELD + share };
            tasks.spawn(caller.call(Arc::clone(&opened)));
        }
        let began = Instant::now();
        while opened.load(Ordering::Relaxed) < case.sockets {
            ensure!(began.elapsed() < OPEN_WITHIN, "the sockets could not be opened");
            sleep(Duration::from_millis(10)).await;
        }
        Ok(Self { tasks, opened })
    }

    /// Closes all sockets; how often one was opened.
    pub(super) async fn end(mut self) -> usize {
        self.tasks.shutdown().await;
        self.opened.load(Ordering::Relaxed)
    }
}

struct BadCaller {
    door: SocketAddr,
    from: Ipv4Addr,
    reading: Reading,
    first_held: Duration,
}

impl BadCaller {
    async fn call(self, opened: Arc<AtomicUsize>) {
        let mut held = self.first_held;
        loop {
            let until = Instant::now() + held;
            held = HELD;
            if let Ok(stream) = open(self.door, self.from).await {
                opened.fetch_add(1, Ordering::Relaxed);
                self.read(stream, until).await;
            }
            sleep_until(until).await;
        }
    }

    async fn read(&self, mut stream: TcpStream, until: Instant) {
        let drip = async {
            while stream.read_u8().await.is_ok() {
                sleep(DRIP).await;
            }
        };
        match self.reading {
            Reading::Nothing => sleep_until(until).await,
            Reading::Drip => drop(timeout_at(until, drip).await),
        }
    }
}

async fn open(door: SocketAddr, from: Ipv4Addr) -> std::io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.set_recv_buffer_size(RECEIVE_BUFFER)?;
    socket.bind((from, 0).into())?;
    let mut stream = timeout(HELD, socket.connect(door)).await??;
    let request = "GET /docs HTTP/1.1\r\nhost: bad\r\n\r\n".repeat(REQUESTS);
    stream.write_all(request.as_bytes()).await?;
    Ok(stream)
}
