//! The errors of the private cluster. Each is one line that names the remedy.

use std::io;
use std::path::{Path, PathBuf};

/// The oldest version that the service supports.
pub(crate) const OLDEST_VERSION: u32 = 14;

/// Why the cluster could not be made, started, joined or stopped.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// No usable programs on this machine.
    #[error(
        "PostgreSQL's programs (initdb and postgres, version {} or newer) were not found: install the package `postgresql` (apt) or `postgresql-server` (dnf), or set FIRMFORMS_PG_BIN to the folder that holds them",
        OLDEST_VERSION
    )]
    NoPrograms,
    /// The folder that was asked for holds no usable programs.
    #[error(
        "FIRMFORMS_PG_BIN is {}, which does not hold PostgreSQL's initdb and postgres, version {} or newer",
        .0.display(), OLDEST_VERSION
    )]
    NoProgramsIn(PathBuf),
    /// No client program of this version on this machine.
    #[error(
        "PostgreSQL's program {name}, version {version_min} or newer, was not found: install the package `postgresql-client` (apt) or `postgresql` (dnf), or set FIRMFORMS_PG_BIN to the folder that holds it"
    )]
    NoClientProgram {
        /// The name of the program.
        name: &'static str,
        /// The oldest version that would do.
        version_min: u32,
    },
    /// A PostgreSQL version made the data that this machine does not have.
    #[error(
        "the data was made by PostgreSQL {made_by}, and only {found} is here: install the package `postgresql-{made_by}` (apt), or set FIRMFORMS_PG_BIN to the folder with version {made_by}"
    )]
    WrongVersion {
        /// The version in the data's `PG_VERSION`.
        made_by: u32,
        /// The newest version found.
        found: u32,
    },
    /// PostgreSQL's programs refuse a user that has no name.
    #[error(
        "user id {0} has no line in /etc/passwd, which PostgreSQL's programs need: add one, or run as a user that has one"
    )]
    NoPasswdLine(u32),
    /// Root cannot run PostgreSQL's server, and no other account exists.
    #[error(
        "PostgreSQL does not run as root, and there is neither a user `postgres` nor a user `nobody` to run it as: add one"
    )]
    NoAccount,
    /// The data belong to another user.
    #[error("{} belongs to user id {owner}: run as that user", .folder.display())]
    NotYours {
        /// The cluster's folder.
        folder: PathBuf,
        /// The owner's user id.
        owner: u32,
    },
    /// Every user may put files into the data directory.
    #[error("every user may write to {}: forbid it (chmod o-w), or name another folder", .0.display())]
    OpenToAll(PathBuf),
    /// A folder on the way that the server's account cannot enter.
    #[error(
        "the user `{account}`, who runs PostgreSQL, cannot enter {}: allow it (chmod o+x), or choose another folder", .folder.display()
    )]
    Unsearchable {
        /// The first folder on the way that is shut.
        folder: PathBuf,
        /// The account that runs the server.
        account: String,
    },
    /// The data exist, but the password that opens them is lost.
    #[error("{} is missing or empty, and the data beside it cannot be opened without it: restore it", .0.display())]
    PasswordLost(PathBuf),
    /// A server that we did not start runs on our data.
    #[error("a PostgreSQL server that was started by hand runs on {}: stop it first", .0.display())]
    StartedByHand(PathBuf),
    /// The server or `initdb` ended at once.
    #[error("PostgreSQL did not start: {said} (log: {})", .log.display())]
    DidNotStart {
        /// The last lines of the log.
        said: String,
        /// The log.
        log: PathBuf,
    },
    /// A former server is neither usable nor gone.
    #[error("the PostgreSQL server on {} neither answers nor ends (see postgres.log there)", .0.display())]
    Stuck(PathBuf),
    /// The system refused something.
    #[error("{}: {source}", .path.display())]
    Io {
        /// The path of the failed operation.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The server refused something.
    #[error("the private PostgreSQL cluster: {0}")]
    Database(#[from] sqlx::Error),
}

/// Adds the path to the error of a failed operation.
pub(crate) trait AtPath<T> {
    fn at_path(self, path: &Path) -> Result<T, ClusterError>;
}

impl<T, E: Into<io::Error>> AtPath<T> for Result<T, E> {
    fn at_path(self, path: &Path) -> Result<T, ClusterError> {
        self.map_err(|source| ClusterError::Io { path: path.to_owned(), source: source.into() })
    }
}
