//! The private PostgreSQL cluster: a server of our own under the data directory, for a user who has
//! set no `DATABASE_URL`. It runs the PostgreSQL programs of the machine. The first process that
//! opens the cluster starts the server, and the server ends with the last. This crate knows nothing
//! of the stored data.
//!
//! # The parts
//!
//! - `programs` finds PostgreSQL's programs, and never downloads any.
//! - `account` is the user that runs the server, since root cannot.
//! - `files` has the cluster on the disk, and the lock that lets one process join or leave at a
//!   time.
//! - `lifeline` is the pipe that stops the server after its last user.
//! - `server` joins a running server, or starts one under its guard.
//! - `postmaster` reads `postmaster.pid`, and stops a server whose guard was killed.
//! - `seed` has the data that the clusters of tests begin with.
//!
//! # On the disk
//!
//! ```text
//! <data_dir>/postgres.lock       the lock: held while a process joins, starts or leaves
//! <data_dir>/postgres.log        the log; its lock is held by every process of a living server
//! <data_dir>/postgres.password   the password of the database user, 0600
//! <data_dir>/postgres/           0700, of the account that runs the server
//!     data/                      PostgreSQL's own; made as data.new, then renamed
//!     lifeline                   a named pipe, see below
//!     .s.PGSQL.5432              the socket; in /tmp/firmforms-… if this path is too long
//! ```
//!
//! # How the server stops
//!
//! No process has to stop it. Each user holds the lifeline open for writing. The guard, a shell,
//! reads the lifeline. However a user ends (`SIGKILL` too), the kernel closes its end of the pipe.
//! When the last end is closed, the guard reads end of file and stops the server. It does not
//! matter which process started the server. Three rules keep joining and stopping apart:
//!
//! - A process joins, starts or leaves only while it holds the lock on `postgres.lock`.
//! - A process that joins writes a line into the lifeline. Before the guard stops the server, it
//!   moves the lifeline away, so that no process can join any more. Then it reads once more: a line
//!   means that a process has just joined, and the server goes on.
//! - The guard and the server inherit the log with its lock. While that lock is held, one of them
//!   is still alive, and no other server is started.
//!
//! A service manager that signals every process of a service (systemd's default) stops the server
//! before our own drain ends. Let it signal the main process only (`KillMode=mixed`).

mod account;
mod config;
mod error;
mod files;
mod lifeline;
mod postmaster;
mod programs;
mod seed;
mod server;

use std::env;
use std::fmt;
use std::path::{Path, PathBuf};

use nix::unistd::{User, geteuid, mkdtemp};
use sqlx::postgres::{PgConnectOptions, PgSslMode};
use sqlx::{ConnectOptions, Connection};

pub use crate::account::check_owner;
pub use crate::config::{ClusterConfig, Durability};
pub use crate::error::ClusterError;
pub use crate::programs::{PostgresPrograms, find_client_program, find_programs};

use crate::error::AtPath;
use crate::files::{ClusterFiles, DirectoryLifetime, POLL_INTERVAL, PORT};
use crate::postmaster::Postmaster;
use crate::server::RunningServer;

const DATABASE_USER: &str = "firmforms";

/// Our hold on the private cluster. Dropping the value releases the hold without waiting.
pub struct Cluster {
    files: ClusterFiles,
    config: ClusterConfig,
    password: String,
    server: RunningServer,
}

impl Cluster {
    /// Whether the data directory holds the data of a cluster.
    #[must_use]
    pub fn has_data(data_dir: &Path) -> bool {
        files::data_in(data_dir).join("PG_VERSION").exists()
    }

    /// Joins the server that runs in the data directory, or starts one. Makes missing data first.
    pub async fn open(config: &ClusterConfig) -> Result<Self, ClusterError> {
        let files = ClusterFiles::prepare(&config.data_dir, DirectoryLifetime::Kept)?;
        Self::join_or_start(files, config).await
    }

    /// A new cluster for tests, in a temporary directory. The directory is removed at the end, even
    /// if this process is killed.
    pub async fn temporary(
        pg_bin: Option<PathBuf>,
        settings: &[(&str, &str)],
    ) -> Result<Self, ClusterError> {
        Self::temporary_with(None, pg_bin, settings).await
    }

    /// A temporary cluster with the databases of a seed.
    pub async fn temporary_from(
        seed: &Path,
        pg_bin: Option<PathBuf>,
        settings: &[(&str, &str)],
    ) -> Result<Self, ClusterError> {
        Self::temporary_with(Some(seed), pg_bin, settings).await
    }

