//! Repairs: an operator queued deliveries that the log has an occurrence and a subscription for,
//! and that were never queued (docs/explanation/proof.md). One stream per firm and repair.

use serde::{Deserialize, Serialize};

use crate::event::{aggregate, domain_event};
use crate::occurrence::NeverRefused;

/// One stream per repair, of one event.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Repair {
    recorded: bool,
}

/// What can be asked of a repair.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RepairCommand {
    /// Record it.
    Record(RepairedDeliveries),
}

/// What the log says of a repair.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum RepairEvent {
    /// Deliveries that were missing were queued, in the same transaction.
    DeliveriesRepaired(RepairedDeliveries),
}

/// What was repaired. The deliveries themselves name the repair as what they belong to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RepairedDeliveries {
    /// Why.
    pub reason: String,
    /// How many were queued.
    pub deliveries: u64,
}

domain_event!(RepairEvent { DeliveriesRepaired });
aggregate!(Repair, RepairCommand, RepairEvent, NeverRefused);

impl Repair {
    /// Decides what a command leads to; nothing, when it is recorded.
    ///
    /// # Errors
    /// None.
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
