//! Queries: answers that change nothing, for the internal API and for operators at the terminal.
//!
//! [`listing`] pages through subscriptions and deliveries as they are now. [`as_of`] computes them
//! from the log as they were at a position or an instant. [`history`] explains one subscription's
//! end. [`naming`] finds the object that a person means. A query records nothing: the caller first
//! records the reading by `commands::readings`.

pub mod as_of;
pub mod history;
pub mod listing;
pub mod naming;
