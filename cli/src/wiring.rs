//! Wiring: databases, wrapping key, log and doors put together. The tests start here too.

use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, bail};
use api::Service;
use cluster::Cluster;
use deliverer::outgoing::{Outgoing, OutgoingConfig};
use deliverer::{Courier, Settings};
use domain::address::AllowedTargets;
use eventstore::{Clock, Fence, Store, announce, connect, migrate};
use sqlx::postgres::PgConnectOptions;
use sqlx::{ConnectOptions, Connection, Executor};
use vault::{Entropy, Keyring, SystemEntropy, WrappingKey};

pub use crate::args::{Place, Role, Serve};

/// Connections to the main database for callers.
const CALLERS: u32 = 16;

/// Connections to the main database for workers: callers never take theirs.
const WORKERS: u32 = 10;

/// Connections to the keyring.
const KEYRING_CONNECTIONS: u32 = 8;

/// The two databases, and the private cluster they are in if they are.
pub struct Databases {
    /// The main database.
    pub main: PgConnectOptions,
    /// The keyring.
    pub keyring: PgConnectOptions,
    cluster: Option<Cluster>,
}

/// The names of the two databases in the private cluster.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Names {
    pub(crate) main: &'static str,
    pub(crate) keyring: &'static str,
}

/// Those of the service.
pub(crate) const SERVICE: Names = Names { main: "firmforms", keyring: "firmforms_keyring" };

impl Databases {
    /// Finds the databases that were named, or opens the private cluster.
    pub(crate) async fn open(place: &Place, names: Names) -> anyhow::Result<Self> {
        match (&place.database_url, &place.keyring_url) {
            (Some(main), Some(keyring)) if main != keyring => Ok(Self {
                main: main.parse().context("DATABASE_URL")?,
                keyring: keyring.parse().context("FIRMFORMS_KEYRING_URL")?,
                cluster: None,
            }),
            (Some(_), _) => bail!(
                "with DATABASE_URL, set FIRMFORMS_KEYRING_URL to another database: \
                 the data keys must not be in the main one"
            ),
            (None, _) => Self::private(place, names).await,
        }
    }

    async fn private(place: &Place, names: Names) -> anyhow::Result<Self> {
        let config = cluster::Config {
            data_dir: place.data_dir(),
            durability: cluster::Durability::Durable,
            settings: Vec::new(),
            pg_bin: place.pg_bin.clone(),
        };
        let cluster = Cluster::open(&config).await?;
        cluster.ensure_database(names.main).await?;
        cluster.ensure_database(names.keyring).await?;
        Ok(Self {
            main: cluster.connect(names.main),
            keyring: cluster.connect(names.keyring),
            cluster: Some(cluster),
        })
    }

    /// Opens databases for a run of their own: made anew in the private cluster; those that were
    /// named must be empty.
    pub(crate) async fn new_and_empty(place: &Place, names: Names) -> anyhow::Result<Self> {
        if place.database_url.is_none() {
            let cluster = Self::private(place, SERVICE).await?;
            for name in [names.main, names.keyring] {
                drop_database(&cluster.main, name).await?;
            }
        }
        let databases = Self::open(place, names).await?;
        let used = "select count(*) from pg_class where relname = 'events'";
        let mut connection = databases.main.connect().await?;
        let tables: i64 = sqlx::query_scalar(used).fetch_one(&mut connection).await?;
        connection.close().await?;
        if tables > 0 {
            bail!("the demo wants empty databases");
        }
        Ok(databases)
    }

    /// Databases somebody else keeps.
    #[must_use]
    pub const fn given(main: PgConnectOptions, keyring: PgConnectOptions) -> Self {
        Self { main, keyring, cluster: None }
    }
}

async fn drop_database(beside: &PgConnectOptions, name: &str) -> anyhow::Result<()> {
    let mut connection = beside.connect().await?;
    let statement = format!("drop database if exists {name} with (force)");
    connection.execute(statement.as_str()).await?;
    Ok(connection.close().await?)
}

impl Place {
    /// The data directory.
    pub(crate) fn data_dir(&self) -> PathBuf {
        self.data_dir.clone().unwrap_or_else(cluster::default_data_dir)
    }

    /// The key that wraps all data keys: as given, or from its file, made when there is none.
    pub(crate) fn wrapping_key(&self) -> anyhow::Result<WrappingKey> {
        match &self.wrapping_key {
            Some(text) => parse_key(text).context("FIRMFORMS_WRAPPING_KEY"),
            None => key_from_file(&self.data_dir().join("wrapping.key")),
        }
    }
}

fn parse_key(text: &str) -> anyhow::Result<WrappingKey> {
    let bytes = hex::decode(text.trim()).ok().and_then(|bytes| <[u8; 32]>::try_from(bytes).ok());
    Ok(WrappingKey::new(&bytes.context("not 64 hexadecimal digits")?))
}

fn key_from_file(path: &Path) -> anyhow::Result<WrappingKey> {
    let named = || path.display().to_string();
    if !path.exists() {
        make_key_file(path).with_context(named)?;
    }
    parse_key(&std::fs::read_to_string(path).with_context(named)?).with_context(named)
}

