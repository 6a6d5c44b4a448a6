//! Late entries of the audit log. A crash can give a position out again that the follower of the
//! audit log has passed, and the event there then has no entry. An operator states so, and the
//! entry is added at the end of its chain (docs/explanation/proof.md).
//!
//! The stream of a statement has the id of the event that it is about. So an event has at most one.

use serde::{Deserialize, Serialize};

use crate::aggregate::{NeverRefused, aggregate, domain_event};

/// Aggregate of one late entry. Its stream has one event.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LateEntry {
    added: bool,
}

/// Command on a late entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LateEntryCommand {
    /// Adds the entry at the end of its chain.
    Add(LateEntryReason),
}

/// Event of a late entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum LateEntryEvent {
    /// The entry of an earlier event follows the entry of this event.
    LateEntryAdded(LateEntryReason),
}

/// Position of the event whose entry is late, and the operator's reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LateEntryReason {
    /// Position of the event.
    pub position: i64,
    /// The operator's reason.
    pub reason: String,
}

domain_event!(LateEntryEvent { LateEntryAdded });
aggregate!(LateEntry, LateEntryCommand, LateEntryEvent, NeverRefused);

impl LateEntry {
    /// Decides on the events that follow from a command. An added entry has no further event.
    pub fn decide(
        &self,
        LateEntryCommand::Add(of): &LateEntryCommand,
    ) -> Result<Vec<LateEntryEvent>, NeverRefused> {
        let new = (!self.added).then(|| LateEntryEvent::LateEntryAdded(of.clone()));
        Ok(new.into_iter().collect())
    }

    fn absorb(&mut self, LateEntryEvent::LateEntryAdded(_): &LateEntryEvent) {
        self.added = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cqrs_es::test::TestFramework;

    #[test]
    fn an_entry_is_added_late_once() {
        let of = LateEntryReason { position: 34, reason: "a crash of PostgreSQL".into() };
        let add = LateEntryCommand::Add(of.clone());
        let event = LateEntryEvent::LateEntryAdded(of);
        let given = |events| TestFramework::<LateEntry>::with(()).given(events);
        given(vec![]).when(add.clone()).then_expect_events(vec![event.clone()]);
        given(vec![event]).when(add).then_expect_events(vec![]);
    }

    #[test]
    fn a_stored_statement_reads_back_as_itself() {
        let stored = serde_json::json!({"LateEntryAdded": {"position": 34, "reason": "a crash"}});
        let event: LateEntryEvent = serde_json::from_value(stored.clone()).unwrap();
        assert_eq!(serde_json::to_value(event).unwrap(), stored);
    }
}
