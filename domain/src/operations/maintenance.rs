//! Maintenance that an operator orders at a terminal (ruling 46). An order is recorded before the
//! work begins, in the chain of the installation. Each order has a stream of its own.

use serde::{Deserialize, Serialize};

use crate::aggregate::{NeverRefused, aggregate, domain_event};
use crate::values::Timestamp;

/// Aggregate of one order. Its stream has one event.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Maintenance {
    recorded: bool,
}

/// Command on an order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MaintenanceCommand {
    /// Records the order.
    Order(MaintenanceEvent),
}

/// Event of an order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum MaintenanceEvent {
    /// All data keys and secrets are to be encrypted under another wrapping key.
    KeyringRewrapOrdered {},
    /// The database roles and their grants are to be made.
    RolesMigrationOrdered {
        /// The prefix of the roles' names.
        prefix: String,
    },
    /// Read models are to be rebuilt from the log.
    RebuildOrdered {
        /// The read models.
        models: Vec<String>,
    },
    /// A backup of both databases is to be taken.
    BackupOrdered {
        /// Whether the wrapping key and the keys that sign checkpoints go along.
        with_keys: bool,
    },
    /// The databases were restored from a backup.
    BackupRestored {
        /// The time of the backup.
        taken_at: Timestamp,
        /// The position that the log had reached in it.
        position: i64,
    },
    /// A range of the log is to leave the database. All of it is in the archive.
    LogRangeDropOrdered {
        /// The number of the range: its first position divided by 2^24.
        number: i64,
        /// The last position of the range.
        last_position: i64,
        /// The SHA-256 of the manifest of its last segment, which names the segments before.
        manifest: String,
    },
}

domain_event!(MaintenanceEvent {
    KeyringRewrapOrdered,
    RolesMigrationOrdered,
    RebuildOrdered,
    BackupOrdered,
    BackupRestored,
    LogRangeDropOrdered,
});
aggregate!(Maintenance, MaintenanceCommand, MaintenanceEvent, NeverRefused);

impl Maintenance {
    /// Decides on the events that follow from a command. A recorded order has no further event.
    pub fn decide(
        &self,
        MaintenanceCommand::Order(ordered): &MaintenanceCommand,
    ) -> Result<Vec<MaintenanceEvent>, NeverRefused> {
        Ok((!self.recorded).then(|| ordered.clone()).into_iter().collect())
    }

    const fn absorb(&mut self, _: &MaintenanceEvent) {
        self.recorded = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cqrs_es::test::TestFramework;

    #[test]
    fn an_order_is_recorded_once() {
        let ordered = MaintenanceEvent::RebuildOrdered { models: vec!["hooks".into()] };
        let order = MaintenanceCommand::Order(ordered.clone());
        let given = |events| TestFramework::<Maintenance>::with(()).given(events);
        given(vec![]).when(order.clone()).then_expect_events(vec![ordered.clone()]);
        given(vec![ordered]).when(order).then_expect_events(vec![]);
    }
}
