//! All tests against a real PostgreSQL, in one binary.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

mod batches;
mod clocks;
mod crash;
mod demo;
mod erasure;
mod faults;
mod generate;
mod hangups;
mod housekeeping;
mod intake;
mod internal;
mod invites;
mod late;
mod links;
mod log;
mod openapi;
mod outages;
mod pressure;
mod privacy;
mod process;
mod public;
mod races;
mod rates;
mod receivers;
mod rotation;
mod samples;
mod secrets;
mod servers;
mod story;
mod triggers;
mod vault;
mod workflow;
