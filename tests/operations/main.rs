//! The work of operators: commands, packages, roles, backups and metrics.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

mod backup;
mod configured;
mod containers;
mod demo;
mod deploy;
mod distribution;
mod forged_backups;
mod generate;
mod guides;
mod housekeeping;
mod listen;
mod operators;
mod outputs;
mod printing;
mod private_cluster;
mod receivers;
mod reference;
mod releases;
mod retention;
mod roles;
mod service_manager;
mod telemetry;
mod typed_events;
mod upkeep;
mod vectors;
