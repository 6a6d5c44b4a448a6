//! The orders of the run to the caller, and the caller's results: one line of JSON each.

use std::net::SocketAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::latency::Latency;

/// Calls that are to be made.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Job {
    pub(crate) address: SocketAddr,
    pub(crate) path: String,
    /// Used in turn.
    pub(crate) keys: Vec<String>,
    /// The job ends early with as many calls: more would be over the keys' rate.
    pub(crate) calls_max: usize,
    /// Kept open all the time; one call at a time on each.
    pub(crate) connections: usize,
    pub(crate) seconds: u32,
    /// Calls due each second. Without it, each is made when the one before it on its connection has
    /// its answer.
    pub(crate) rate: Option<u32>,
}

/// The results of the calls.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(crate) struct Calls {
    pub(crate) calls: usize,
    /// Answered other than 200.
    pub(crate) refused: usize,
    pub(crate) body_bytes: u64,
    /// From the first call to the last answer.
    pub(crate) took: Duration,
    /// To the last byte of the answer.
    pub(crate) latency: Latency,
}
