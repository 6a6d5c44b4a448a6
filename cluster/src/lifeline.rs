//! The lifeline: a named pipe. Every user of the server holds the write end open; the guard reads
//! the other end. The kernel closes a user's end when the user ends in any way. The guard reads end
//! of file when the last user has ended. See the crate's documentation.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;

use crate::account::ServerAccount;
use crate::error::{AtPath, ClusterError};
use crate::files::{POLL_INTERVAL, remove_if_there};

/// How often a hold is looked at before it counts as another user's. A child that this process
/// forks has a copy of its own hold until its exec, which comes long before the last look.
const COPY_CHECKS: u32 = 20;

/// One user's write end of the lifeline. The server lives at least as long.
#[derive(Debug)]
pub(crate) struct LifelineHold {
    _pipe: File,
}

/// The result of an attempt to take hold.
pub(crate) enum LifelineState {
    /// The server has one more user.
    Held(LifelineHold),
    /// There is no lifeline: no server runs, or the guard is stopping the server.
    Absent,
    /// The lifeline exists, but its guard was killed.
    Unwatched,
}

/// Takes hold of a running server's lifeline. The line that it writes tells a guard that is just
/// stopping that this process has joined. The caller holds the cluster's lock ([`crate::files`]).
pub(crate) fn take_hold(path: &Path) -> Result<LifelineState, ClusterError> {
    let opened = no_follow_options(OFlag::O_NONBLOCK).write(true).open(path);
    let written = opened.and_then(|mut pipe| pipe.write_all(b"\n").map(|()| pipe));
    match written {
        Ok(pipe) => Ok(LifelineState::Held(LifelineHold { _pipe: pipe })),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(LifelineState::Absent),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(LifelineState::Unwatched),
        Err(error) if error.raw_os_error() == Some(Errno::ENXIO as i32) => {
            Ok(LifelineState::Unwatched)
        }
        Err(error) => Err(error).at_path(path),
    }
}

/// Makes a new lifeline. Returns the first user's hold, and the read end for the guard.
pub(crate) fn make(
    path: &Path,
    account: &ServerAccount,
) -> Result<(LifelineHold, File), ClusterError> {
    remove_if_there(path)?;
    mkfifo(path, Mode::S_IRUSR | Mode::S_IWUSR).at_path(path)?;
    // Opening one end of a pipe waits for the other end. Opening both at once does not wait.
    let both = no_follow_options(OFlag::empty()).read(true).write(true).open(path).at_path(path)?;
    account.give_file(&both, path)?;
    let watched = no_follow_options(OFlag::empty()).read(true).open(path).at_path(path)?;
    let pipe = no_follow_options(OFlag::empty()).write(true).open(path).at_path(path)?;
    Ok((LifelineHold { _pipe: pipe }, watched))
}

/// Whether another user holds the lifeline. A child that this process starts has a copy between
/// its fork and its exec, so only a hold that lasts counts. The caller holds the cluster's lock.
pub(crate) async fn stays_held(path: &Path) -> bool {
    for _ in 0..COPY_CHECKS {
        if !is_held(path) {
            return false;
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    is_held(path)
}

/// Whether anything holds the lifeline. A read of a held pipe gives a byte or would block. A read
/// of a pipe that nobody holds gives none. The caller holds the cluster's lock.
fn is_held(path: &Path) -> bool {
    let read = no_follow_options(OFlag::O_NONBLOCK)
        .read(true)
        .open(path)
        .and_then(|mut pipe| pipe.read(&mut [0]));
    match read {
        Ok(bytes) => bytes > 0,
        Err(error) => error.kind() == ErrorKind::WouldBlock,
    }
}

/// The account owns the folder, so a symbolic link there must not lead root elsewhere.
fn no_follow_options(more: OFlag) -> OpenOptions {
    let mut options = OpenOptions::new();
    options.custom_flags((OFlag::O_NOFOLLOW | more).bits());
    options
}
