//! Stories of integrators: their subscriptions and their deliveries.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

mod append_claims;
mod backlog;
mod batches;
mod closed_firms;
mod culprits;
mod erasure;
mod expiry;
mod gone;
mod intake;
mod invites;
mod late;
mod links;
mod listing;
mod long_queues;
mod new_keys;
mod notices;
mod pauses;
mod pressure;
mod queueing;
mod reissues;
mod replays;
mod retries;
mod samples;
mod state_reports;
mod story;
mod targets;
mod together;
mod triggers;
mod workflow;

#[path = "../../deliverer/tests/outgoing/support/name_server.rs"]
#[expect(dead_code, reason = "the tests of the client ask for more")]
mod name_server;
