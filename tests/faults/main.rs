//! Faults of processes, of PostgreSQL, of disks and clocks. The invariants must hold after them.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

mod clocks;
mod crash;
mod doctor;
mod failover;
mod health;
mod hosts;
mod injected;
mod lock_order;
mod lost_rows;
mod outages;
mod pulse;
mod races;
mod server_lives;
mod stuck_lanes;
mod vanished;
