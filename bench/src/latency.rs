//! How long something took that was due at a time.

use std::collections::HashMap;
use std::time::Instant;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// Latency from the moment an event was due. The wait for a connection is part of it, so a slow
/// service is not hidden by events that were not begun meanwhile.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(crate) struct Latency {
    pub(crate) p50_us: u64,
    pub(crate) p90_us: u64,
    pub(crate) p95_us: u64,
    pub(crate) p99_us: u64,
    pub(crate) p999_us: u64,
    pub(crate) max_us: u64,
}

impl Latency {
    pub(crate) fn new(mut all: Vec<u64>) -> Self {
        all.sort_unstable();
        let at = |mille: usize| all.get(all.len() * mille / 1_000).copied().unwrap_or_default();
        Self {
            p50_us: at(500),
            p90_us: at(900),
            p95_us: at(950),
            p99_us: at(990),
            p999_us: at(999),
            max_us: all.last().copied().unwrap_or_default(),
        }
    }
}

/// Deliveries that are due and have not arrived, while more become due.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    due: HashMap<Uuid, Instant>,
    /// Arrivals that are not expected any more, or not yet.
    unmatched: Vec<(Uuid, Instant)>,
}

impl Ledger {
    pub(crate) fn expect(&mut self, due: impl IntoIterator<Item = (Uuid, Instant)>) {
        self.due.extend(due);
    }

    /// How long each took that is due by now, in microseconds.
    pub(crate) fn arrived(&mut self, arrivals: Vec<(Uuid, Instant)>) -> Vec<u64> {
        let mut took = Vec::with_capacity(arrivals.len());
        for (delivery_id, at) in std::mem::take(&mut self.unmatched).into_iter().chain(arrivals) {
            match self.due.remove(&delivery_id) {
                Some(due) => {
                    let us = at.saturating_duration_since(due).as_micros();
                    took.push(u64::try_from(us).unwrap_or(u64::MAX));
                }
                None => self.unmatched.push((delivery_id, at)),
            }
        }
        took
    }

    pub(crate) fn missing(&self) -> usize {
        self.due.len()
    }

    /// The number of second arrivals, once nothing more is expected.
    pub(crate) fn twice(&self) -> usize {
        self.unmatched.len()
    }
}
