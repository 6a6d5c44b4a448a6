//! The real binary as a process of its own, on the databases of a world.

use std::net::SocketAddr;
use std::process::Stdio;
use std::sync::{Arc, Mutex};

use axum::http::StatusCode;
use sqlx::ConnectOptions;
use tests::TestDatabase;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};

/// The real binary, told where the data is.
pub(crate) fn firmforms(database: &TestDatabase) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_firmforms-under-test"));
    command
        .env_clear()
        .env("DATABASE_URL", database.main.to_url_lossy().as_str())
        .env("FIRMFORMS_KEYRING_URL", database.keyring.to_url_lossy().as_str())
        .env("FIRMFORMS_WRAPPING_KEY", "07".repeat(32))
        .kill_on_drop(true);
    command
}

/// A running service.
pub(crate) struct Served {
    pub(crate) child: Child,
    /// Where its public door is.
    pub(crate) public: SocketAddr,
    /// Everything it has logged so far.
    pub(crate) log: Arc<Mutex<String>>,
}

/// A service on free ports, where loopback targets are open.
pub(crate) async fn serve(database: &TestDatabase, arguments: &[&str]) -> Served {
    serve_with(database, arguments, &[]).await
}

/// The same in another environment.
pub(crate) async fn serve_with(
    database: &TestDatabase,
    arguments: &[&str],
    environment: &[(&str, &str)],
) -> Served {
    let mut child = firmforms(database)
        .args(["serve", "--addr", "127.0.0.1:0", "--internal-addr", "127.0.0.1:0"])
        .args(["--allow-targets", "127.0.0.0/8", "--allow-http-targets"])
        .args(arguments)
        .env("NO_COLOR", "1")
        .envs(environment.iter().copied())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let mut public = None;
    while let Some(line) = lines.next_line().await.unwrap() {
        public = public.or_else(|| address(&line));
        if let (true, Some(public)) = (line.ends_with(" INFO ready"), public) {
            let log = Arc::<Mutex<String>>::default();
            let kept = Arc::clone(&log);
            tokio::spawn(async move {
                while let Ok(Some(line)) = lines.next_line().await {
                    kept.lock().unwrap().push_str(&(line + "\n"));
                }
            });
            return Served { child, public, log };
        }
    }
    panic!("the service did not start: {:?}", child.wait().await);
}

/// The public door's address, in the line that tells it.
fn address(line: &str) -> Option<SocketAddr> {
    line.split_whitespace().find_map(|word| word.strip_prefix("public="))?.parse().ok()
}

/// One call on a connection of its own; its status, and all of the answer.
pub(crate) async fn call(
    server: SocketAddr,
    (method, path): (&str, &str),
    key: &str,
    body: &str,
) -> (StatusCode, String) {
    let request = format!(
        "{method} /api/v1{path} HTTP/1.1\r\nHost: test\r\nX-API-Key: {key}\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    let mut stream = TcpStream::connect(server).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap();
    (status, answer)
}
