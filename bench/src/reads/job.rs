//! What the run asks of the caller, and what the caller says of it: one line of JSON each.

use std::net::SocketAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

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

/// What became of them.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(crate) struct Calls {
    pub(crate) calls: usize,
    /// Answered other than 200.
    pub(crate) refused: usize,
    pub(crate) body_bytes: u64,
    /// From the first call to the last answer.
    pub(crate) took: Duration,
    pub(crate) latency: Latency,
}

/// From the moment a call was due to the last byte of its answer. A call that had to wait for a
/// connection has waited: what is slow is not hidden by calls that were not made meanwhile.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(crate) struct Latency {
    pub(crate) p50_us: u64,
    pub(crate) p99_us: u64,
    pub(crate) max_us: u64,
}

impl Latency {
    pub(crate) fn of(mut all: Vec<u64>) -> Self {
        all.sort_unstable();
        let at = |percent: usize| all.get(all.len() * percent / 100).copied().unwrap_or_default();
        Self { p50_us: at(50), p99_us: at(99), max_us: all.last().copied().unwrap_or_default() }
    }
}
