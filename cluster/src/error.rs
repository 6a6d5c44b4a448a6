//! What can go wrong with the private cluster, each in one line that names the remedy.

use std::io;
use std::path::{Path, PathBuf};

/// Why the cluster could not be made, started, joined or stopped.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// No usable programs on this machine.
    #[error(
        "PostgreSQL's programs (initdb and postgres, version {} or newer) were not found: install the package `postgresql` (apt) or `postgresql-server` (dnf), or set FIRMFORMS_PG_BIN to the folder that holds them",
        crate::programs::OLDEST_VERSION
    )]
    NoPrograms,
    /// The folder that was asked for holds no usable programs.
    #[error(
        "FIRMFORMS_PG_BIN is {}, which does not hold PostgreSQL's initdb and postgres, version {} or newer",
        .0.display(), crate::programs::OLDEST_VERSION
    )]
    NoProgramsIn(PathBuf),
    /// The data was made by a version that is not here.
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
    /// Root cannot run PostgreSQL's server, and there is nobody else.
    #[error(
        "PostgreSQL does not run as root, and there is neither a user `postgres` nor a user `nobody` to run it as: add one"
    )]
    NoAccount,
    /// The data belong to somebody else.
    #[error("{} belongs to user id {owner}: run as that user or as root", .folder.display())]
    NotYours {
        /// The cluster's folder.
        folder: PathBuf,
        /// Whose it is.
        owner: u32,
    },
    /// A folder on the way that the server's account cannot enter.
    #[error(
        "the user `{account}`, who runs PostgreSQL, cannot enter {}: allow it (chmod o+x), or choose another folder", .folder.display()
    )]
    Unsearchable {
        /// The first folder on the way that is shut.
        folder: PathBuf,
        /// Who has to pass.
        account: String,
    },
    /// The data are there and what opens them is not.
    #[error("{} is missing or empty, and the data beside it cannot be opened without it: restore it", .0.display())]
    PasswordLost(PathBuf),
    /// A server that we did not start runs on our data.
    #[error("a PostgreSQL server that was started by hand runs on {}: stop it first", .0.display())]
    StartedByHand(PathBuf),
    /// The server, or the making of its data, ended at once.
    #[error("PostgreSQL did not start: {said} (log: {})", .log.display())]
    DidNotStart {
        /// The end of what it wrote.
        said: String,
        /// Where all of it is.
        log: PathBuf,
    },
    /// A former server is neither usable nor gone.
    #[error("the PostgreSQL server on {} neither answers nor ends (see postgres.log there)", .0.display())]
    Stuck(PathBuf),
    /// The system refused something.
    #[error("{}: {source}", .path.display())]
    Io {
        /// On what.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The server refused something.
    #[error("the private PostgreSQL cluster: {0}")]
    Database(#[from] sqlx::Error),
}

/// Says on which path an operation failed.
pub(crate) trait AtPath<T> {
    fn at(self, path: &Path) -> Result<T, ClusterError>;
}

impl<T, E: Into<io::Error>> AtPath<T> for Result<T, E> {
    fn at(self, path: &Path) -> Result<T, ClusterError> {
        self.map_err(|source| ClusterError::Io { path: path.to_owned(), source: source.into() })
    }
}
