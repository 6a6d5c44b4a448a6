//! Inspection: questions of operators, and the repair of deliveries that a proof found missing.
//! Only [`repair`] writes.
//!
//! - [`proof`] compares the log, the outbox and replays at one moment.
//! - [`repair`] queues the deliveries that a proof found missing.
//! - [`backlog`] counts deliveries and lanes for metrics.
//! - [`lane_list`] lists lanes with work.
//! - [`lane_proof`] compares lanes with the log.
//! - [`checkup`] answers the questions of `doctor`.

pub mod backlog;
pub mod checkup;
pub mod lane_list;
pub mod lane_proof;
pub mod proof;
pub mod repair;
