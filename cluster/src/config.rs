//! The place of the cluster, and how it runs.

use std::path::PathBuf;

/// Where the cluster lies, and how it runs.
#[derive(Debug, Clone)]
pub struct ClusterConfig {
    /// The data directory. Made if missing.
    pub data_dir: PathBuf,
    /// The loss that a crash of the machine may cause.
    pub durability: Durability,
    /// More settings of PostgreSQL, for instance `shared_buffers`.
    pub settings: Vec<(String, String)>,
    /// The folder of PostgreSQL's programs (`FIRMFORMS_PG_BIN`). `None` searches for them.
    pub pg_bin: Option<PathBuf>,
}

/// The loss that a crash of the machine may cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// No committed data are lost.
    Durable,
    /// All data may be lost: nothing is forced to the disk.
    ForTests,
}
