//! The scope of a proof, and its findings.

use std::collections::BTreeMap;

use domain::audit::once::{DeliveryFault, DeliveryFaultKind};
use domain::delivery::DeliveryOf;
use eventstore::proof::LogFilter;
use uuid::Uuid;

/// The scope: a range of the log, or a part of its events.
#[derive(Debug, Clone, Copy)]
pub struct ProofScope {
    /// The first position.
    pub from: i64,
    /// The last position.
    pub to: i64,
    /// The events of the range.
    pub part: LogFilter,
    /// Examples that are kept of each kind, at most.
    pub examples: usize,
}

impl ProofScope {
    /// The position before the first one. The beginning of the log is the lowest position there is,
    /// because a forged event can have one below 1.
    pub(super) const fn position_before(&self) -> i64 {
        if self.from > 1 { self.from - 1 } else { i64::MIN }
    }
}

/// The findings.
#[derive(Debug, Default)]
pub struct ProofReport {
    /// The last position that was read.
    pub through: i64,
    /// Occurrences in the scope.
    pub occurrences: u64,
    /// Subscriptions of the whole log.
    pub subscriptions: u64,
    /// Deliveries that occurrences list.
    pub listed: u64,
    /// Deliveries of unspread occurrences.
    pub unspread: u64,
    /// Occurrences whose match missed an overlapping change of the firm's subscriptions.
    pub overlaps: u64,
    /// Deliveries that were judged, workflow steps included.
    pub deliveries: u64,
    /// Faults by kind.
    pub wrong: BTreeMap<DeliveryFaultKind, u64>,
    /// The first faults of each kind.
    pub examples: Vec<ProofExample>,
    /// Deliveries that a repair can queue, in order.
    pub unsent: Vec<UnsentDelivery>,
}

/// A delivery that no process would send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnsentDelivery {
    /// A delivery without a stream. Its occurrence lists the subscription, or should.
    Unbegun(DeliveryOf),
    /// A delivery whose stream waits for an attempt, its own or a replay's.
    Begun(Uuid),
}

/// A fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProofExample {
    /// The kind of the fault.
    pub wrong: DeliveryFault,
    /// Its position in the log, if it has one.
    pub position: Option<i64>,
    /// The delivery.
    pub delivery_id: Uuid,
    /// The occurrence. `None` for a workflow step.
    pub occurrence_id: Option<Uuid>,
    /// The subscription.
    pub hook_id: Option<Uuid>,
}

impl ProofReport {
    /// Whether there is no fault.
    #[must_use]
    pub fn is_proven(&self) -> bool {
        self.wrong.is_empty()
    }
}