    async fn temporary_with(
        seed: Option<&Path>,
        pg_bin: Option<PathBuf>,
        settings: &[(&str, &str)],
    ) -> Result<Self, ClusterError> {
        let template = env::temp_dir().join("firmforms-XXXXXX");
        let data_dir = mkdtemp(&template).at_path(&template)?;
        let settings = [("max_connections", "300")].iter().chain(settings);
        let config = ClusterConfig {
            data_dir,
            durability: Durability::ForTests,
            settings: settings.map(|(name, value)| ((*name).into(), (*value).into())).collect(),
            pg_bin,
        };
        let prepare = || {
            let files = ClusterFiles::prepare(&config.data_dir, DirectoryLifetime::Temporary)?;
            seed.map_or(Ok(()), |seed| seed::plant_data(&files, seed))?;
            Ok(files)
        };
        let opened = match prepare() {
            Ok(files) => Self::join_or_start(files, &config).await,
            Err(error) => Err(error),
        };
        opened.inspect_err(|_| drop(std::fs::remove_dir_all(&config.data_dir)))
    }

    async fn join_or_start(
        files: ClusterFiles,
        config: &ClusterConfig,
    ) -> Result<Self, ClusterError> {
        let _turn = files.wait_for_lock().await?;
        let server = server::join_or_start(&files, config).await?;
        let password = files.ensure_password()?;
        Ok(Self { files, config: config.clone(), password, server })
    }

    /// Whether the server accepts connections.
    #[must_use]
    pub fn is_answering(&self) -> bool {
        Postmaster::find_answering(&self.files).is_some()
    }

    /// Starts the server again after it has ended by itself, as on a full disk. A server that is
    /// still recovering is awaited. In the data directory it has the same socket as before.
    pub async fn start_again(&mut self) -> Result<(), ClusterError> {
        let _turn = self.files.wait_for_lock().await?;
        if !self.is_answering() {
            self.server = server::join_or_start(&self.files, &self.config).await?;
        }
        Ok(())
    }

    /// Options to connect to one of the cluster's databases.
    pub fn connect_options(&self, database: &str) -> PgConnectOptions {
        PgConnectOptions::new_without_pgpass()
            .socket(&self.server.socket_folder)
            .port(PORT)
            .username(DATABASE_USER)
            .password(&self.password)
            .database(database)
            .ssl_mode(PgSslMode::Disable)
    }

    /// The data directory.
    pub fn data_dir(&self) -> &Path {
        &self.files.data_dir
    }

    /// Creates a database, unless it exists.
    pub async fn ensure_database(&self, name: &str) -> Result<(), ClusterError> {
        let mut connection = self.connect_options("postgres").connect().await?;
        let known = sqlx::query("select 1 from pg_database where datname = $1").bind(name);
        if known.fetch_optional(&mut connection).await?.is_none() {
            let create = format!(r#"create database "{}""#, name.replace('"', r#""""#));
            let created = sqlx::query(&create).execute(&mut connection).await;
            created.map(drop).or_else(ignore_known_database)?;
        }
        Ok(connection.close().await?)
    }

    /// Stops the server, and stores its data as a seed. No other process may use the cluster.
    pub async fn into_seed(self, seed: &Path) -> Result<(), ClusterError> {
        let files = self.files.clone();
        let password = self.password.clone();
        self.stop().await?;
        seed::store_data(&files, &password, seed)
    }

    /// Releases the hold. Waits until the server has ended, unless another process uses it.
    pub async fn stop(self) -> Result<(), ClusterError> {
        let Self { files, server, .. } = self;
        let _turn = files.wait_for_lock().await?;
        drop(server.hold);
        if lifeline::stays_held(&files.lifeline_path()).await {
            return Ok(());
        }
        if let Some(mut guard) = server.guard {
            return guard.wait().await.map(drop).at_path(&files.data_dir);
        }
        while files.free_log()?.is_none() {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        Ok(())
    }
}

impl fmt::Debug for Cluster {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Cluster").field("files", &self.files).finish_non_exhaustive()
    }
}

/// Two users may create the same database at once. `42P04` and `23505` say that the other was
/// first.
fn ignore_known_database(error: sqlx::Error) -> Result<(), sqlx::Error> {
    match error.as_database_error().and_then(|refusal| refusal.code()).as_deref() {
        Some("42P04" | "23505") => Ok(()),
        _ => Err(error),
    }
}

/// The default data directory: the system's state folder for root, the user's data folder
/// otherwise.
pub fn default_data_dir() -> PathBuf {
    if geteuid().is_root() {
        return PathBuf::from("/var/lib/firmforms");
    }
    let home = || env::var_os("HOME").map(PathBuf::from);
    let listed = || User::from_uid(geteuid()).ok().flatten().map(|user| user.dir);
    let data_home = env::var_os("XDG_DATA_HOME").map(PathBuf::from).filter(|p| p.is_absolute());
    let data_home = data_home.or_else(|| Some(home().or_else(listed)?.join(".local/share")));
    data_home.unwrap_or_else(env::temp_dir).join("firmforms")
}
