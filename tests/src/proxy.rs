//! A proxy in front of PostgreSQL with the faults of a network: it delays, swallows, resets, loses
//! the answer of a COMMIT, and vanishes. It listens on the loopback, and its server has a Unix or a
//! TCP socket.

use std::future::pending;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use socket2::{SockFilter, SockRef};
use sqlx::ConnectOptions;
use sqlx::postgres::PgConnectOptions;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::sync::watch;

use crate::server_messages::ServerMessages;

/// The instruction of a socket filter (BPF) that keeps no byte of a packet.
const DROP_PACKET: SockFilter = SockFilter::new(0x06, 0, 0, 0);

/// The server's message that it is ready, and in no transaction.
const READY_IDLE: &[u8] = b"Z\0\0\0\x05I";

/// A fault that the proxy causes in the traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing.
    None,
    /// Every answer of the server comes so much later.
    Latency(Duration),
    /// Nothing passes, and neither end is told. Bytes that were sent pass when the fault ends.
    BlackHole,
    /// Every connection is reset, and every new one.
    Reset,
    /// The COMMIT of a transaction in which this text was sent reaches the server and is carried
    /// out; its answer is lost with the connection. A statement without a BEGIN commits by itself.
    ResetAfterCommitOf(&'static str),
    /// Loses the answer to the COMMIT of every transaction that appends.
    ResetAfterCommit,
    /// A connection ends after so many bytes of answers.
    CutAfter(usize),
}

/// A proxy; connections through it end when it is dropped.
pub struct DatabaseProxy {
    at: SocketAddr,
    shared: Arc<Shared>,
}

/// Where a server listens.
#[derive(Debug, Clone)]
enum ServerSocket {
    Unix(PathBuf),
    Tcp(String, u16),
}

/// A connection to the server.
enum ServerStream {
    Unix(UnixStream),
    Tcp(TcpStream),
}

/// How a connection through the proxy ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ConnectionEnd {
    /// Both ends are closed.
    Closed,
    /// The client gets a reset.
    Reset,
    /// Neither end learns of it.
    Vanished,
}

struct Shared {
    server: Mutex<ServerSocket>,
    fault: watch::Sender<Fault>,
    lost_commits: AtomicUsize,
    resets: watch::Sender<usize>,
    /// Counts the cuts of all connections.
    cuts: watch::Sender<usize>,
    /// Counts the times at which all connections vanished.
    vanishings: watch::Sender<usize>,
}

impl DatabaseProxy {
    /// A proxy to the server that listens on this socket.
    pub async fn to(server: &Path) -> Self {
        Self::new(ServerSocket::Unix(server.to_owned())).await
    }

    async fn new(server: ServerSocket) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = listener.local_addr().unwrap();
        let (fault, lost_commits) = (watch::Sender::new(Fault::None), AtomicUsize::new(0));
        let resets = watch::Sender::new(0);
        let [cuts, vanishings] = [(); 2].map(|()| watch::Sender::new(0));
        let server = Mutex::new(server);
        let shared = Arc::new(Shared { server, fault, lost_commits, resets, cuts, vanishings });
        let weak = Arc::downgrade(&shared);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let Some(shared) = weak.upgrade() else { return };
                tokio::spawn(async move { shared.connect(client).await });
            }
        });
        Self { at, shared }
    }

    /// The proxy to the server of this database.
    pub async fn before(database: &PgConnectOptions) -> Self {
        Self::new(socket_of(database)).await
    }

    /// A URL of this database through the proxy.
    #[must_use]
    pub fn url(&self, database: &PgConnectOptions) -> String {
        let mut url = database.to_url_lossy();
        url.set_query(Some("sslmode=disable"));
        url.set_host(Some(&self.at.ip().to_string())).unwrap();
        url.set_port(Some(self.at.port())).unwrap();
        url.into()
    }

    /// New connections go to the server of this database.
    pub fn leads_to(&self, database: &PgConnectOptions) {
        *self.shared.server.lock().unwrap() = socket_of(database);
    }

    /// Ends every connection of now, and none that begins later.
    pub fn cut(&self) {
        self.shared.cuts.send_modify(|cuts| *cuts += 1);
    }

    /// The far end of every connection of now vanishes, for the client and for the server: no byte
    /// passes any more, nothing is closed, and no packet is acknowledged. So TCP's own probes go
    /// unanswered where the connection is a TCP one. New connections pass.
    pub fn vanish(&self) {
        self.shared.vanishings.send_modify(|vanishings| *vanishings += 1);
    }

    /// Where the proxy listens.
    #[must_use]
    pub const fn at(&self) -> SocketAddr {
        self.at
    }

    /// Does this from now on.
    pub fn set(&self, fault: Fault) {
        self.shared.fault.send_replace(fault);
    }

    /// How many answers of a COMMIT were lost so far.
    #[must_use]
    pub fn lost_commits(&self) -> usize {
        self.shared.lost_commits.load(Ordering::SeqCst)
    }

    /// Waits until so many connections were reset.
    pub async fn until_reset(&self, count: usize) {
        let mut resets = self.shared.resets.subscribe();
        let _ = resets.wait_for(|resets| *resets >= count).await;
    }
}

