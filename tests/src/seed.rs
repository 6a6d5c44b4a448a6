//! The seed of the tests' clusters: both template databases at this build's schema. It lies
//! beside the test binaries. A new migration needs another one.

use std::fs;
use std::path::{Path, PathBuf};

use cluster::{Cluster, ClusterConfig, Durability, find_programs};
use eventstore::main_migrations;
use sha2::{Digest, Sha256};
use tokio::sync::OnceCell;
use vault::KEYRING_MIGRATIONS;

use crate::database::migrate_templates;

static SEED: OnceCell<PathBuf> = OnceCell::const_new();

/// The seed's archive.
pub(crate) async fn seed(pg_bin: Option<&Path>) -> &'static Path {
    SEED.get_or_init(async || {
        let test = std::env::current_exe().unwrap();
        let folder = test.parent().unwrap().join("test-seeds");
        let seed = folder.join(format!("{}.tar", name(pg_bin)));
        if !seed.exists() {
            fs::create_dir_all(&folder).unwrap();
            make(&seed, pg_bin).await;
        }
        seed
    })
    .await
}

/// A name that changes with the schema and with the version of PostgreSQL.
fn name(pg_bin: Option<&Path>) -> String {
    let mut hash = Sha256::new();
    for migration in main_migrations().iter().chain(KEYRING_MIGRATIONS.iter()) {
        hash.update(&migration.checksum);
    }
    let version = find_programs(pg_bin).unwrap().version;
    format!("{}-{version}", hex::encode(&hash.finalize()[..8]))
}

async fn make(seed: &Path, pg_bin: Option<&Path>) {
    let folder = crate::lasting::folder_for_the_server();
    let config = ClusterConfig {
        data_dir: folder.path().to_owned(),
        durability: Durability::ForTests,
        settings: Vec::new(),
        pg_bin: pg_bin.map(Path::to_owned),
    };
    let cluster = Cluster::open(&config).await.unwrap();
    migrate_templates(&cluster).await;
    cluster.into_seed(seed).await.unwrap();
}
