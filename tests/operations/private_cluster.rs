//! `serve` on a private cluster whose server ends by itself.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tests::TestDatabase;
use tokio::time::timeout;

use tests::process::{Listening, get, serving, signal, until};

/// After a full disk nobody started the server again.
#[tokio::test]
async fn serve_restarts_a_private_clusters_dead_server() {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o711)).unwrap();
    let unused = TestDatabase::without_schema().await;
    let mut command = serving(&unused, &[], &[]);
    command.env("FIRMFORMS_DATA_DIR", folder.path());
    command.env_remove("DATABASE_URL").env_remove("FIRMFORMS_KEYRING_URL");
    if let Some(programs) = std::env::var_os("FIRMFORMS_PG_BIN") {
        command.env("FIRMFORMS_PG_BIN", programs);
    }
    let mut served = Listening::new(command).await.until_ready().await;
    let server = || -> Option<i32> {
        let pid = fs::read_to_string(folder.path().join("postgres/data/postmaster.pid")).ok()?;
        pid.lines().next()?.parse().ok()
    };
    let dead = server();
    kill(Pid::from_raw(dead.unwrap()), Signal::SIGKILL).unwrap();
    // The service may be quicker than a look at /readyz that finds nothing.
    let started = async {
        while server().is_none_or(|pid| Some(pid) == dead) {
            get(served.internal, "/livez").await;
        }
    };
    timeout(Duration::from_secs(60), started).await.expect("a server that is started again");
    until(served.internal, "/readyz", 200).await;
    signal(&served.child, Signal::SIGTERM);
    assert!(served.child.wait().await.unwrap().success());
}
