//! What `postmaster.pid` says about the server, and what to do about one that is no longer ours.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::error::ClusterError;
use crate::place::{ClusterFiles, SOCKET_NAME, remove_if_there};

/// A server that has run here, and may still.
pub(crate) struct Postmaster {
    pid: i32,
    /// The folder of its socket.
    pub(crate) socket_folder: PathBuf,
    ready: bool,
}

impl Postmaster {
    /// The server, if it is ready and takes connections.
    pub(crate) fn answering(place: &ClusterFiles) -> Option<Self> {
        let ready = Self::read(&place.data()).filter(|postmaster| postmaster.ready)?;
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

    /// Whether its process is a PostgreSQL server on this data, as far as we may look: in a container
    /// even root may not see where a process works. A dead one that waits for its parent has no
    /// place any more.
    fn is_running(&self, data: &Path) -> bool {
        let process = PathBuf::from(format!("/proc/{}", self.pid));
        let name = fs::read_to_string(process.join("comm")).unwrap_or_default();
        let here = match fs::read_link(process.join("cwd")) {
            Ok(place) => place == data,
            Err(error) => error.kind() == ErrorKind::PermissionDenied,
        };
        name.trim() == "postgres" && here
    }
}

/// Removes the lock files of a server that has gone without doing so. PostgreSQL copes with them
/// itself, unless another process has the number by now, as is usual in a container.
///
/// Only with the log locked: none of our servers is left.
pub(crate) fn remove_stale_locks(place: &ClusterFiles) -> Result<(), ClusterError> {
    let data = place.data();
    if Postmaster::read(&data).is_some_and(|former| former.is_running(&data)) {
        return Err(ClusterError::StartedByHand(data));
    }
    let socket_lock = place.folder().join(format!("{SOCKET_NAME}.lock"));
    remove_if_there(&data.join("postmaster.pid"))?;
    remove_if_there(&socket_lock)
}

/// Asks a server to stop whose guard was killed and that has no users.
pub(crate) fn stop_orphan(place: &ClusterFiles) {
    let data = place.data();
    let orphan = Postmaster::read(&data).filter(|orphan| orphan.is_running(&data));
    if let Some(orphan) = orphan {
        tracing::warn!(pid = orphan.pid, "stopping a PostgreSQL server that has lost its guard");
        // It may have ended by itself meanwhile; the caller looks again.
        let _ = kill(Pid::from_raw(orphan.pid), Signal::SIGINT);
    }
}
