//! Finds and opens the two databases.

use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use cluster::Cluster;
use eventstore::{DatabaseHosts, NoPrimary};
use log::LevelFilter;
use sqlx::ConnectOptions;
use sqlx::postgres::PgConnectOptions;

use crate::installation::Installation;
use crate::storage::StorageSettings;

/// The wait between two looks for the primary of a database.
const RECONNECT_INTERVAL: Duration = Duration::from_millis(500);

/// The name of the main database in the log and in errors.
pub const MAIN: &str = "the main database";

/// The name of the keyring in the log and in errors.
pub const KEYRING: &str = "the keyring";

/// The two databases, and the private cluster if they are in one.
pub struct Databases {
    /// The main database.
    pub main: DatabaseHosts,
    /// The keyring.
    pub keyring: DatabaseHosts,
    /// The private cluster, if both are in one.
    pub cluster: Option<Cluster>,
}

/// The names of the two databases in the private cluster.
#[derive(Debug, Clone, Copy)]
pub struct DatabaseNames {
    /// The main database.
    pub main: &'static str,
    /// The keyring.
    pub keyring: &'static str,
}

/// The databases of the service.
pub const SERVICE_DATABASES: DatabaseNames =
    DatabaseNames { main: "firmforms", keyring: "firmforms_keyring" };

impl Databases {
    /// Finds the databases named by the settings, or opens the private cluster.
    ///
    /// # Errors
    ///
    /// If a URL is none, the keyring is missing, or the private cluster does not start.
    pub async fn open(
        storage: &StorageSettings,
        names: DatabaseNames,
        installation: Installation,
    ) -> anyhow::Result<Self> {
        let found = match (&storage.database_url, &storage.keyring_url) {
            (Some(main), Some(keyring)) if main != keyring => Self {
                main: main.parse().context("DATABASE_URL")?,
                keyring: keyring.parse().context("FIRMFORMS_KEYRING_URL")?,
                cluster: None,
            },
            (Some(_), _) => bail!(
                "with DATABASE_URL, set FIRMFORMS_KEYRING_URL to another database: \
                 the data keys must not be in the main one; an auditor uses a token instead, see \
                 docs/how-to/audit-with-a-token.md"
            ),
            (None, _) => Self::open_private(storage, names, installation).await?,
        };
        Ok(if std::env::var_os("RUST_LOG").is_some() {
            found
        } else {
            found.without_statement_logs()
        })
    }

    /// Logs only slow statements, unless `RUST_LOG` is set. The check whether to log costs time in
    /// each statement.
    fn without_statement_logs(self) -> Self {
        let unlogged = |host: PgConnectOptions| host.log_statements(LevelFilter::Off);
        Self {
            main: self.main.with_options(unlogged),
            keyring: self.keyring.with_options(unlogged),
            ..self
        }
    }

    /// Opens the private cluster in the data directory, and makes the databases that it lacks.
    ///
    /// # Errors
    ///
    /// If there is no cluster and none may be begun, or it does not start.
    pub async fn open_private(
        storage: &StorageSettings,
        names: DatabaseNames,
        installation: Installation,
    ) -> anyhow::Result<Self> {
        let data_dir = storage.data_dir();
        if installation == Installation::MustExist && !Cluster::has_data(&data_dir) {
            cluster::check_owner(&data_dir)?;
            bail!(
                "there is no installation in {}: --data-dir or DATABASE_URL names another, and \
                 `firmforms serve` begins one",
                data_dir.display()
            );
        }
        let config = cluster::ClusterConfig {
            data_dir,
            durability: cluster::Durability::Durable,
            settings: Vec::new(),
            pg_bin: storage.pg_bin.clone(),
        };
        let cluster = Cluster::open(&config).await?;
        cluster.ensure_database(names.main).await?;
        cluster.ensure_database(names.keyring).await?;
        Ok(Self {
            main: cluster.connect_options(names.main).into(),
            keyring: cluster.connect_options(names.keyring).into(),
            cluster: Some(cluster),
        })
    }

    /// Requires the primaries of both databases.
    ///
    /// # Errors
    ///
    /// If a database has no primary.
    pub async fn require_primaries(&mut self) -> anyhow::Result<()> {
        for (name, database) in self.named_hosts() {
            database.find_primary().await.map_err(|none| anyhow!("{name} {none}"))?;
        }
        Ok(())
    }

    /// Waits for the primaries of both databases (case E11). A refusal is an error at once: a wrong
    /// password or a missing database does not pass by itself.
    ///
    /// # Errors
    ///
    /// If a server refuses this login.
    pub async fn wait_for_primaries(&mut self) -> anyhow::Result<()> {
        for (name, database) in self.named_hosts() {
            until_primary(name, database).await?;
        }
        Ok(())
    }

    /// Releases the private cluster. Its last user stops it.
    ///
    /// # Errors
    ///
    /// If the private cluster does not end.
    pub async fn release_cluster(self) -> anyhow::Result<()> {
        match self.cluster {
            Some(cluster) => Ok(cluster.stop().await?),
            None => Ok(()),
        }
    }

    const fn named_hosts(&mut self) -> [(&'static str, &mut DatabaseHosts); 2] {
        [(MAIN, &mut self.main), (KEYRING, &mut self.keyring)]
    }

    /// Databases that the caller keeps.
    #[must_use]
    pub fn from_options(main: PgConnectOptions, keyring: PgConnectOptions) -> Self {
        Self { main: main.into(), keyring: keyring.into(), cluster: None }
    }
}

/// Waits for the primary of one database. The log says why no host is the primary, once for each
/// reason, and when one is.
async fn until_primary(name: &str, database: &mut DatabaseHosts) -> anyhow::Result<()> {
    let mut said = None;
    loop {
        match database.find_primary().await {
            Ok(()) if said.is_some() => {
                tracing::info!("{name} answers");
                return Ok(());
            }
            Ok(()) => return Ok(()),
            Err(none) => say_why(name, &none, &mut said)?,
        }
        tokio::time::sleep(RECONNECT_INTERVAL).await;
    }
}

/// Logs why a database has no primary, unless it was said before. A refusal is an error.
fn say_why(name: &str, none: &NoPrimary, said: &mut Option<String>) -> anyhow::Result<()> {
    if let Some(refusal) = none.refusal() {
        bail!("{name}: {refusal}");
    }
    let why = none.to_string();
    if said.as_ref() != Some(&why) {
        tracing::warn!("{name} {why}: waiting");
        *said = Some(why);
    }
    Ok(())
}
