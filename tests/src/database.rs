//! One private cluster per run, a pair of databases per test. Pairs are dropped when enough tests
//! are over: a run would else take 8 GB of disk.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use cluster::Cluster;
use eventstore::{connect, migrate};
use service::roles::make_roles;
use sqlx::postgres::PgConnectOptions;
use sqlx::{ConnectOptions, Connection, Executor};
use tokio::sync::OnceCell;
use vault::{Keyring, WrappingKey};

use crate::lasting::LastingFolder;
use crate::seed::seed;
use crate::standby::kill_server;
use crate::watchdog::Watched;

static SHARED: OnceCell<Templates> = OnceCell::const_new();
static NUMBER: AtomicU32 = AtomicU32::new(1);

/// Pairs of databases that are dropped together: each drop costs the server a checkpoint, and
/// checkpoints after the first find little to write.
const DROPPED_TOGETHER: usize = 10;

/// A cluster whose templates are migrated. It goes with the process, even a killed one, unless it
/// lasts.
pub struct Templates {
    /// The folder of a server that lasts, which is stopped first.
    pub(crate) lasting: Option<LastingFolder>,
    pub(crate) cluster: Cluster,
    /// The address of the loopback that the server listens on.
    pub(crate) address: Option<String>,
    /// The numbers of the databases that no test needs any more.
    done: Arc<Mutex<Vec<u32>>>,
}

/// The databases of one test.
pub struct TestDatabase {
    /// The main database.
    pub main: PgConnectOptions,
    /// The keyring.
    pub keyring: PgConnectOptions,
    _needed: Option<Needed>,
}

/// Databases of a test that is not over.
struct Needed {
    number: u32,
    done: Arc<Mutex<Vec<u32>>>,
    watched: Option<Watched>,
}

impl Drop for Needed {
    fn drop(&mut self) {
        self.done.lock().unwrap().push(self.number);
    }
}

/// A cluster of its own, for tests that hold transactions open or kill the server.
pub async fn own_cluster() -> Templates {
    cluster_with(&[]).await
}

/// A cluster of its own that listens on an address of the loopback, too.
pub async fn tcp_cluster(settings: &[(&str, &str)]) -> Templates {
    let address = loopback_address();
    let settings = [&[("listen_addresses", address.as_str())], settings].concat();
    let cluster = cluster_with(&settings).await;
    Templates { address: Some(address), ..cluster }
}

/// An address that no other server of this machine's tests listens on. All have one port.
pub(crate) fn loopback_address() -> String {
    let [_, _, high, low] = std::process::id().to_be_bytes();
    let number = NUMBER.fetch_add(1, Ordering::Relaxed) % 254 + 1;
    format!("127.{high}.{low}.{number}")
}

/// A cluster of its own with these settings.
pub async fn cluster_with(settings: &[(&str, &str)]) -> Templates {
    let pg_bin: Option<PathBuf> = std::env::var_os("FIRMFORMS_PG_BIN").map(Into::into);
    let seed = seed(pg_bin.as_deref()).await;
    templates_of(Cluster::temporary_from(seed, pg_bin, settings).await.unwrap()).await
}

fn both_templates(cluster: &Cluster) -> TestDatabase {
    TestDatabase::from_main(
        cluster.connect_options("template_main"),
        cluster.connect_options("template_keyring"),
    )
}

/// Makes the template databases of a new cluster.
pub(crate) async fn migrate_templates(cluster: &Cluster) {
    for name in ["template_main", "template_keyring"] {
        cluster.ensure_database(name).await.unwrap();
    }
    both_templates(cluster).migrate().await;
}

/// A cluster that has the template databases.
pub(crate) async fn templates_of(cluster: Cluster) -> Templates {
    if by_roles() {
        let templates = both_templates(&cluster);
        make_roles(&templates.main, &templates.keyring, "firmforms").await.unwrap();
    }
    Templates { lasting: None, cluster, address: None, done: Arc::default() }
}

impl TestDatabase {
    /// Databases that are there, and are not dropped with this.
    #[must_use]
    pub const fn from_main(main: PgConnectOptions, keyring: PgConnectOptions) -> Self {
        Self { main, keyring, _needed: None }
    }

    /// Brings both databases to this build's schema.
    pub async fn migrate(&self) {
        let main = connect(self.main.clone(), 1);
        migrate(&main).await.unwrap();
        main.close().await;
        let keyring = Keyring::new(connect(self.keyring.clone(), 1), wrapping_key());
        keyring.migrate().await.unwrap();
        keyring.close().await;
    }

    /// New, empty databases in the cluster of this run.
    pub async fn new() -> Self {
        SHARED.get_or_init(own_cluster).await.database().await
    }

