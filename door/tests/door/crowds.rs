//! Many callers that want nothing, and one good caller (case A22).

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use door::{DoorSettings, DoorTimeouts};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::helper::{Caller, HELLO, patiently, serve, with_times};

/// How many sockets there may be in this process, of which each connection has two.
fn descriptors() -> usize {
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap();
    let line = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    line.split_whitespace().nth(3).unwrap().parse().unwrap_or(usize::MAX)
}

async fn idle_sockets(addr: std::net::SocketAddr, count: usize) -> Vec<TcpStream> {
    let mut idle = Vec::new();
    for _ in 0..count {
        idle.push(patiently(TcpStream::connect(addr)).await.unwrap());
    }
    idle
}

/// The test opens 5,000 sockets, or as many as this process may have.
#[tokio::test]
async fn a22_idle_sockets_stop_no_good_caller() {
    let served = serve(DoorSettings::default()).await;
    let count = 5_000.min(descriptors().saturating_sub(500) / 2);
    let mut idle = idle_sockets(served.addr, count).await;
    served.assert_answers().await;
    let mut last = Caller(idle.pop().unwrap());
    last.send(HELLO).await;
    last.answer().await.assert_is(200, "hello");
}

/// A caller that is served stays.
#[tokio::test]
async fn a22_a_full_door_closes_the_idlest() {
    let settings = DoorSettings { connections: 3, ..DoorSettings::default() };
    let served = serve(settings).await;
    let mut busy = served.caller().await;
    busy.send("GET /wait HTTP/1.1\r\nHost: a\r\n\r\n").await;
    served.begun.acquire().await.unwrap().forget();
    let (mut one, mut other) = (served.caller().await, served.caller().await);
    for caller in [&mut one, &mut other] {
        caller.send(HELLO).await;
        caller.answer().await.assert_is(200, "hello");
    }
    one.send(HELLO).await;
    one.answer().await.assert_is(200, "hello");

    served.assert_answers().await;
    other.assert_closed().await;
    one.send(HELLO).await;
    one.answer().await.assert_is(200, "hello");
    served.go_on.add_permits(1);
    busy.answer().await.assert_is(200, "waited");
}

#[tokio::test]
async fn a_busy_door_turns_others_away() {
    let settings = DoorSettings { connections_per_peer: 1, ..DoorSettings::default() };
    let served = serve(settings).await;
    let mut busy = served.caller().await;
    busy.send("GET /wait HTTP/1.1\r\nHost: a\r\n\r\n").await;
    served.begun.acquire().await.unwrap().forget();
    served.caller().await.assert_closed().await;
    served.go_on.add_permits(1);
    busy.answer().await.assert_is(200, "waited");
    drop(busy);
    served.assert_answers().await;
}

/// Many at once come and go: nothing of them is left behind that takes a seat.
#[tokio::test]
async fn seats_are_given_back() {
    let settings = DoorSettings { connections: 8, ..DoorSettings::default() };
    let served = serve(settings).await;
    let mut calls = JoinSet::new();
    for _ in 0..200 {
        let mut caller = served.caller().await;
        calls.spawn(async move {
            caller.send("GET /hello HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").await;
            caller.answer().await.assert_is(200, "hello");
        });
        if calls.len() == 4 {
            calls.join_next().await.unwrap().unwrap();
        }
    }
    calls.join_all().await;
}

/// Another process with a door and room for few sockets.
struct Poor(Child);

impl Poor {
    fn start() -> (Self, std::net::SocketAddr) {
        let mut command = Command::new("sh");
        command.args(["-c", r#"ulimit -n 64; exec "$0" "$@""#]);
        command.arg(std::env::current_exe().unwrap());
        command.args(["--exact", "crowds::another_process", "--nocapture", "--test-threads=1"]);
        command.env("DOOR_TEST_POOR", "1").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let addr = lines.map_while(Result::ok).find_map(|line| {
            let (_, addr) = line.split_once("> ")?;
            addr.parse().ok()
        });
        (Self(child), addr.unwrap())
    }
}

impl Drop for Poor {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test]
async fn a22_without_descriptors_a_door_goes_on() {
    let (_poor, addr) = Poor::start();
    let _idle = idle_sockets(addr, 200).await;
    for _ in 0..3 {
        let mut caller = Caller(TcpStream::connect(addr).await.unwrap());
        caller.send(HELLO).await;
        caller.answer().await.assert_is(200, "hello");
    }
}

/// Not a test: the work of the other process, until its input ends. Its idle callers never leave by
/// themselves.
#[tokio::test]
async fn another_process() {
    if std::env::var_os("DOOR_TEST_POOR").is_none() {
        return;
    }
    let times = DoorTimeouts { first_byte: Duration::from_secs(3_600), ..DoorTimeouts::default() };
    let served = serve(with_times(times)).await;
    println!("> {}", served.addr);
    tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new()))
        .await
        .unwrap()
        .unwrap();
}
