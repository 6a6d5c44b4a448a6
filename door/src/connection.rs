//! One connection, from the first byte to a close that cuts off no answer.

use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use telemetry::request_id::RequestIds;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, copy, sink};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;

use crate::answer::{ConnectionService, SocketPeer};
use crate::exchange::GateFindings;
use crate::gate::Gate;
use crate::refusal::count_refusal;
use crate::roster::ConnectionState;
use crate::settings::{DoorTimeouts, UrlScheme};
use crate::tls::TlsCertificate;

/// The most bytes of a message that hyper buffers. More than a request head has, so that the gate
/// always decides first.
const BUFFER_BYTES: usize = 64 << 10;

/// The data that all connections of a door share.
pub(crate) struct ConnectionContext {
    /// The name of the door in metrics.
    pub(crate) door: &'static str,
    pub(crate) router: Router,
    pub(crate) tls: Option<TlsCertificate>,
    pub(crate) timeouts: DoorTimeouts,
    pub(crate) request_ids: Option<RequestIds>,
    pub(crate) scheme: UrlScheme,
    pub(crate) stop: CancellationToken,
}

/// Serves one connection until it ends.
pub(crate) async fn serve<S>(
    stream: S,
    peer: IpAddr,
    turn: ConnectionState,
    shared: Arc<ConnectionContext>,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send,
{
    let Some(tls) = &shared.tls else {
        return serve_requests(stream, peer, turn, &shared).await;
    };
    if let Some(stream) = tls_handshake(tls.acceptor(), stream, peer, &shared).await {
        serve_requests(stream, peer, turn, &shared).await;
    }
}

async fn tls_handshake<S>(
    acceptor: TlsAcceptor,
    stream: S,
    peer: IpAddr,
    shared: &ConnectionContext,
) -> Option<TlsStream<S>>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let handshake = timeout(shared.timeouts.handshake, acceptor.accept(stream));
    match shared.stop.run_until_cancelled(handshake).await? {
        Ok(Ok(stream)) => Some(stream),
        Ok(Err(error)) => {
            tracing::debug!(%peer, %error, "the TLS handshake failed");
            count_refusal(shared.door, "handshake");
            None
        }
        Err(_) => {
            count_refusal(shared.door, "handshake");
            None
        }
    }
}

/// Answers requests until one side closes the connection.
async fn serve_requests<S>(
    stream: S,
    peer: IpAddr,
    turn: ConnectionState,
    shared: &ConnectionContext,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send,
{
    let exchange = Arc::new(GateFindings::default());
    let gate = Gate::new(stream, shared.door, shared.timeouts, turn.clone(), Arc::clone(&exchange));
    let answering = ConnectionService {
        router: shared.router.clone(),
        door: shared.door,
        peer: SocketPeer(peer),
        timeouts: shared.timeouts,
        exchange,
        request_ids: shared.request_ids.clone(),
        scheme: shared.scheme,
    };
    let service = service_fn(move |request| answering.clone().answer_request(request));
    let mut connection = http1::Builder::new()
        .half_close(true)
        .header_read_timeout(None)
        .max_buf_size(BUFFER_BYTES)
        .serve_connection(TokioIo::new(gate), service);
    let ended = match shared.stop.run_until_cancelled(&mut connection).await {
        Some(ended) => ended,
        None => {
            Pin::new(&mut connection).graceful_shutdown();
            (&mut connection).await
        }
    };
    match ended {
        Ok(()) => {
            close_gently(connection.into_parts().io.into_inner(), &turn, shared.timeouts.linger)
                .await;
        }
        Err(error) => tracing::debug!(%peer, %error, "a connection broke"),
    }
}

/// Closes the sending side. If the caller may still be sending, reads and drops that for a while. A
/// close with unread bytes would destroy the answer on its way (RFC 9112, section 9.6).
async fn close_gently<S>(gate: Gate<S>, turn: &ConnectionState, linger: Duration)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    turn.begin_waiting();
    let (mut stream, may_send) = gate.into_stream();
    let closed = timeout(linger, async {
        stream.shutdown().await?;
        if may_send {
            copy(&mut stream, &mut sink()).await?;
        }
        std::io::Result::Ok(())
    });
    if let Ok(Err(error)) = closed.await {
        tracing::debug!(%error, "the caller closed the connection first");
    }
}

#[cfg(test)]
mod tests;
