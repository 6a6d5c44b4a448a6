//! What the gate has found out about the request that is being answered, for the other side of
//! hyper. One per connection; a connection has one request at a time.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::refusal::Refusal;

/// What the gate has found out about the request that is being answered.
#[derive(Debug, Default)]
pub(crate) struct GateFindings {
    refusal: OnceLock<Refusal>,
    whole: AtomicBool,
}

impl GateFindings {
    /// The connection's last request is to be answered with this.
    pub(crate) fn refuse(&self, refusal: Refusal) {
        // Only the first can be told: what came after it was not looked at.
        let _ = self.refusal.set(refusal);
    }

    /// With what the request is to be answered, whatever hyper has made of it.
    pub(crate) fn refusal(&self) -> Option<Refusal> {
        self.refusal.get().copied()
    }

    /// Whether hyper has all of the request, and the next byte is known to be another's.
    pub(crate) fn set_whole(&self, whole: bool) {
        self.whole.store(whole, Ordering::Release);
    }

    /// Whether another request may follow on the connection.
    pub(crate) fn is_whole(&self) -> bool {
        self.whole.load(Ordering::Acquire)
    }
}
