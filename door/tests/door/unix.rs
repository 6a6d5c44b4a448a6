//! A door on a Unix socket.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use axum::Router;
use axum::routing::get;
use door::{Door, DoorSettings};
use tokio::net::UnixStream;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::helper::{Caller, HELLO, patiently};

fn serve(path: &Path) -> (JoinHandle<()>, CancellationToken) {
    let door = Door::bind_unix(path).unwrap();
    let stop = CancellationToken::new();
    let router = Router::new().route("/hello", get(async || "hello"));
    (tokio::spawn(door.serve(router, DoorSettings::default(), stop.clone())), stop)
}

async fn assert_answers(path: &Path) {
    let mut caller = Caller(UnixStream::connect(path).await.unwrap());
    caller.send(HELLO).await;
    caller.answer().await.assert_is(200, "hello");
}

/// The door removes its socket when it stops.
#[tokio::test]
async fn unix_sockets_are_for_owner_and_group() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("door.sock");
    let (task, stop) = serve(&path);
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o660);
    assert_answers(&path).await;
    stop.cancel();
    patiently(task).await.unwrap();
    assert!(!path.exists());
}

#[tokio::test]
async fn only_a_left_behind_socket_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("door.sock");
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    let (_task, _stop) = serve(&path);
    assert_answers(&path).await;
    Door::bind_unix(&path).unwrap_err();
    assert_answers(&path).await;
    let file = folder.path().join("file");
    std::fs::write(&file, "precious").unwrap();
    Door::bind_unix(&file).unwrap_err();
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "precious");
}