/// The socket of a database's server.
fn socket_of(database: &PgConnectOptions) -> ServerSocket {
    let port = database.get_port();
    match database.get_socket() {
        Some(folder) => ServerSocket::Unix(folder.join(format!(".s.PGSQL.{port}"))),
        None => ServerSocket::Tcp(database.get_host().to_owned(), port),
    }
}

impl ServerSocket {
    async fn connect(self) -> io::Result<ServerStream> {
        match self {
            Self::Unix(path) => Ok(ServerStream::Unix(UnixStream::connect(path).await?)),
            Self::Tcp(host, port) => {
                let stream = TcpStream::connect((host, port)).await?;
                stream.set_nodelay(true)?;
                Ok(ServerStream::Tcp(stream))
            }
        }
    }
}

impl ServerStream {
    fn split(
        &mut self,
    ) -> (Box<dyn AsyncRead + Send + Unpin + '_>, Box<dyn AsyncWrite + Send + Unpin + '_>) {
        match self {
            Self::Unix(stream) => {
                let (read, write) = stream.split();
                (Box::new(read), Box::new(write))
            }
            Self::Tcp(stream) => {
                let (read, write) = stream.split();
                (Box::new(read), Box::new(write))
            }
        }
    }

    /// The kernel drops all later packets and acknowledges none. A Unix socket has no packets.
    fn fall_silent(&self) {
        match self {
            Self::Unix(_) => {}
            Self::Tcp(stream) => drop_packets(stream),
        }
    }
}

fn drop_packets(stream: &TcpStream) {
    SockRef::from(stream).attach_filter(&[DROP_PACKET]).unwrap();
}

impl Shared {
    async fn connect(&self, mut client: TcpStream) {
        let mut cuts = self.cuts.subscribe();
        let mut vanishings = self.vanishings.subscribe();
        let server = self.server.lock().unwrap().clone();
        let Ok(mut server) = server.connect().await else { return };
        let _ = client.set_nodelay(true);
        let is_meant = watch::Sender::new(false);
        let end = {
            let (from_client, to_client) = client.split();
            let (from_server, to_server) = server.split();
            let reset = self.reset();
            tokio::select! {
                _ = self.questions(from_client, to_server, &is_meant) => ConnectionEnd::Closed,
                end = self.answers(from_server, to_client, &is_meant) => {
                    end.unwrap_or(ConnectionEnd::Closed)
                }
                () = reset => ConnectionEnd::Reset,
                Ok(()) = cuts.changed() => ConnectionEnd::Reset,
                Ok(()) = vanishings.changed() => ConnectionEnd::Vanished,
            }
        };
        match end {
            ConnectionEnd::Closed => {}
            ConnectionEnd::Reset => {
                let _ = client.set_zero_linger();
                self.resets.send_modify(|resets| *resets += 1);
            }
            ConnectionEnd::Vanished => {
                drop_packets(&client);
                server.fall_silent();
                // A closed socket would say so to its far end.
                pending::<()>().await;
            }
        }
    }

