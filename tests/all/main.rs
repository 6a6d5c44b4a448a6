//! All tests against a real PostgreSQL, in one binary.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

mod crash;
mod housekeeping;
mod intake;
mod internal;
mod log;
mod public;
mod races;
mod receivers;
mod story;
mod vault;
