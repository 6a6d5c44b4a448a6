//! The databases of a command: opened for work with the operator at the terminal, or looked at as
//! they are.

use anyhow::{Context, anyhow, bail};
use cluster::Cluster;
use eventstore::{DatabaseHosts, HostReport, HostState, connect};
use service::{
    Databases, Installation, KEYRING, MAIN, SERVICE_DATABASES, StorageSettings, System, SystemSetup,
};
use sqlx::{ConnectOptions, PgPool};

use crate::operator;
use crate::output::print_note;

/// The door's URL in a command without doors.
pub(crate) const UNUSED_BASE_URL: &str = "http://127.0.0.1:8080/api/v1";

/// Whether a server of the keyring can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyringPresence {
    /// A server answers.
    Readable,
    /// No host answers.
    Away,
}

/// Opens the service's databases for one command.
pub(crate) async fn open(storage: &StorageSettings) -> anyhow::Result<System> {
    open_installation(storage, Installation::MustExist).await
}

/// Opens the service's databases for one command, and makes what is missing if it may.
pub(crate) async fn open_installation(
    storage: &StorageSettings,
    installation: Installation,
) -> anyhow::Result<System> {
    open_as(storage, installation, SystemSetup::for_commands(UNUSED_BASE_URL)?).await
}

/// Opens the service's databases for a command that calls a target.
pub(crate) async fn open_to_send(
    storage: &StorageSettings,
    setup: SystemSetup,
) -> anyhow::Result<System> {
    open_as(storage, Installation::MustExist, setup).await
}

async fn open_as(
    storage: &StorageSettings,
    installation: Installation,
    setup: SystemSetup,
) -> anyhow::Result<System> {
    let mut databases = Databases::open(storage, SERVICE_DATABASES, installation).await?;
    let wrapping = storage.wrapping_key(installation)?;
    databases.require_primaries().await?;
    let mut system = System::start_on(databases, wrapping, setup, installation).await?;
    system.service.operator = Some(operator::at_terminal(storage, system.main_pool()).await?);
    Ok(system)
}

/// Requires a server of each database that can be read, and tells the operator of a standby.
pub(crate) async fn require_readable(databases: &mut Databases) -> anyhow::Result<()> {
    find_readable(MAIN, &mut databases.main).await?;
    find_readable(KEYRING, &mut databases.keyring).await
}

/// Requires a server of the main database that can be read, and looks for one of the keyring.
/// Tells the operator of a standby. A refusal, such as a wrong password, is an error.
pub(crate) async fn require_main(databases: &mut Databases) -> anyhow::Result<KeyringPresence> {
    find_readable(MAIN, &mut databases.main).await?;
    match databases.keyring.find_readable().await {
        Ok(found) => note_standby(KEYRING, &found),
        Err(none) if none.refusal().is_some() => bail!("{KEYRING} {none}"),
        Err(_) => return Ok(KeyringPresence::Away),
    }
    Ok(KeyringPresence::Readable)
}

/// The main database alone, over one connection and without the keyring. It is read as it is: no
/// migration, no writes. So read-only rights are enough, and a standby will do.
pub(crate) struct MainDatabase {
    pub(crate) pool: PgPool,
    cluster: Option<Cluster>,
}

impl MainDatabase {
    /// Connects to the main database.
    pub(crate) async fn open_from(storage: &StorageSettings) -> anyhow::Result<Self> {
        let (mut main, cluster) = match &storage.database_url {
            Some(main) => (main.parse::<DatabaseHosts>().context("DATABASE_URL")?, None),
            None => {
                let there = Installation::MustExist;
                let databases = Databases::open_private(storage, SERVICE_DATABASES, there).await?;
                (databases.main, databases.cluster)
            }
        };
        find_readable(MAIN, &mut main).await?;
        let quiet = connect(main.options().clone().disable_statement_logging(), 1);
        Ok(Self { pool: quiet, cluster })
    }

    /// Closes the connection, and releases the private cluster.
    pub(crate) async fn close(self) -> anyhow::Result<()> {
        self.pool.close().await;
        match self.cluster {
            Some(cluster) => Ok(cluster.stop().await?),
            None => Ok(()),
        }
    }
}

/// Finds a server to read from.
async fn find_readable(name: &str, database: &mut DatabaseHosts) -> anyhow::Result<()> {
    let found = database.find_readable().await.map_err(|none| anyhow!("{name} {none}"))?;
    note_standby(name, &found);
    Ok(())
}

/// Tells the operator of a standby, which may lack the newest rows.
fn note_standby(name: &str, found: &HostReport) {
    if let HostReport { place, state: HostState::Standby(_) } = found {
        print_note(&format!("note: {place} is a standby of {name}: it may be behind the primary"));
    }
}
