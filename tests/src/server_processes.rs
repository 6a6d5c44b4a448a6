//! The processes of a PostgreSQL server, killed one at a time. The postmaster lives on: it ends all
//! the others, recovers from the write-ahead log and keeps its start time.

use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use sqlx::postgres::PgConnectOptions;
use sqlx::{ConnectOptions, Connection, PgConnection};
use tokio::time::sleep;

/// From one try to connect to the next.
const AGAIN: Duration = Duration::from_millis(10);

/// A process that PostgreSQL cannot lose without a recovery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerProcess {
    /// An idle session of nobody.
    Backend,
    /// The process that writes checkpoints.
    Checkpointer,
    /// The process that writes the log of asynchronous commits.
    WalWriter,
    /// The process that writes changed pages.
    BackgroundWriter,
    /// The process that starts the workers of autovacuum.
    AutovacuumLauncher,
}

impl ServerProcess {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Backend,
        Self::Checkpointer,
        Self::WalWriter,
        Self::BackgroundWriter,
        Self::AutovacuumLauncher,
    ];

    const fn backend_type(self) -> &'static str {
        match self {
            Self::Backend => "client backend",
            Self::Checkpointer => "checkpointer",
            Self::WalWriter => "walwriter",
            Self::BackgroundWriter => "background writer",
            Self::AutovacuumLauncher => "autovacuum launcher",
        }
    }

    /// Kills this process of the server behind a superuser's database, and waits until the server
    /// has recovered.
    pub async fn kill_in(self, database: &PgConnectOptions) {
        self.kill_unwatched(database).await;
        until_answering(database).await;
    }

    /// Kills this process, and waits only until the server has ended the others.
    pub async fn kill_unwatched(self, database: &PgConnectOptions) {
        let mut witness = until_answering(database).await;
        let mut victim = until_answering(database).await;
        let pid = self.find_in(&mut victim).await;
        kill(Pid::from_raw(pid), Signal::SIGKILL).unwrap();
        while witness.ping().await.is_ok() {
            sleep(AGAIN).await;
        }
    }
}

impl ServerProcess {
    /// Waits for such a process, which starts a moment after the server answers.
    async fn find_in(self, session: &mut PgConnection) -> i32 {
        let statement = match self {
            Self::Backend => "select pg_backend_pid() where $1 = 'client backend'",
            Self::Checkpointer
            | Self::WalWriter
            | Self::BackgroundWriter
            | Self::AutovacuumLauncher => {
                "select pid from pg_stat_activity where backend_type = $1"
            }
        };
        loop {
            let found = sqlx::query_scalar(statement).bind(self.backend_type());
            if let Some(pid) = found.fetch_optional(&mut *session).await.unwrap() {
                return pid;
            }
            sleep(AGAIN).await;
        }
    }
}

/// Waits until the server of this database takes a connection, and returns it.
pub async fn until_answering(database: &PgConnectOptions) -> PgConnection {
    loop {
        if let Ok(mut connection) = database.connect().await
            && connection.ping().await.is_ok()
        {
            return connection;
        }
        sleep(AGAIN).await;
    }
}
