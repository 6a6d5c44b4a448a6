//! Queries: answers that change nothing, for the internal API and for operators at the terminal.
//!
//! [`listing`] pages through subscriptions and deliveries as they are now. [`as_of`] computes them
//! from the log as they were at a position or an instant. [`history`] explains how a subscription,
//! a key or a delivery came to its state, by chains of [`causes`]. [`events`] shows the
//! log, [`inventory`] lists the rest, [`receivers`] the hosts of all firms, [`access`] tells who
//! could do what, and [`people`] what was sent about a person. [`find`] finds anything by a piece
//! of it, and [`naming`] the object that a person means. [`export`] writes deliveries as lines,
//! `samples` makes samples, and [`stats`] shows the sizes of tables and their `growth`. A query
//! records nothing: the caller records the reading by `commands::readings`.

pub mod access;
pub mod as_of;
pub mod causes;
pub mod entries;
pub mod events;
pub mod export;
pub mod find;
mod growth;
pub mod history;
pub mod inventory;
pub mod listing;
pub mod naming;
pub mod people;
pub mod receivers;
pub(crate) mod samples;
pub mod stats;
