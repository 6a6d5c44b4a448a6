//! Callers that do not read their answers, or too slowly (case A22).

use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::routing::get;
use door::{DoorSettings, DoorTimeouts};
use hyper::body::Frame;
use tokio::io::AsyncReadExt;
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::mpsc::unbounded_channel;
use tokio::task::JoinSet;
use tokio::time::interval;

use crate::helper::{Caller, SHORT, Served, patiently, serve_also, with_times};
use crate::times;

const LARGE: &str = "GET /large HTTP/1.1\r\nHost: a\r\n\r\n";

/// More than the system's buffers hold.
const LARGE_BYTES: usize = 16 << 20;

fn large() -> Router {
    let large = Bytes::from(vec![0; LARGE_BYTES]);
    Router::new().route("/large", get(async || large))
}

/// A body that begins and does not go on.
struct Unending(Option<Bytes>);

impl hyper::body::Body for Unending {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        self.0.take().map_or(Poll::Pending, |bytes| Poll::Ready(Some(Ok(Frame::data(bytes)))))
    }
}

/// A caller with a small buffer, whose answer has begun and waits for it.
async fn unread(addr: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4 << 10).unwrap();
    let mut caller = Caller(patiently(socket.connect(addr)).await.unwrap());
    caller.send(LARGE.repeat(8)).await;
    patiently(caller.0.readable()).await.unwrap();
    caller.0
}

async fn crowded() -> (Served, Vec<TcpStream>) {
    let settings = DoorSettings { connections: 32, ..DoorSettings::default() };
    let served = serve_also(large(), settings).await;
    let mut crowd = Vec::new();
    for _ in 0..32 {
        crowd.push(unread(served.addr).await);
    }
    (served, crowd)
}

#[tokio::test]
async fn unread_answers_take_no_callers_seat() {
    let (served, _crowd) = crowded().await;
    for _ in 0..40 {
        served.assert_answers().await;
    }
}

/// Each reads a byte now and then, and has more requests on their way.
#[tokio::test]
async fn dripping_callers_take_no_callers_seat() {
    let (served, crowd) = crowded().await;
    let mut dripping = JoinSet::new();
    for mut caller in crowd {
        dripping.spawn(async move {
            let mut drip = interval(SHORT / 10);
            while caller.read_u8().await.is_ok() {
                drip.tick().await;
            }
        });
    }
    for _ in 0..40 {
        served.assert_answers().await;
    }
}

/// Reads a piece now and then, until the door has let the large answer go.
async fn assert_ended(times: DoorTimeouts, piece_bytes: usize) {
    let (gone, mut is_gone) = unbounded_channel();
    let served = serve_also(times::large(gone), with_times(times)).await;
    let mut caller = unread(served.addr).await;
    let mut pace = interval(SHORT / 10);
    let mut piece = vec![0; piece_bytes];
    let reading = async {
        loop {
            pace.tick().await;
            if !caller.read(&mut piece).await.is_ok_and(|read| read > 0) {
                std::future::pending::<()>().await;
            }
        }
    };
    tokio::select! {
        gone = patiently(is_gone.recv()) => gone.unwrap(),
        () = reading => {}
    }
    served.assert_answers().await;
}

#[tokio::test]
async fn a_dripping_caller_is_ended() {
    assert_ended(DoorTimeouts { write: SHORT * 3, ..DoorTimeouts::default() }, 1).await;
}

/// A reader at a fair rate of an answer that takes too long all the same.
#[tokio::test]
async fn a_large_answer_has_limited_time() {
    assert_ended(DoorTimeouts { answer: SHORT * 3, ..DoorTimeouts::default() }, 4 << 10).await;
}

/// A quick reader of an answer that does not go on.
#[tokio::test]
async fn a_stalled_answer_is_ended() {
    let endless = get(async || Body::new(Unending(Some(Bytes::from_static(b"begun")))));
    let router = Router::new().route("/endless", endless);
    let times = DoorTimeouts { answer: SHORT, ..DoorTimeouts::default() };
    let served = serve_also(router, with_times(times)).await;
    let mut caller = served.caller().await;
    caller.send("GET /endless HTTP/1.1\r\nHost: a\r\n\r\n").await;
    let mut taken = Vec::new();
    let _ = patiently(caller.0.read_to_end(&mut taken)).await;
    let taken = String::from_utf8(taken).unwrap();
    assert!(taken.ends_with("begun\r\n"), "{taken:?}");
}
