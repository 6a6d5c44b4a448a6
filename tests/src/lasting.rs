//! A cluster whose data outlive its postmaster, so that the server can be started again.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use cluster::{Cluster, ClusterConfig, Durability};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

use crate::database::{Templates, loopback_address, migrate_templates, templates_of};

/// The folder of a cluster. The server is stopped before the folder is removed.
pub(crate) struct LastingFolder(TempDir);

/// A cluster of its own that loses no commit when any of its processes is killed, and whose server
/// is started again after its postmaster. It listens on an address of the loopback, too.
pub async fn lasting_cluster() -> Templates {
    let folder = folder_for_the_server();
    let address = loopback_address();
    // A crash of the machine may lose all.
    let settings =
        [("max_connections", "300"), ("synchronous_commit", "on"), ("listen_addresses", &address)];
    let config = ClusterConfig {
        data_dir: folder.path().to_owned(),
        durability: Durability::ForTests,
        settings: settings.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec(),
        pg_bin: std::env::var_os("FIRMFORMS_PG_BIN").map(Into::into),
    };
    let cluster = Cluster::open(&config).await.unwrap();
    migrate_templates(&cluster).await;
    let mut templates = templates_of(cluster).await;
    templates.lasting = Some(LastingFolder(folder));
    templates.address = Some(address);
    templates
}

/// A folder that another user may enter: PostgreSQL may run as one, and has its own folder in it.
pub(crate) fn folder_for_the_server() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), Permissions::from_mode(0o711)).unwrap();
    folder
}

impl Templates {
    /// Kills the postmaster of a cluster that lasts with `kill -9`, and starts the server again.
    pub async fn kill_postmaster(&mut self) {
        assert!(self.lasting.is_some(), "the data of this cluster go with its server");
        end_postmaster(&self.data(), Signal::SIGKILL);
        // A process that it had just made holds its socket for a moment.
        while self.cluster.is_answering() {
            tokio::task::yield_now().await;
        }
        self.cluster.start_again().await.unwrap();
    }
}

impl Drop for LastingFolder {
    fn drop(&mut self) {
        end_postmaster(&self.0.path().join("postgres/data"), Signal::SIGQUIT);
    }
}

/// Ends the postmaster on this data, if it runs, and waits for its end.
fn end_postmaster(data: &Path, signal: Signal) {
    let file = fs::read_to_string(data.join("postmaster.pid")).unwrap_or_default();
    let Some(pid) = file.lines().next().and_then(|pid| pid.parse().ok()) else { return };
    let name = PathBuf::from(format!("/proc/{pid}/comm"));
    let is_running = || fs::read_to_string(&name).is_ok_and(|name| name.trim() == "postgres");
    if !is_running() {
        return;
    }
    kill(Pid::from_raw(pid), signal).unwrap();
    while is_running() {
        std::thread::yield_now();
    }
}