    async fn reset(&self) {
        let mut fault = self.fault.subscribe();
        let _ = fault.wait_for(|fault| *fault == Fault::Reset).await;
    }

    /// Passes on the client's bytes until it leaves. Notes whether the fault means the transaction.
    async fn questions(
        &self,
        mut client: impl AsyncRead + Unpin,
        mut server: impl AsyncWrite + Unpin,
        is_meant: &watch::Sender<bool>,
    ) -> io::Result<()> {
        let mut bytes = vec![0; 64 * 1024];
        loop {
            let count = client.read(&mut bytes).await?;
            if count == 0 {
                return Ok(());
            }
            self.out_of_the_hole().await;
            let asked = &bytes[..count];
            let has_begun = is_query(asked, "BEGIN");
            is_meant.send_modify(|meant| *meant = !has_begun && *meant || self.is_meant(asked));
            server.write_all(asked).await?;
        }
    }

    /// Passes on the server's bytes until it leaves or the connection must be reset.
    async fn answers(
        &self,
        mut server: impl AsyncRead + Unpin,
        mut client: impl AsyncWrite + Unpin,
        is_meant: &watch::Sender<bool>,
    ) -> io::Result<ConnectionEnd> {
        let (mut bytes, mut passed) = (vec![0; 64 * 1024], 0);
        let mut messages = ServerMessages::default();
        loop {
            let count = server.read(&mut bytes).await?;
            if count == 0 {
                return Ok(ConnectionEnd::Closed);
            }
            self.out_of_the_hole().await;
            passed += count;
            let before_commit = messages.find_commit(&bytes[..count]);
            let fault = *self.fault.borrow();
            let is_meant = *is_meant.borrow();
            let loses_commit = match fault {
                Fault::ResetAfterCommit => true,
                Fault::ResetAfterCommitOf(_) => is_meant,
                _ => false,
            };
            // After a statement of several, the server is ready within the transaction.
            let is_by_itself = loses_commit && is_meant && bytes[..count].ends_with(READY_IDLE);
            let before_commit = before_commit.or(is_by_itself.then_some(0));
            if let Some(before) = before_commit.filter(|_| loses_commit) {
                client.write_all(&bytes[..before]).await?;
                self.lost_commits.fetch_add(1, Ordering::SeqCst);
                return Ok(ConnectionEnd::Reset);
            }
            match fault {
                Fault::Latency(time) => tokio::time::sleep(time).await,
                Fault::CutAfter(limit) if passed > limit => return Ok(ConnectionEnd::Reset),
                Fault::Reset => return Ok(ConnectionEnd::Reset),
                _ => {}
            }
            client.write_all(&bytes[..count]).await?;
        }
    }

    /// Whether the fault is about a transaction in which this is sent.
    fn is_meant(&self, asked: &[u8]) -> bool {
        let has = |text: &str| asked.windows(text.len()).any(|bytes| bytes == text.as_bytes());
        match *self.fault.borrow() {
            Fault::ResetAfterCommitOf(text) => has(text),
            Fault::ResetAfterCommit => has("OccurrenceRecorded") || has("DeliveryAttempted"),
            _ => false,
        }
    }

    async fn out_of_the_hole(&self) {
        let mut fault = self.fault.subscribe();
        let _ = fault.wait_for(|fault| *fault != Fault::BlackHole).await;
    }
}

/// Whether the client asks just this, in a message of its own: as the service begins.
fn is_query(asked: &[u8], text: &str) -> bool {
    asked.first() == Some(&b'Q')
        && asked.get(5..).and_then(|rest| rest.strip_suffix(b"\0")) == Some(text.as_bytes())
}
