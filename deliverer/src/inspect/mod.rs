//! Inspection: questions of operators, and the repair of deliveries that a proof found missing.
//! Only [`repair`] writes.
//!
//! - [`proof`] compares the log, the outbox and replays at one moment.
//! - [`repair`] queues the deliveries that a proof found missing.
//! - [`backlog`] counts deliveries and lanes for metrics.
//! - [`expiry_plan`] counts the responses that would expire.
//! - [`host_backlog`] counts the work that waits for a host.
//! - [`lane_list`] lists lanes with work.
//! - [`lane_proof`] compares lanes with the log.
//! - [`lost_keys`] looks whether the newest responses have data keys.
//! - [`checkup`] answers the questions of `doctor`.

pub mod backlog;
pub mod checkup;
pub mod expiry_plan;
pub mod host_backlog;
pub mod lane_list;
pub mod lane_proof;
pub mod lost_keys;
pub mod proof;
pub mod repair;
