//! Two doors: the public API of the contract, and the internal one for the product and operators.
//!
//! A handler extracts, parses, acts and answers. What it does lives in [`commands`] (append to the
//! log) and in the projector's questions (read models); product activity comes in by [`intake`].

pub mod commands;
pub mod intake;
pub mod internal;
pub mod openapi;
pub mod public;
pub mod queries;

mod batching;
mod body;
mod error;
mod opening;
mod service;

pub use error::Error;
pub use opening::OpeningDoor;
pub use service::{
    AppendClaimer, CallBatchers, ClaimedInAppend, NewSubmission, SendingMode, Service, TargetDns,
};
