//! The service as a library: one process of it, from plain settings. The command line fills the
//! settings, and so do tests and measurements. Nothing here parses arguments or prints.
//!
//! - [`StorageSettings`] tell where the data are, and [`Databases`] finds them. [`schema`] brings
//!   them to this build's schema, and [`roles`] makes their roles.
//! - [`Pools`] are the connections, one pool for each kind of work.
//! - [`System`] is every part of a process, assembled on its pools. `adapters` lets `api` and
//!   `deliverer` meet.
//! - [`start_workers`] starts the workers of a [`ProcessRole`].
//! - [`dropping`] lets old ranges of the log leave, once the archive has them, and
//!   [`history_drops`] old months of history.
//! - [`BoundDoors`] bind the doors, serve them closed, and open them.
//! - [`serve`] runs all of it until a signal.
//! - [`telemetry`] is the only reader of metrics, and writes the log.
//! - [`ingest`] takes in activities from lines.

pub mod dropping;
pub mod history_drops;
pub mod ingest;
pub mod key_files;
pub mod roles;
pub mod schema;
pub mod serve;
pub mod telemetry;

mod adapters;
mod databases;
mod door_pair;
mod doors;
mod installation;
mod internal_addr;
mod pools;
mod role;
mod service_manager;
mod storage;
mod wiring;
mod workers;

pub use adapters::claim_in_appends;
pub use databases::{DatabaseNames, Databases, KEYRING, MAIN, SERVICE_DATABASES};
pub use door_pair::DoorPair;
pub use doors::{BoundDoors, DoorAddresses, ServedDoors};
pub use installation::Installation;
pub use internal_addr::{InternalAddr, InternalAddrError};
pub use pools::{CALLER_PLAN_SETTINGS, Pools, WORKER_PLAN_SETTINGS, assemble_store};
pub use role::ProcessRole;
pub use serve::ServeSettings;
pub use storage::StorageSettings;
pub use wiring::{DEFAULT_MAIL_FROM, RangeRetention, System, SystemSetup, install_tls};
pub use workers::start_workers;
