//! Both HTTP APIs: the public API of the contract, and the internal API for the product and
//! operators.
//!
//! A handler extracts, parses, acts and answers. It contains no rule, no SQL and no logging.
//!
//! - [`public`] and [`internal`] are the routes and their handlers. Each admits its callers by
//!   extractors.
//! - [`commands`] append to the log. [`queries`] and the `projector` crate answer from it.
//! - [`intake`] takes in the product's activity, a batch at a time.
//! - [`sessions`] are the sessions of operators and auditors who come with a browser. [`portal`]
//!   serves the people of a firm. [`sign_in`] is the way to a provider and back.
//! - `batching` runs statements for many concurrent callers.
//! - [`Error`] is every answer that is not a success, made in one place.
//! - [`openapi`] describes the public API for machines and people. `docs` serves the description,
//!   its page and the guides for integrators.
//! - [`sample`] builds an example of a delivery.
//! - [`OpeningDoor`] answers before the databases are there.

pub mod commands;
pub mod intake;
pub mod internal;
pub mod openapi;
pub mod portal;
pub mod public;
pub mod queries;
pub mod sample;
pub mod sessions;
pub mod sign_in;

mod audit_access;
mod batching;
mod body;
mod conditional;
mod docs;
mod encoding;
mod error;
mod form_token;
mod opening;
mod readiness;
mod service;
mod token_holder;

pub use audit_access::AuditAccess;
pub use error::Error;
pub use opening::OpeningDoor;
pub use service::{
    AppendClaimer, CallAdmission, CallBatchers, CallerPools, ClaimedInAppend, DeliveryBridge,
    OperatorAtTerminal, QueueView, SampleAnswer, SampleSender, SendingMode, Service,
    ServiceSettings, TargetDns,
};
