//! A door: HTTP/1.1 on the open net in front of an [`axum::Router`]. The door handles everything
//! that a caller can do with a socket. It knows nothing of the service behind it.
//!
//! # The cast
//!
//! ```text
//! Door        accepts; gives every connection a task and a seat
//!  └ roster   the seats; when all are taken, evicts the connection that has waited longest
//!  └ connection   one task: TLS handshake, then hyper, then a close that cuts no answer off
//!     └ gate      between socket and hyper: no head reaches hyper unchecked, and none comes late
//!     │  └ head   the check of a request head; a pure decision, without a socket
//!     └ answer    between hyper and the router: the peer's address, the time limit, refusals
//! ```
//!
//! Gate and answer are on the two sides of hyper and share an `exchange`. Through it the gate
//! reports its findings about the current request.
//!
//! # The contract
//!
//! - A request that the router sees had a whole head of at most 16 KiB and 100 lines. The head can
//!   be read in one way only, and arrived in time (cases A21 and A22). Every other request is
//!   refused in JSON, like every error of the service, and the connection is closed.
//! - A request under way is never cut off for the sake of another.
//! - Every wait for a caller has an end: see [`DoorTimeouts`].
//! - No event on one connection, a panic included, ends another connection or the door.

mod answer;
mod connection;
mod deadline;
mod exchange;
mod gate;
mod head;
mod refusal;
mod roster;
mod settings;
mod tls;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{Id, JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

pub use crate::answer::SocketPeer;
pub use crate::settings::{DoorSettings, DoorTimeouts};
pub use crate::tls::{TlsCertificate, TlsError};

use crate::connection::ConnectionContext;
use crate::roster::{ConnectionState, Roster};

/// The wait after the system had no descriptor for a new connection. The door also evicts some
/// waiting connections, so that the rest of the process finds descriptors too.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(50);
const EVICTIONS_PER_FAILURE: usize = 32;

/// An address that is bound and not yet served.
#[derive(Debug)]
pub struct Door {
    listener: TcpListener,
}

impl Door {
    /// Binds an address. Port 0 takes any free port.
    pub async fn bind(addr: SocketAddr) -> io::Result<Self> {
        Ok(Self { listener: TcpListener::bind(addr).await? })
    }

    /// The bound address.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until `stop`. From then on the door takes no connection and closes idle ones.
    /// Requests under way have up to [`DoorTimeouts::drain`] to end.
    pub async fn serve(self, router: Router, settings: DoorSettings, stop: CancellationToken) {
        let Self { listener } = self;
        let drain = settings.timeouts.drain;
        let mut serving = DoorConnections::new(router, settings, stop.clone());
        loop {
            tokio::select! {
                () = stop.cancelled() => break,
                accepted = listener.accept() => match accepted {
                    Ok((stream, peer)) => serving.admit(stream, peer),
                    Err(error) => serving.could_not_accept(&error).await,
                },
                Some(ended) = serving.tasks.join_next_with_id() => serving.forget(ended),
            }
        }
        drop(listener);
        serving.drain(drain).await;
    }
}

/// The connections of a served door.
struct DoorConnections {
    shared: Arc<ConnectionContext>,
    roster: Roster,
    tasks: JoinSet<()>,
}

impl DoorConnections {
    fn new(router: Router, settings: DoorSettings, stop: CancellationToken) -> Self {
        let roster = Roster::new(settings.connections, settings.connections_per_peer);
        let DoorSettings { tls, timeouts: times, request_ids, .. } = settings;
        let shared =
            Arc::new(ConnectionContext { router, tls, timeouts: times, request_ids, stop });
        Self { shared, roster, tasks: JoinSet::new() }
    }

    /// Gives a new connection a seat and a task, or closes it if there is no seat.
    fn admit(&mut self, stream: TcpStream, peer: SocketAddr) {
        let peer = peer.ip().to_canonical();
        if !self.roster.make_room(peer) {
            tracing::debug!(%peer, "turned away: every connection is being served");
            return;
        }
        let turn = ConnectionState::waiting();
        let task = connection::serve(stream, peer, turn.clone(), Arc::clone(&self.shared));
        self.roster.seat(peer, turn, self.tasks.spawn(task));
    }

    /// Handles a failed accept. A caller that gave up early needs no action. Any other failure is a
    /// lack, usually of descriptors, and would return at once. So the longest waiting connections
    /// are evicted.
    async fn could_not_accept(&mut self, error: &io::Error) {
        use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
        if !matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset) {
            let gone = (0..EVICTIONS_PER_FAILURE)
                .take_while(|_| self.roster.evict_longest_waiting())
                .count();
            tracing::warn!(%error, gone, "no connection could be accepted");
            tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
        }
    }

    fn forget(&mut self, ended: Result<(Id, ()), JoinError>) {
        let id = match &ended {
            Ok((id, ())) => *id,
            Err(error) => error.id(),
        };
        self.roster.leave(id);
        if let Err(error) = ended
            && error.is_panic()
        {
            tracing::error!(%error, "a connection ended in a panic");
        }
    }

    async fn drain(mut self, limit: Duration) {
        let ended = async { while self.tasks.join_next().await.is_some() {} };
        if tokio::time::timeout(limit, ended).await.is_err() {
            tracing::warn!(left = self.tasks.len(), "connections were cut off at the stop");
            self.tasks.shutdown().await;
        }
    }
}
