//! The files of a cluster and their owners. The server's account owns one folder. Beside it lie our
//! own files: the password, the log and the lock.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::fcntl::OFlag;
use nix::unistd::geteuid;
use rand::TryRng;
use rand::rngs::SysRng;

use crate::account::{ServerAccount, check_owner};
use crate::error::{AtPath, ClusterError};

/// The number in the socket's name.
pub(crate) const PORT: u16 = 5432;

/// The socket's name.
pub(crate) const SOCKET_NAME: &str = ".s.PGSQL.5432";

/// The wait between two looks at the work of another process.
pub(crate) const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// A log that is longer when the server starts is emptied.
const LOG_BYTES_MAX: u64 = 4 << 20;

/// A data directory that is ready for the server's account.
#[derive(Debug, Clone)]
pub(crate) struct ClusterFiles {
    pub(crate) data_dir: PathBuf,
    pub(crate) account: ServerAccount,
    pub(crate) lifetime: DirectoryLifetime,
}

/// Whether the data directory outlives the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DirectoryLifetime {
    Kept,
    Temporary,
}

/// The lock to join, start or leave. One process at a time has it; dropping the value releases it.
pub(crate) struct ClusterLock {
    _lock: File,
}

fn folder_in(data_dir: &Path) -> PathBuf {
    data_dir.join("postgres")
}

/// The data of a cluster, once `initdb` has made them.
pub(crate) fn data_in(data_dir: &Path) -> PathBuf {
    folder_in(data_dir).join("data")
}

impl ClusterFiles {
    /// Makes missing folders, and checks that the account can enter them.
    pub(crate) fn prepare(data_dir: &Path, stay: DirectoryLifetime) -> Result<Self, ClusterError> {
        check_owner(data_dir)?;
        let open_to_account = if geteuid().is_root() { 0o711 } else { 0o700 };
        make_folder(data_dir, open_to_account)?;
        let data_dir = data_dir.canonicalize().at_path(data_dir)?;
        let folder = data_dir.join("postgres");
        let account = ServerAccount::for_folder(&folder)?;
        make_folder(&folder, 0o700)?;
        account.give_folder(&folder)?;
        if stay == DirectoryLifetime::Temporary {
            // The guard runs as the account and removes the directory.
            account.give_folder(&data_dir)?;
        }
        account.can_enter(&folder)?;
        Ok(Self { data_dir, account, lifetime: stay })
    }

    /// The folder that the server's account owns.
    pub(crate) fn folder(&self) -> PathBuf {
        folder_in(&self.data_dir)
    }

    /// The data, once `initdb` has made them.
    pub(crate) fn data_folder(&self) -> PathBuf {
        data_in(&self.data_dir)
    }

    pub(crate) fn lifeline_path(&self) -> PathBuf {
        self.folder().join("lifeline")
    }

    pub(crate) fn log_path(&self) -> PathBuf {
        self.data_dir.join("postgres.log")
    }

    pub(crate) fn password_path(&self) -> PathBuf {
        self.data_dir.join("postgres.password")
    }

    /// Waits for the lock.
    pub(crate) async fn wait_for_lock(&self) -> Result<ClusterLock, ClusterError> {
        let path = self.data_dir.join("postgres.lock");
        let lock = own_options().truncate(false).write(true).open(&path).at_path(&path)?;
        while !try_lock(&lock, &path)? {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        Ok(ClusterLock { _lock: lock })
    }

    /// The log with its lock; `None` while a process of a former server is alive.
    ///
    /// The server and its guard inherit the log as standard output, and the lock with it. The
    /// kernel releases the lock when the last of these processes has ended.
    pub(crate) fn free_log(&self) -> Result<Option<File>, ClusterError> {
        let path = self.log_path();
        let log = own_options().read(true).append(true).open(&path).at_path(&path)?;
        if !try_lock(&log, &path)? {
            return Ok(None);
        }
        if log.metadata().at_path(&path)?.len() > LOG_BYTES_MAX {
            log.set_len(0).at_path(&path)?;
        }
        Ok(Some(log))
    }

    /// The database user's password. The password is made before the data.
    pub(crate) fn ensure_password(&self) -> Result<String, ClusterError> {
        let path = self.password_path();
        let known =
            if path.exists() { fs::read_to_string(&path).at_path(&path)? } else { String::new() };
        if !known.is_empty() {
            return Ok(known);
        }
        if self.data_folder().exists() {
            return Err(ClusterError::PasswordLost(path));
        }
        let password = random_password().at_path(&path)?;
        write_secret(&path, &password)?;
        Ok(password)
    }

    /// Writes the password to a file of the account, which reads and deletes it once.
    pub(crate) fn hand_over(&self, password: &str) -> Result<(), ClusterError> {
        let path = self.folder().join("password");
        let copy = write_secret(&path, password)?;
        self.account.give_file(&copy, &path)
    }
}

/// Root may work in a user's data directory, so a symbolic link there must not lead elsewhere.
fn own_options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.create(true).mode(0o600).custom_flags(OFlag::O_NOFOLLOW.bits());
    options
}

/// Writes a new file that only the owner can read, in place of an old one.
pub(crate) fn write_secret(path: &Path, secret: &str) -> Result<File, ClusterError> {
    remove_if_there(path)?;
    let mut file = own_options().create_new(true).write(true).open(path).at_path(path)?;
    file.write_all(secret.as_bytes()).and_then(|()| file.sync_all()).at_path(path)?;
    Ok(file)
}

pub(crate) fn remove_if_there(path: &Path) -> Result<(), ClusterError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error).at_path(path),
        _ => Ok(()),
    }
}

/// `nix`'s lock would unlock on drop for every process that inherited the lock.
fn try_lock(file: &File, path: &Path) -> Result<bool, ClusterError> {
    match file.try_lock() {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(error).at_path(path),
    }
}

/// Makes a folder with this mode, whatever the umask. An existing folder stays as it is.
fn make_folder(folder: &Path, mode: u32) -> Result<(), ClusterError> {
    if folder.is_dir() {
        return Ok(());
    }
    DirBuilder::new().recursive(true).mode(mode).create(folder).at_path(folder)?;
    fs::set_permissions(folder, Permissions::from_mode(mode)).at_path(folder)
}

/// A new password of 192 bits from the operating system.
fn random_password() -> std::io::Result<String> {
    let mut bytes = [0; 24];
    SysRng.try_fill_bytes(&mut bytes).map_err(std::io::Error::other)?;
    Ok(hex::encode(bytes))
}
