//! The gate's findings about the current request, for the service behind hyper. A connection has
//! one request at a time, and one such value.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::refusal::Refusal;

/// The gate's findings about the current request.
#[derive(Debug, Default)]
pub(crate) struct GateFindings {
    refusal: OnceLock<Refusal>,
    whole: AtomicBool,
}

impl GateFindings {
    /// Refuses the connection's last request.
    pub(crate) fn note_refusal(&self, refusal: Refusal) {
        // The first refusal counts. The gate looked at nothing after it.
        let _ = self.refusal.set(refusal);
    }

    /// The refusal that answers the request, whatever hyper has made of the request.
    pub(crate) fn refusal(&self) -> Option<Refusal> {
        self.refusal.get().copied()
    }

    /// Notes that hyper has the whole request, so that the next byte belongs to another one.
    pub(crate) fn mark_whole(&self) {
        self.whole.store(true, Ordering::Release);
    }

    /// Notes that a request has begun, of which hyper has nothing yet.
    pub(crate) fn mark_partial(&self) {
        self.whole.store(false, Ordering::Release);
    }

    /// Whether another request may follow on the connection.
    pub(crate) fn is_whole(&self) -> bool {
        self.whole.load(Ordering::Acquire)
    }
}