    /// New, empty databases before any migration.
    pub async fn without_schema() -> Self {
        let of_nothing = ["template0"; 2];
        SHARED.get_or_init(own_cluster).await.copies(of_nothing).await
    }

    /// Keeps these databases for all tests of this run, however long the run takes.
    #[must_use]
    pub fn for_the_run(mut self) -> Self {
        if let Some(needed) = &mut self._needed {
            drop(needed.watched.take());
        }
        self
    }

    /// A copy of databases of the cluster of this run. Ends all connections to the originals.
    pub async fn copy(&self) -> Self {
        let originals = [&self.main, &self.keyring].map(|of| of.get_database().unwrap());
        let templates = SHARED.get_or_init(own_cluster).await;
        let mut connection = templates.maintenance().connect().await.unwrap();
        sqlx::query(
            "select pg_terminate_backend(pid, 10000) from pg_stat_activity where datname = any($1)",
        )
        .bind(originals)
        .execute(&mut connection)
        .await
        .unwrap();
        connection.close().await.unwrap();
        templates.copies(originals).await
    }
}

impl Templates {
    /// Where the server logs.
    #[must_use]
    pub fn log(&self) -> PathBuf {
        self.cluster.data_dir().join("postgres.log")
    }

    /// The database that every server has.
    pub(crate) fn maintenance(&self) -> PgConnectOptions {
        self.cluster.connect_options("postgres")
    }

    /// This database over TCP.
    #[must_use]
    pub fn over_tcp(&self, database: &PgConnectOptions) -> PgConnectOptions {
        let name = database.get_database().unwrap();
        let address = self.address.as_ref().expect("a cluster that listens");
        let mut url = self.cluster.connect_options(name).to_url_lossy();
        url.set_query(Some("sslmode=disable"));
        url.set_host(Some(address)).unwrap();
        url.as_str().parse().unwrap()
    }

    /// The folder of the server's data.
    pub(crate) fn data(&self) -> PathBuf {
        self.cluster.data_dir().join("postgres/data")
    }

    /// Kills the server. It does not come back.
    pub(crate) fn kill(&self) {
        kill_server(&self.data());
    }

    /// New, empty databases in this cluster.
    pub async fn database(&self) -> TestDatabase {
        self.copies(["template_main", "template_keyring"]).await
    }

    async fn copies(&self, templates: [&str; 2]) -> TestDatabase {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let mut connection = self.cluster.connect_options("postgres").connect().await.unwrap();
        for name in self.done_together().iter().flat_map(|number| names(*number)) {
            let drop = format!("drop database if exists {name} with (force)");
            // A database that cannot be dropped goes with the cluster.
            connection.execute(drop.as_str()).await.ok();
        }
        let [main, keyring] = names(number);
        for (name, template) in [&main, &keyring].into_iter().zip(templates) {
            // The copy of the files does not go through the write-ahead log.
            let create = format!("create database {name} template {template} strategy file_copy");
            connection.execute(create.as_str()).await.unwrap();
        }
        connection.close().await.unwrap();
        TestDatabase {
            main: self.cluster.connect_options(&main),
            keyring: self.cluster.connect_options(&keyring),
            _needed: Some(Needed {
                number,
                done: Arc::clone(&self.done),
                watched: Some(Watched::new(number)),
            }),
        }
    }

    /// The numbers of the databases to drop now.
    fn done_together(&self) -> Vec<u32> {
        let mut done = self.done.lock().unwrap();
        if done.len() < DROPPED_TOGETHER { Vec::new() } else { std::mem::take(&mut done) }
    }
}

/// The databases of a test.
fn names(number: u32) -> [String; 2] {
    ["main", "keyring"].map(|kind| format!("{kind}_{number}"))
}

/// Whether worlds work by the database's roles by default. A run of all tests then shows the rights
/// that the roles lack.
fn by_roles() -> bool {
    std::env::var_os("FIRMFORMS_TEST_ROLES").is_some()
}

/// The connections that the parts of a world work on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Connections {
    /// A superuser's, the same for all parts.
    Shared,
    /// A superuser's, apart for doors, readers and workers and planned as the service's are.
    Apart,
    /// Apart, each as its database role (`migrate --roles`).
    ByRoles,
}

impl Connections {
    pub(crate) fn usual() -> Self {
        if by_roles() { Self::ByRoles } else { Self::Shared }
    }

    /// A database as one of the service's parts meets it.
    pub(crate) fn to(self, database: &PgConnectOptions, role: &str) -> PgConnectOptions {
        if self == Self::ByRoles {
            return database.clone().options([("role", format!("firmforms_{role}"))]);
        }
        database.clone()
    }
}

/// The wrapping key of all tests.
pub(crate) fn wrapping_key() -> WrappingKey {
    WrappingKey::new(&[7; 32])
}
