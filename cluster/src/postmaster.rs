//! Reads `postmaster.pid`, and handles a server that no longer has a guard.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::error::ClusterError;
use crate::files::{ClusterFiles, SOCKET_NAME, remove_if_there};

/// A server that was started in the data folder, and may still run.
pub(crate) struct Postmaster {
    pid: i32,
    /// The folder of the server's socket.
    pub(crate) socket_folder: PathBuf,
    ready: bool,
}

impl Postmaster {
    /// The server, if it accepts connections.
    pub(crate) fn find_answering(files: &ClusterFiles) -> Option<Self> {
        let ready = Self::read(&files.data_folder()).filter(|postmaster| postmaster.ready)?;
        UnixStream::connect(ready.socket_folder.join(SOCKET_NAME)).ok().map(|_| ready)
    }

    fn read(data: &Path) -> Option<Self> {
        let text = fs::read_to_string(data.join("postmaster.pid")).ok()?;
        let line = |number: usize| text.lines().nth(number - 1).map(str::trim);
        Some(Self {
            pid: line(1)?.parse().ok()?,
            socket_folder: line(5).unwrap_or_default().into(),
            ready: line(8) == Some("ready"),
        })
    }

    /// Whether the process is a PostgreSQL server on this data. In a container even root may not
    /// see the working directory of a process. A dead process that its parent has not collected has
    /// no working directory.
    fn is_running(&self, data: &Path) -> bool {
        let process = PathBuf::from(format!("/proc/{}", self.pid));
        let name = fs::read_to_string(process.join("comm")).unwrap_or_default();
        let here = match fs::read_link(process.join("cwd")) {
            Ok(folder) => folder == data,
            Err(error) => error.kind() == ErrorKind::PermissionDenied,
        };
        name.trim() == "postgres" && here
    }
}

/// Removes the lock files of a server that was killed. PostgreSQL does so itself, unless another
/// process has the same id by now, as is usual in a container.
///
/// Only while the log is locked: then none of our servers is alive.
pub(crate) fn remove_stale_locks(files: &ClusterFiles) -> Result<(), ClusterError> {
    let data = files.data_folder();
    if Postmaster::read(&data).is_some_and(|former| former.is_running(&data)) {
        return Err(ClusterError::StartedByHand(data));
    }
    let socket_lock = files.folder().join(format!("{SOCKET_NAME}.lock"));
    remove_if_there(&data.join("postmaster.pid"))?;
    remove_if_there(&socket_lock)
}

/// Asks a server without guard and without users to stop.
pub(crate) fn stop_orphan(files: &ClusterFiles) {
    let data = files.data_folder();
    let orphan = Postmaster::read(&data).filter(|orphan| orphan.is_running(&data));
    if let Some(orphan) = orphan {
        tracing::warn!(pid = orphan.pid, "stopping a PostgreSQL server that has lost its guard");
        // The server may have ended meanwhile; the caller looks again.
        let _ = kill(Pid::from_raw(orphan.pid), Signal::SIGINT);
    }
}
