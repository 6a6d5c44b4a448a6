//! The hosts of a database, and the one among them that is the primary.
//!
//! - [`url`] reads a connection URL with one host or several, in libpq's form.
//! - [`choice`] chooses among the answers of the hosts. It is pure.
//! - [`DatabaseHosts`] asks all hosts at once, and keeps the chosen one.
//! - [`PrimaryFollower`] leads the pools of a process to a new primary.
//!
//! Only a primary serves. A command that only reads may use a standby.

mod choice;
mod follow;
mod url;

use std::fmt;
use std::time::Duration;

use futures::future::join_all;
use sqlx::postgres::PgConnectOptions;
use sqlx::{Connection, PgConnection};
use tokio::time::timeout;

pub use self::choice::HostState;
use self::choice::{ServerKind, choose_host};
pub use self::follow::PrimaryFollower;
pub use self::url::UrlError;
use crate::failure::Failure;
use crate::life::ServerLife;
use crate::pool::{begin_session, with_keepalives};

/// A host that takes longer to answer counts as away.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// The hosts of one database, and the host in use. The first is in use until one is chosen.
#[derive(Clone)]
pub struct DatabaseHosts {
    hosts: Vec<PgConnectOptions>,
    in_use: usize,
}

/// The state of one host.
#[derive(Debug)]
pub struct HostReport {
    /// The host and its port, or the folder of its socket, and the database.
    pub place: String,
    /// The answer of the host.
    pub state: HostState,
}

/// The reports of all hosts, of which none can be used.
#[derive(Debug)]
pub struct NoPrimary(Vec<HostReport>);

impl std::error::Error for NoPrimary {}

impl From<PgConnectOptions> for DatabaseHosts {
    fn from(host: PgConnectOptions) -> Self {
        Self { hosts: vec![with_keepalives(host)], in_use: 0 }
    }
}

impl fmt::Debug for DatabaseHosts {
    /// Shows no password.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_list().entries(self.hosts.iter().map(server_place)).finish()
    }
}

impl DatabaseHosts {
    /// Returns the options of the host in use.
    #[must_use]
    pub fn options(&self) -> &PgConnectOptions {
        &self.hosts[self.in_use]
    }

    /// Returns the places of all hosts, without passwords, for the log.
    #[must_use]
    pub fn places(&self) -> String {
        self.hosts.iter().map(place_of_database).collect::<Vec<_>>().join(",")
    }

    /// Changes the options of every host.
    #[must_use]
    pub fn with_options(self, change: impl FnMut(PgConnectOptions) -> PgConnectOptions) -> Self {
        Self { hosts: self.hosts.into_iter().map(change).collect(), ..self }
    }

    /// Opens a connection to the host in use. Its commits are durable.
    ///
    /// # Errors
    /// If the host does not answer.
    pub async fn connect(&self) -> Result<PgConnection, sqlx::Error> {
        let mut connection = PgConnection::connect_with(self.options()).await?;
        begin_session(&mut connection).await?;
        Ok(connection)
    }

    /// Finds the primary, and uses it from now on.
    ///
    /// # Errors
    /// [`NoPrimary`].
    pub async fn find_primary(&mut self) -> Result<(), NoPrimary> {
        self.find_host(ServerKind::Primary).await.map(drop)
    }

    /// Finds the primary or, if no host is one, a standby. Uses it from now on, and returns its
    /// report.
    ///
    /// # Errors
    /// [`NoPrimary`], if no host answers.
    pub async fn find_readable(&mut self) -> Result<HostReport, NoPrimary> {
        self.find_host(ServerKind::Any).await
    }

    /// Asks every host for its state.
    pub async fn survey(&self) -> Vec<HostReport> {
        host_reports(&self.hosts, ask_all(&self.hosts, ANSWER_TIMEOUT).await)
    }

    async fn find_host(&mut self, kind: ServerKind) -> Result<HostReport, NoPrimary> {
        let mut reports = self.survey().await;
        let states: Vec<&HostState> = reports.iter().map(|report| &report.state).collect();
        // No earlier primary is known here, so none is too old.
        let Some(chosen) = choose_host(&states, None, kind) else { return Err(NoPrimary(reports)) };
        self.in_use = chosen;
        Ok(reports.swap_remove(chosen))
    }
}

/// The answer of a host, and the connection that it answered on.
struct HostAnswer {
    state: HostState,
    connection: Option<PgConnection>,
}

async fn ask_all(hosts: &[PgConnectOptions], within: Duration) -> Vec<HostAnswer> {
    join_all(hosts.iter().map(|host| ask_host(host, within))).await
}

async fn ask_host(host: &PgConnectOptions, within: Duration) -> HostAnswer {
    let asked = async {
        let mut connection = PgConnection::connect_with(host).await?;
        let life = ServerLife::new(&mut connection).await?;
        Ok((connection, life))
    };
    let late = |late: tokio::time::error::Elapsed| Err(sqlx::Error::Io(late.into()));
    match timeout(within, asked).await.unwrap_or_else(late) {
        Ok((connection, life)) => {
            HostAnswer { state: HostState::new(life), connection: Some(connection) }
        }
        Err(error) => HostAnswer { state: HostState::Away(error), connection: None },
    }
}

fn host_reports(hosts: &[PgConnectOptions], answers: Vec<HostAnswer>) -> Vec<HostReport> {
    let report = |(host, answer): (&PgConnectOptions, HostAnswer)| HostReport {
        place: place_of_database(host),
        state: answer.state,
    };
    hosts.iter().zip(answers).map(report).collect()
}

/// The host and port of a server, or the folder of its socket.
fn server_place(host: &PgConnectOptions) -> String {
    match host.get_socket() {
        Some(folder) => format!("{}:{}", folder.display(), host.get_port()),
        None => format!("{}:{}", host.get_host(), host.get_port()),
    }
}

fn place_of_database(host: &PgConnectOptions) -> String {
    let database = host.get_database().map(|name| format!("/{name}"));
    server_place(host) + &database.unwrap_or_default()
}

impl NoPrimary {
    /// Returns the refusal of a host that does not pass by itself, such as a wrong password.
    #[must_use]
    pub fn refusal(&self) -> Option<&sqlx::Error> {
        self.0.iter().find_map(|report| match &report.state {
            HostState::Away(error) if !Failure::new(error).may_pass() => Some(error),
            _ => None,
        })
    }
}

impl fmt::Display for NoPrimary {
    /// A predicate of the database's name: "has no primary: …".
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [HostReport { place, state: HostState::Away(error) }] = &self.0[..] {
            return write!(formatter, "{} at {place}: {error}", failure_phrase(error));
        }
        let hosts: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        write!(formatter, "has no primary: {}", hosts.join("; "))
    }
}

impl fmt::Display for HostReport {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = &self.place;
        match &self.state {
            HostState::Primary(_) => write!(formatter, "{place} is a primary that is out of date"),
            HostState::Standby(_) => write!(formatter, "{place} is a standby"),
            HostState::Away(error) => {
                write!(formatter, "{place} {}: {error}", failure_phrase(error))
            }
        }
    }
}

/// The words for an error. A host whose error does not pass by itself has answered with a refusal.
fn failure_phrase(error: &sqlx::Error) -> &'static str {
    if Failure::new(error).may_pass() { "does not answer" } else { "refuses the connection" }
}
