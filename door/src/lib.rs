//! A door: HTTP/1.1 on the open net in front of an [`axum::Router`]. The door handles everything
//! that a caller can do with a socket. It knows nothing of the service behind it.
//!
//! # The cast
//!
//! ```text
//! Door        accepts; gives every connection a task and a seat
//!  └ listener where callers come from: TCP, or a Unix socket
//!  └ roster   the seats; when all are taken, evicts a caller that does not read, or an idle one
//!  └ connection   one task: TLS handshake, then hyper, then a close that cuts no answer off
//!     └ gate      between socket and hyper: no head reaches hyper unchecked, and none comes late
//!     │  └ head   the check of a request head; a pure decision, without a socket
//!     └ answer    between hyper and the router: the peer's address, the time limit, refusals
//! ```
//!
//! Gate and answer are on the two sides of hyper and share an `exchange`. Through it the gate
//! reports its findings about the current request.
//!
//! Apart from a door, `probe` asks one of this machine for its health.
//!
//! # The contract
//!
//! - A request that the router sees had a whole head of at most 16 KiB and 100 lines. The head can
//!   be read in one way only, and arrived in time (cases A21 and A22). Every other request is
//!   refused in JSON, like every error of the service, and the connection is closed.
//! - A request under way is never cut off for the sake of another while its caller reads.
//! - A door never has more descriptors than seats and a few (`EVICTED_MAX`).
//! - Every wait for a caller has an end: see [`DoorTimeouts`].
//! - No event on one connection, a panic included, ends another connection or the door.

mod answer;
mod connection;
mod deadline;
mod exchange;
mod gate;
mod head;
mod listener;
mod probe;
mod refusal;
mod roster;
mod settings;
mod tls;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use telemetry::metrics::DESCRIPTOR_SHORTAGES;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::{Id, JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

pub use crate::answer::SocketPeer;
pub use crate::probe::{ProbeError, ProbedDoor, probe_door};
pub use crate::settings::{DoorSettings, DoorTimeouts, UrlScheme};
pub use crate::tls::{TlsCertificate, TlsError, TlsPaths};

use crate::connection::ConnectionContext;
use crate::listener::{AcceptedStream, DoorListener};
use crate::refusal::{count_evictions, count_refusal};
use crate::roster::{ConnectionState, RoomMade, Roster};

/// The wait after the system had no descriptor for a new connection. The door also evicts some
/// waiting connections, so that the rest of the process finds descriptors too.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(50);
const EVICTIONS_PER_FAILURE: usize = 32;

/// Evicted connections that may still have their descriptors.
const EVICTED_MAX: usize = 32;

/// An address that is bound and not yet served.
#[derive(Debug)]
pub struct Door {
    listener: DoorListener,
}

impl Door {
    /// Binds an address. Port 0 takes any free port.
    pub async fn bind(addr: SocketAddr) -> io::Result<Self> {
        Ok(Self { listener: DoorListener::bind_tcp(addr)? })
    }

    /// Binds a Unix socket, which the owner and the group of the process may use. A socket that a
    /// process left behind is replaced.
    pub fn bind_unix(path: &Path) -> io::Result<Self> {
        Ok(Self { listener: DoorListener::bind_unix(path)? })
    }

    /// The bound address; an error for a Unix socket.
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
                    Ok((stream, peer)) => serving.admit_stream(stream, peer).await,
                    Err(error) => serving.could_not_accept(&error).await,
                },
                Some(ended) = serving.tasks.join_next_with_id() => serving.forget_ended(ended),
            }
        }
        drop(listener);
        serving.drain_connections(drain).await;
    }
}

/// The connections of a served door.
struct DoorConnections {
    shared: Arc<ConnectionContext>,
    roster: Roster,
    tasks: JoinSet<()>,
    tasks_max: usize,
}

impl DoorConnections {
    fn new(router: Router, settings: DoorSettings, stop: CancellationToken) -> Self {
        let roster = Roster::new(settings.connections, settings.connections_per_peer);
        let tasks_max = settings.connections.saturating_add(EVICTED_MAX);
        let DoorSettings { name, tls, timeouts, request_ids, scheme, .. } = settings;
        let shared =
            ConnectionContext { door: name, router, tls, timeouts, request_ids, scheme, stop };
        Self { shared: Arc::new(shared), roster, tasks: JoinSet::new(), tasks_max }
    }

    /// Gives a new connection a seat and a task, or closes it if there is no seat.
    async fn admit_stream(&mut self, stream: AcceptedStream, peer: IpAddr) {
        let peer = peer.to_canonical();
        match self.roster.make_room(peer) {
            RoomMade::Free => {}
            RoomMade::Evicted(evictions) => count_evictions(self.shared.door, evictions),
            RoomMade::None => {
                count_refusal(self.shared.door, "turned_away");
                tracing::debug!(%peer, "turned away: every connection is being served");
                return;
            }
        }
        self.end_evicted().await;
        match stream {
            AcceptedStream::Tcp(stream) => self.serve_stream(stream, peer),
            AcceptedStream::Unix(stream) => self.serve_stream(stream, peer),
        }
    }

    fn serve_stream<S>(&mut self, stream: S, peer: IpAddr)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let state = ConnectionState::waiting();
        let task = connection::serve(stream, peer, state.clone(), Arc::clone(&self.shared));
        self.roster.add_seat(peer, state, self.tasks.spawn(task));
    }

    /// Waits until few evicted connections still have their descriptors. A task drops its socket
    /// before it has ended.
    async fn end_evicted(&mut self) {
        while self.tasks.len() >= self.tasks_max
            && let Some(ended) = self.tasks.join_next_with_id().await
        {
            self.forget_ended(ended);
        }
    }

    /// Handles a failed accept. A caller that gave up early needs no action. Any other failure is a
    /// lack, usually of descriptors, and would return at once. So the longest waiting connections
    /// are evicted.
    async fn could_not_accept(&mut self, error: &io::Error) {
        use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
        if !matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset) {
            DESCRIPTOR_SHORTAGES.count(&[("part", "doors")]);
            let mut evicted = 0;
            while evicted < EVICTIONS_PER_FAILURE
                && let Some(evictions) = self.roster.evict_first()
            {
                count_evictions(self.shared.door, evictions);
                evicted += evictions.count;
            }
            tracing::warn!(%error, evicted, "no connection could be accepted");
            tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
        }
    }

    fn forget_ended(&mut self, ended: Result<(Id, ()), JoinError>) {
        let id = match &ended {
            Ok((id, ())) => *id,
            Err(error) => error.id(),
        };
        self.roster.remove_seat(id);
        if let Err(error) = ended
            && error.is_panic()
        {
            tracing::error!(%error, "a connection ended in a panic");
        }
    }

    async fn drain_connections(mut self, limit: Duration) {
        let ended = async { while self.tasks.join_next().await.is_some() {} };
        if tokio::time::timeout(limit, ended).await.is_err() {
            tracing::warn!(left = self.tasks.len(), "connections were cut off at the stop");
            self.tasks.shutdown().await;
        }
    }
}
