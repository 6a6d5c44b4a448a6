//! What a proof looks at, and what it finds.

use std::collections::BTreeMap;

use domain::delivery::DeliveryOf;
use domain::once::{DeliveryFault, DeliveryFaultKind};
use eventstore::proof::LogFilter;
use uuid::Uuid;

/// What is looked at: a stretch of the log, or a part of it.
#[derive(Debug, Clone, Copy)]
pub struct ProofScope {
    /// The first position.
    pub from: i64,
    /// The last one.
    pub to: i64,
    /// Which events of the stretch.
    pub part: LogFilter,
    /// How many examples of each kind are kept.
    pub examples: usize,
}

/// What was found.
#[derive(Debug, Default)]
pub struct ProofReport {
    /// The last position that was looked at.
    pub through: i64,
    /// Occurrences.
    pub occurrences: u64,
    /// Subscriptions there ever were.
    pub subscriptions: u64,
    /// Deliveries that occurrences list.
    pub listed: u64,
    /// Deliveries of occurrences that are not spread into the outbox yet.
    pub unspread: u64,
    /// Occurrences whose match missed a change of the firm's subscriptions that overlapped.
    pub overlaps: u64,
    /// Deliveries whose course was looked at, those of workflow steps too.
    pub deliveries: u64,
    /// How much is wrong, by kind.
    pub wrong: BTreeMap<DeliveryFaultKind, u64>,
    /// The first of each kind.
    pub examples: Vec<ProofExample>,
    /// What a repair puts back, in order.
    pub missing: Vec<DeliveryOf>,
}

/// Something that is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProofExample {
    /// What.
    pub wrong: DeliveryFault,
    /// Where in the log; none for what is not in it.
    pub position: Option<i64>,
    /// The delivery.
    pub delivery_id: Uuid,
    /// Its occurrence; none for a workflow step's.
    pub occurrence_id: Option<Uuid>,
    /// Its subscription.
    pub hook_id: Option<Uuid>,
}

impl ProofReport {
    /// Whether nothing is wrong.
    #[must_use]
    pub fn is_proven(&self) -> bool {
        self.wrong.is_empty()
    }
}
