//! Conversations byte by byte, and ones that make no sense, without a network.

use super::*;
use axum::body::Bytes;
use axum::routing::{get, post};
use proptest::prelude::*;
use proptest::sample::select;
use tokio::io::AsyncReadExt;

/// Two good requests on one connection, the first with a body.
const TWO: &[u8] = b"\r\nPOST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello\
    GET /seen HTTP/1.1\r\nHost: a\r\nX-Last: z\r\n\r\n";

/// One with chunks, after which the connection closes.
const CHUNKED: &[u8] = b"POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n\
    3\r\nhel\r\n2;x=y\r\nlo\r\n0\r\nX: y\r\n\r\n";

fn shared() -> ConnectionContext {
    let echo = async |body: Bytes| body;
    let router = Router::new().route("/echo", post(echo)).route("/seen", get(async || "seen"));
    ConnectionContext {
        door: "door",
        router,
        tls: None,
        timeouts: DoorTimeouts::default(),
        request_ids: None,
        scheme: UrlScheme::Http,
        stop: CancellationToken::new(),
    }
}

/// The answers on a connection on which these pieces are sent, each after the one before was read,
/// and then nothing more.
async fn answers_to(pieces: &[&[u8]]) -> String {
    let (here, there) = tokio::io::duplex(1 << 20);
    let (mut reads, mut writes) = tokio::io::split(here);
    let shared = shared();
    let peer = IpAddr::from([192, 0, 2, 1]);
    let serve = serve_requests(there, peer, ConnectionState::waiting(), &shared);
    let send = async {
        for piece in pieces {
            // The door may have refused an earlier piece, and closed.
            let _ = writes.write_all(piece).await;
            tokio::task::yield_now().await;
        }
        let _ = writes.shutdown().await;
    };
    let mut answers = Vec::new();
    let (_, (), read) = tokio::join!(send, serve, reads.read_to_end(&mut answers));
    read.unwrap();
    // Nonsense may happen to be a good request, whose body comes back as it was.
    String::from_utf8_lossy(&answers).into_owned()
}

fn without_dates(answers: &str) -> String {
    answers.split_inclusive("\r\n").filter(|line| !line.starts_with("date: ")).collect()
}

#[tokio::test]
async fn a_request_in_pieces_is_answered_alike() {
    for request in [TWO, CHUNKED] {
        let whole = without_dates(&answers_to(&[request]).await);
        assert!(whole.contains("hello"), "{whole}");
        assert_eq!(whole.contains("seen"), request == TWO, "{whole}");
        for cut in 1..request.len() {
            let (one, other) = request.split_at(cut);
            assert_eq!(without_dates(&answers_to(&[one, other]).await), whole, "cut at {cut}");
        }
        let bytes: Vec<&[u8]> = request.chunks(1).collect();
        assert_eq!(without_dates(&answers_to(&bytes).await), whole);
    }
}

/// Parts of good and bad heads, and of the bodies after them.
const WORDS: &[&[u8]] = &[
    b"GET /seen HTTP/1.1\r\n",
    b"POST /echo HTTP/1.1\r\n",
    b"POST /echo HTTP/1.0\r\n",
    b"GET http://a/seen HTTP/1.1\r\n",
    b"Host: a\r\n",
    b"Host: a\r\n\r\n",
    b"Content-Length: 5\r\n",
    b"Content-Length: 5\r\n\r\nhello",
    b"Transfer-Encoding: chunked\r\n",
    b"Transfer-Encoding: chunked\r\n\r\n",
    b"5\r\nhello\r\n0\r\n\r\n",
    b"5\r\nhell",
    b"fffffffffffffffff\r\n",
    b"Connection: close\r\n",
    b"Connection: keep-alive\r\n",
    b"Upgrade: h2c\r\n",
    b"Expect: 100-continue\r\n",
    b"\r\n",
    b"\n",
    b"\r",
    b" ",
    b"\t",
    b":",
    b"\0",
    b"GET ",
    b"/%",
    b" HTTP/1.1",
    b"X: \xff\r\n",
    b"\xf0\x9f\x98\x80",
];

fn nonsense() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let bytes = proptest::collection::vec(any::<u8>(), 0..64);
    let word = prop_oneof![9 => select(WORDS).prop_map(<[u8]>::to_vec), 1 => bytes];
    proptest::collection::vec(word, 0..16)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..Default::default() })]

    /// No panic, no endless conversation, and no answer of hyper's own making: it would have no
    /// body. So the gate is at least as strict as hyper.
    #[test]
    fn a21_nonsense_gets_our_answer_or_none(pieces in nonsense()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let pieces: Vec<&[u8]> = pieces.iter().map(Vec::as_slice).collect();
        let answers = runtime.block_on(answers_to(&pieces));
        prop_assert!(answers.is_empty() || answers.starts_with("HTTP/1."));
        for refused in answers.match_indices(" 400 Bad Request\r\n").map(|(at, _)| &answers[at..]) {
            let head = refused.split("\r\n\r\n").next().unwrap();
            prop_assert!(!head.contains("content-length: 0"), "{answers}");
        }
    }
}
