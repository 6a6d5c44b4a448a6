//! The audit log, its proof, and the read models that it leads to.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

mod archive;
mod as_of;
mod dropping;
mod history;
mod log;
mod newer;
mod pair;
mod proof;
mod ranges;
mod rebuild;
mod rewrap;
mod rotation;
mod vault;
mod verify;
