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
}

impl ServerProcess {
    /// All of them.
    pub const ALL: [Self; 4] =
        [Self::Backend, Self::Checkpointer, Self::WalWriter, Self::BackgroundWriter];

    const fn backend_type(self) -> &'static str {
        match self {
            Self::Backend => "client backend",
            Self::Checkpointer => "checkpointer",
            Self::WalWriter => "walwriter",
            Self::BackgroundWriter => "background writer",
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
        let pid = match self {
            Self::Backend => sqlx::query_scalar::<_, i32>("select pg_backend_pid()"),
            Self::Checkpointer | Self::WalWriter | Self::BackgroundWriter => {
                sqlx::query_scalar("select pid from pg_stat_activity where backend_type = $1")
                    .bind(self.backend_type())
            }
        };
        let pid = pid.fetch_one(&mut victim).await.unwrap();
        kill(Pid::from_raw(pid), Signal::SIGKILL).unwrap();
        while witness.ping().await.is_ok() {
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
