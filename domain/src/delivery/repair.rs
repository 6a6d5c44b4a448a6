//! Repairs: an operator queues deliveries that were never queued, although the log has their
//! occurrence and subscription (docs/explanation/proof.md). Each firm and repair has one stream.

use serde::{Deserialize, Serialize};

use crate::aggregate::{NeverRefused, aggregate, domain_event};

/// Aggregate of one repair. Its stream has one event.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Repair {
    recorded: bool,
}

/// Command on a repair.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RepairCommand {
    /// Records the repair.
    Record(RepairedDeliveries),
}

/// Event of a repair.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum RepairEvent {
    /// The missing deliveries were queued in the same transaction.
    DeliveriesRepaired(RepairedDeliveries),
}

/// Content of a repair. The deliveries name the repair as their correlation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RepairedDeliveries {
    /// The operator's reason.
    pub reason: String,
    /// Number of queued deliveries.
    pub deliveries: u64,
}

domain_event!(RepairEvent { DeliveriesRepaired });
aggregate!(Repair, RepairCommand, RepairEvent, NeverRefused);

impl Repair {
    /// Decides on the events that follow from a command. A recorded repair has no further event.
    pub fn decide(
        &self,
        RepairCommand::Record(repaired): &RepairCommand,
    ) -> Result<Vec<RepairEvent>, NeverRefused> {
        let new = (!self.recorded).then(|| RepairEvent::DeliveriesRepaired(repaired.clone()));
        Ok(new.into_iter().collect())
    }

    fn absorb(&mut self, RepairEvent::DeliveriesRepaired(_): &RepairEvent) {
        self.recorded = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cqrs_es::test::TestFramework;

    #[test]
    fn a_repair_is_recorded_once() {
        let repaired = RepairedDeliveries { reason: "a restore".into(), deliveries: 3 };
        let record = RepairCommand::Record(repaired.clone());
        let event = RepairEvent::DeliveriesRepaired(repaired);
        let given = |events| TestFramework::<Repair>::with(()).given(events);
        given(vec![]).when(record.clone()).then_expect_events(vec![event.clone()]);
        given(vec![event]).when(record).then_expect_events(vec![]);
    }
}
