//! How long something took that was due at a time.

use serde::{Deserialize, Serialize};

/// From the moment it was due. What had to wait for a connection has waited: what is slow is not
/// hidden by what was not begun meanwhile.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(crate) struct Latency {
    pub(crate) p50_us: u64,
    pub(crate) p95_us: u64,
    pub(crate) p99_us: u64,
    pub(crate) max_us: u64,
}

impl Latency {
    pub(crate) fn of(mut all: Vec<u64>) -> Self {
        all.sort_unstable();
        let at = |percent: usize| all.get(all.len() * percent / 100).copied().unwrap_or_default();
        Self {
            p50_us: at(50),
            p95_us: at(95),
            p99_us: at(99),
            max_us: all.last().copied().unwrap_or_default(),
        }
    }
}
