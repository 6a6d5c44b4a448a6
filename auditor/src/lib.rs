//! The proof, outside the database: checkpoints that are signed and kept as files, exports that prove
//! themselves, and the verification of both.
//!
//! The cast: [`KeyFolder`] sign, [`CheckpointFolder`] are the files, a [`Notary`] has both and takes a new
//! checkpoint, [`Checkpointer`] does so each hour; [`verify`] asks the database whether it still says
//! what it said; [`bundle`] is what an auditor takes home, and [`lines`] what a spreadsheet reads.
//! Nothing here writes to the database.

pub mod bundle;
mod error;
mod files;
mod keys;
pub mod lines;
mod notary;
mod snapshot;
pub mod verify;
mod worker;

pub use error::AuditError;
pub use files::{CheckpointFolder, SignedCheckpoint};
pub use keys::{KeyFolder, PublicKey};
pub use notary::Notary;
pub use worker::Checkpointer;
