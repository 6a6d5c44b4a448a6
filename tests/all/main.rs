//! All tests against a real PostgreSQL, in one binary.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

mod append_claims;
mod as_of;
mod audit;
mod backlog;
mod batches;
mod clocks;
mod closed_firms;
mod connections;
mod crash;
mod demo;
mod distribution;
mod doctor;
mod erasure;
mod failover;
mod faults;
mod generate;
mod gone;
mod hangups;
mod hosts;
mod housekeeping;
mod http;
mod intake;
mod internal;
mod invites;
mod late;
mod links;
mod listing;
mod lock_order;
mod log;
mod long_queues;
mod newer;
mod open_door;
mod openapi;
mod operators;
mod outages;
mod outputs;
mod pair;
mod patience;
mod pauses;
mod plans;
mod pressure;
mod printing;
mod privacy;
mod process;
mod public;
mod queueing;
mod races;
mod rates;
mod rebuild;
mod receivers;
mod reference;
mod reissues;
mod replays;
mod retries;
mod rewrap;
mod roles;
mod rotation;
mod samples;
mod secrets;
mod servers;
mod story;
mod targets;
mod telemetry;
mod together;
mod triggers;
mod turnstile;
mod upkeep;
mod vault;
mod verify;
mod workflow;

#[path = "../../deliverer/tests/outgoing/support/name_server.rs"]
#[expect(dead_code, reason = "the tests of the client ask for more")]
mod name_server;
