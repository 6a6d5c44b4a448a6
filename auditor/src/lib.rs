//! The proof outside the database: signed checkpoints in files, exports that prove themselves, and
//! the verification of both.
//!
//! - [`KeyFolder`] holds the keys that sign.
//! - [`CheckpointFolder`] holds the signed checkpoints and public keys. No file is ever replaced.
//! - [`Notary`] has both folders, and takes a new signed checkpoint when it is its turn.
//! - [`Checkpointer`] is the worker that takes one each hour.
//! - [`missing_entries`] finds the entries that the audit log lacks.
//! - [`Archiver`] is the worker that archives the log.
//! - [`AuditVerifier`] is the worker that verifies the log about once a day, older events in turn.
//! - [`verify`] compares the database with the log and with all signed checkpoints.
//! - [`bundle`] writes and verifies a file that proves itself to an outsider.
//! - [`archive`] copies whole segments of the log into files that prove themselves.
//! - [`cover`] writes a page about a bundle for people. Such a page proves nothing.
//! - [`lines`] writes entries for a spreadsheet. Such a file proves nothing.
//!
//! This crate has no table. `projector` notes the last signature and the last verification for it.
//! Nothing else is written to the database. The crate proves that nothing changed since a signed
//! checkpoint; a change before the first signed checkpoint cannot be seen.

pub mod archive;
mod archiver;
pub mod bundle;
mod checkpoints;
mod complete;
pub mod cover;
mod error;
mod files;
mod flaw;
mod keys;
pub mod lines;
mod notary;
mod snapshot;
mod tables;
mod turn;
mod verifier;
pub mod verify;
mod worker;

pub use archiver::Archiver;
pub use checkpoints::{CheckpointFolder, SignedCheckpoint};
pub use complete::missing_entries;
pub use error::AuditError;
pub use flaw::MissingEntry;
pub use keys::{KeyFolder, KeySignature, PublicKey};
pub use notary::{KeySource, KnownKeys, Notary};
pub use verifier::{AuditVerifier, VerificationSchedule};
pub use worker::Checkpointer;
