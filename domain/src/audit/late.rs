//! The place of a late entry. An entry stands where its event stands, unless a statement says that
//! the entry is late: then it follows the entry of the statement. The rule uses the log alone, so a
//! rebuild puts each entry into the same place.

use std::collections::HashMap;

use uuid::Uuid;

use crate::event::Event;
use crate::operations::LateEntryEvent;

/// An event by its place in the log, its firm and its id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventPlace {
    /// Position in the log.
    pub position: i64,
    /// The firm.
    pub firm_id: Uuid,
    /// The event's id.
    pub event_id: Uuid,
}

/// A statement that the entry of an event is late.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LateStatement {
    /// Position of the statement's own event.
    pub stated_at: i64,
    /// The event whose entry is late.
    pub about: EventPlace,
}

impl LateStatement {
    /// The statement in an event at this position of a firm's log. `None` if the event states
    /// nothing.
    #[must_use]
    pub fn new(stated_at: i64, firm_id: Uuid, aggregate_id: &str, event: &Event) -> Option<Self> {
        let Event::LateEntry(LateEntryEvent::LateEntryAdded(of)) = event else {
            return None;
        };
        let event_id = aggregate_id.parse().ok()?;
        let about = EventPlace { position: of.position, firm_id, event_id };
        Some(Self { stated_at, about })
    }
}

/// The statements of a log.
#[derive(Debug, Clone, Default)]
pub struct LateStatements(HashMap<Uuid, LateStatement>);

impl LateStatements {
    /// The statement that the entry of this event is late. A statement holds for an earlier event
    /// of its own firm. A statement about another position holds for no event.
    #[must_use]
    pub fn statement_about(&self, event: EventPlace) -> Option<&LateStatement> {
        let statement = self.0.get(&event.event_id)?;
        (statement.about == event && event.position < statement.stated_at).then_some(statement)
    }

    /// The statements, in no order.
    pub fn iter(&self) -> impl Iterator<Item = &LateStatement> {
        self.0.values()
    }
}

impl FromIterator<LateStatement> for LateStatements {
    fn from_iter<I: IntoIterator<Item = LateStatement>>(statements: I) -> Self {
        let by_event = |statement: LateStatement| (statement.about.event_id, statement);
        Self(statements.into_iter().map(by_event).collect())
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::operations::LateEntryReason;

    fn event(position: i64, firm: u128, id: u128) -> EventPlace {
        let [firm_id, event_id] = [firm, id].map(Uuid::from_u128);
        EventPlace { position, firm_id, event_id }
    }

    #[rstest]
    #[case::the_event(40, event(34, 1, 7), true)]
    #[case::another_event(40, event(34, 1, 8), false)]
    #[case::another_position(40, event(35, 1, 7), false)]
    #[case::another_firm(40, event(34, 2, 7), false)]
    #[case::a_statement_before_its_event(34, event(34, 1, 7), false)]
    fn a_statement_holds_for_one_earlier_event(
        #[case] stated_at: i64,
        #[case] asked: EventPlace,
        #[case] holds: bool,
    ) {
        let said = LateEntryReason { position: 34, reason: "a crash".into() };
        let said = Event::from(LateEntryEvent::LateEntryAdded(said));
        let (firm_id, stream) = (Uuid::from_u128(1), Uuid::from_u128(7).to_string());
        let statement = LateStatement::new(stated_at, firm_id, &stream, &said).unwrap();
        let statements: LateStatements = [statement].into_iter().collect();
        assert_eq!(statements.statement_about(asked).is_some(), holds);
    }
}
