//! The account that runs the server. PostgreSQL refuses to run as root. A normal user runs the
//! server itself. Root runs it as the owner of the data, else as `postgres`, else as `nobody`.

use std::env;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, fchown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::fcntl::OFlag;
use nix::unistd::{Uid, User, geteuid};

use crate::error::{AtPath, ClusterError};

/// A script that runs as the account. It prints the first of its arguments that the account cannot
/// enter.
const FIRST_SHUT_SCRIPT: &str =
    r#"for folder in "$@"; do cd "$folder" 2>/dev/null || { printf %s "$folder"; exit; }; done"#;

/// The bit of a mode that lets every user write.
const WRITABLE_BY_ALL: u32 = 0o002;

/// The environment variables that PostgreSQL's programs need.
const KEPT_VARIABLES: [&str; 2] = ["PATH", "LD_LIBRARY_PATH"];

/// Requires that a data directory, if it exists, is this process's own or root's, and that not
/// every user may write to it. In a directory of others any file may be a link to a file of root.
///
/// # Errors
/// [`ClusterError::NotYours`], [`ClusterError::OpenToAll`].
pub fn check_owner(data_dir: &Path) -> Result<(), ClusterError> {
    let Ok(metadata) = data_dir.metadata() else {
        return Ok(());
    };
    let owner = Uid::from_raw(metadata.uid());
    if owner != geteuid() && !owner.is_root() {
        return Err(not_yours(data_dir, owner));
    }
    if metadata.mode() & WRITABLE_BY_ALL != 0 {
        return Err(ClusterError::OpenToAll(data_dir.to_owned()));
    }
    Ok(())
}

fn not_yours(folder: &Path, owner: Uid) -> ClusterError {
    ClusterError::NotYours { folder: folder.to_owned(), owner: owner.as_raw() }
}

/// The user that runs the server.
#[derive(Debug, Clone)]
pub(crate) struct ServerAccount {
    user: User,
    ours: bool,
}

impl ServerAccount {
    /// The account for a cluster folder that may exist already.
    pub(crate) fn for_folder(folder: &Path) -> Result<Self, ClusterError> {
        let me = geteuid();
        let owner = folder.metadata().ok().map(|metadata| Uid::from_raw(metadata.uid()));
        if me.is_root() {
            return match owner.filter(|owner| !owner.is_root()) {
                Some(owner) => Self::with_uid(owner),
                None => Self::for_root(),
            };
        }
        match owner.filter(|owner| *owner != me) {
            Some(owner) => Err(not_yours(folder, owner)),
            None => Self::with_uid(me),
        }
    }

    fn for_root() -> Result<Self, ClusterError> {
        ["postgres", "nobody"]
            .into_iter()
            .find_map(|name| User::from_name(name).ok().flatten())
            .map(|user| Self { user, ours: false })
            .ok_or(ClusterError::NoAccount)
    }

    fn with_uid(uid: Uid) -> Result<Self, ClusterError> {
        let user = User::from_uid(uid).ok().flatten();
        user.map(|user| Self { user, ours: uid == geteuid() })
            .ok_or(ClusterError::NoPasswdLine(uid.as_raw()))
    }

    /// A command that will run as this account, with a clean environment. Ours may hold secrets,
    /// and settings meant for psql.
    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.current_dir("/").env_clear();
        command.envs(
            env::vars_os().filter(|(name, _)| KEPT_VARIABLES.iter().any(|kept| name == kept)),
        );
        if !self.ours {
            command.uid(self.user.uid.as_raw()).gid(self.user.gid.as_raw());
        }
        command
    }

    /// Gives a folder to the account, and never what a link leads to. Never for files in a folder
    /// that the account owns already: such a file may be a link.
    pub(crate) fn give_folder(&self, path: &Path) -> Result<(), ClusterError> {
        let mut options = OpenOptions::new();
        options.read(true).custom_flags((OFlag::O_NOFOLLOW | OFlag::O_DIRECTORY).bits());
        options.open(path).at_path(path).and_then(|folder| self.give_file(&folder, path))
    }

    /// Gives an open file to the account.
    pub(crate) fn give_file(&self, file: &File, path: &Path) -> Result<(), ClusterError> {
        if self.ours {
            return Ok(());
        }
        fchown(file, Some(self.user.uid.as_raw()), Some(self.user.gid.as_raw())).at_path(path)
    }

    /// Checks that the account can enter a folder, by entering it as the account. The error names
    /// the folder that is shut.
    pub(crate) fn can_enter(&self, folder: &Path) -> Result<(), ClusterError> {
        let mut way: Vec<&Path> = folder.ancestors().collect();
        way.reverse();
        let mut command = self.command("/bin/sh");
        let output =
            command.args(["-c", FIRST_SHUT_SCRIPT, "sh"]).args(way).output().at_path(folder)?;
        let shut = String::from_utf8_lossy(&output.stdout);
        if shut.is_empty() {
            return Ok(());
        }
        let folder = PathBuf::from(shut.as_ref());
        Err(ClusterError::Unsearchable { folder, account: self.user.name.clone() })
    }
}