/// Written beside and linked into place, so that of two processes one wins and no half file is read.
fn make_key_file(path: &Path) -> std::io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    // Searchable, not readable: as root, the account that runs PostgreSQL must reach its own folder.
    std::fs::DirBuilder::new().recursive(true).mode(0o711).create(folder)?;
    let draft = folder.join(format!("wrapping.key.{}", std::process::id()));
    let mut file = std::fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&draft)?;
    writeln!(file, "{}", hex::encode(SystemEntropy.secret()))?;
    file.sync_all()?;
    let linked = std::fs::hard_link(&draft, path);
    std::fs::remove_file(&draft)?;
    match linked {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        linked => linked,
    }
}

/// Everything a process works with.
pub struct System {
    /// What the doors work with.
    pub service: Service,
    /// What the deliverer works with.
    pub courier: Courier,
    /// How far the log is settled.
    pub fence: Fence,
    cluster: Option<Cluster>,
}

/// What [`System::start`] is told.
pub struct Plan {
    /// The key that wraps all data keys.
    pub wrapping: WrappingKey,
    /// Private targets opened for development.
    pub allowed: AllowedTargets,
    /// Where integrators reach the public door, ending in `/api/v1`.
    pub base_url: String,
    /// What can be set of the deliverer.
    pub settings: Settings,
}

impl System {
    /// Connects, brings the databases to this version's schema, and puts everything together.
    ///
    /// # Errors
    /// If a database does not answer or cannot be migrated.
    pub async fn start(databases: Databases, plan: Plan) -> anyhow::Result<Self> {
        let pool = connect(databases.main.clone(), CALLERS);
        let workers = connect(databases.main, WORKERS);
        let keyring_pool = connect(databases.keyring, KEYRING_CONNECTIONS);
        let keyring = Keyring::new(keyring_pool, plan.wrapping);
        migrate(&pool).await.context("the main database")?;
        keyring.migrate().await.context("the keyring")?;
        keyring.check_wrapping_key(&SystemEntropy).await.context(
            "the keyring was made with another wrapping key: every process needs the same one",
        )?;
        let clock = Clock::of_database(&pool).await.context("the main database")?;
        let settings = (plan.allowed, plan.base_url, plan.settings);
        let mut system = Self::assemble(store(pool), keyring, clock, settings)?;
        system.courier.store = system.service.store.by(workers.clone());
        system.fence = Fence::new(workers);
        Ok(Self { cluster: databases.cluster, ..system })
    }

    /// Puts everything together on databases that are ready.
    ///
    /// # Errors
    /// If the outgoing client cannot be made.
    pub fn assemble(
        store: Store,
        keyring: Keyring,
        clock: Clock,
        (allowed, base_url, settings): (AllowedTargets, String, Settings),
    ) -> anyhow::Result<Self> {
        let entropy: Arc<dyn Entropy> = Arc::new(SystemEntropy);
        let fence = Fence::new(store.pool().clone());
        let courier = Courier {
            store: store.clone(),
            keyring: keyring.clone(),
            clock: clock.clone(),
            entropy: Arc::clone(&entropy),
            outgoing: Outgoing::new(OutgoingConfig::new(allowed.clone()))?,
            settings,
        };
        let service = Service {
            store,
            keyring,
            clock,
            entropy,
            allowed: Arc::new(allowed),
            base_url: base_url.into(),
        };
        Ok(Self { service, courier, fence, cluster: None })
    }

    /// The main database.
    #[must_use]
    pub const fn pool(&self) -> &sqlx::PgPool {
        self.service.store.pool()
    }

    /// Lets go of the databases; the last to let go of a private cluster stops it.
    ///
    /// # Errors
    /// If the private cluster does not end.
    pub async fn stop(self) -> anyhow::Result<()> {
        announce(self.pool()).await;
        self.pool().close().await;
        self.courier.store.pool().close().await;
        self.service.keyring.close().await;
        if let Some(cluster) = self.cluster {
            cluster.stop().await?;
        }
        Ok(())
    }
}

/// The log, with everything that changes with it, in the order of locks.
#[must_use]
pub fn store(pool: sqlx::PgPool) -> Store {
    let mut with_append = projector::guards();
    with_append.push(Box::new(deliverer::Lanes));
    with_append.extend(projector::tables());
    Store::new(pool, with_append)
}

/// Opens the service's databases for one command.
pub(crate) async fn open(place: &Place) -> anyhow::Result<System> {
    let databases = Databases::open(place, SERVICE).await?;
    let plan = Plan {
        wrapping: place.wrapping_key()?,
        allowed: AllowedTargets::default(),
        base_url: "http://127.0.0.1:8080/api/v1".to_owned(),
        settings: Settings::default(),
    };
    System::start(databases, plan).await
}

/// One TLS stack for the whole process, chosen before anything opens a connection.
///
/// # Errors
/// If one was chosen before.
pub fn install_tls() -> anyhow::Result<()> {
    rustls::crypto::ring::default_provider()
        .install_default()
        .map_err(|_| anyhow::anyhow!("another TLS provider is installed"))
}
