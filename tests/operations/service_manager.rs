//! Messages of `serve` to systemd.

use nix::sys::signal::Signal;
use tests::TestDatabase;
use tokio::net::UnixDatagram;

use tests::process::{serve_with, signal};

async fn message(socket: &UnixDatagram) -> String {
    let mut buffer = [0; 512];
    let length = socket.recv(&mut buffer).await.unwrap();
    String::from_utf8_lossy(&buffer[..length]).into_owned()
}

async fn until(socket: &UnixDatagram, part: &str) {
    while !message(socket).await.contains(part) {}
}

#[tokio::test]
async fn systemd_learns_of_readiness_life_and_end() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    let database = TestDatabase::new().await;
    let environment = [("NOTIFY_SOCKET", path.to_str().unwrap()), ("WATCHDOG_USEC", "20000")];
    let serving = serve_with(&database, &["--role", "api"], &environment);
    let (mut served, ()) = tokio::join!(serving, async {
        until(&socket, "STATUS=waiting for the databases").await;
        until(&socket, "READY=1").await;
    });
    until(&socket, "WATCHDOG=1").await;
    until(&socket, "WATCHDOG=1").await;
    signal(&served.child, Signal::SIGTERM);
    until(&socket, "STOPPING=1").await;
    // A full socket would hold up the process.
    drop(socket);
    assert!(served.child.wait().await.unwrap().success());
}
