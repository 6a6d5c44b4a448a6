//! The entries that a stretch of the log leads to, each at its place. An entry stands where its
//! event stands. A late one follows the entry of the statement that says so
//! ([`domain::audit::LateStatements`]).

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};

use domain::audit::{
    AuditEntry, EntrySource, LateStatement, LateStatements, SubscriptionOrigin, subscription_in,
};
use eventstore::tail::{self, TailError};
use eventstore::{RecordedEvent, Upcasters, load_first};
use sqlx::PgConnection;

/// An entry, and the position at which it follows the entries before it.
#[derive(Debug, Clone, PartialEq)]
pub struct PlacedEntry {
    /// The position of its event, or of the statement that it is late.
    pub place: i64,
    /// The entry.
    pub entry: AuditEntry,
}

impl PlacedEntry {
    /// Returns whether a statement led to the entry, and not its event.
    #[must_use]
    pub const fn is_late(&self) -> bool {
        self.place != self.entry.position
    }
}

/// An event whose entry stands at this place.
struct PlacedEvent<'a> {
    place: i64,
    event: Cow<'a, RecordedEvent>,
}

/// Makes the entries of these events, in the order of their chains. The origins of subscriptions
/// are read from the log in one statement. An entry and its place depend on the log alone.
///
/// # Errors
/// If the database does not answer, or an event that an entry needs cannot be read.
pub async fn placed_entries(
    connection: &mut PgConnection,
    events: &[RecordedEvent],
    late: &LateStatements,
) -> Result<Vec<PlacedEntry>, TailError> {
    let mut placed = Vec::with_capacity(events.len());
    for event in events.iter().filter(|event| late.statement_about(event.place()).is_none()) {
        let place = event.position;
        placed.push(PlacedEvent { place, event: Cow::Borrowed(event) });
        // The late event may itself be a statement, whose own entry was missing.
        let mut stated = late_event(connection, event, late).await?;
        while let Some(event) = stated {
            stated = late_event(connection, &event, late).await?;
            placed.push(PlacedEvent { place, event: Cow::Owned(event) });
        }
    }
    make_entries(connection, &placed).await
}

/// Reads the event that a statement is about, if the event is one and holds.
async fn late_event(
    connection: &mut PgConnection,
    event: &RecordedEvent,
    late: &LateStatements,
) -> Result<Option<RecordedEvent>, TailError> {
    let firm_id = event.context.firm_id;
    let statement = LateStatement::new(event.position, firm_id, &event.aggregate_id, &event.event);
    let Some(statement) = statement else {
        return Ok(None);
    };
    let position = statement.about.position;
    let found = tail::read_at(connection, &Upcasters::current(), position).await?;
    Ok(found.filter(|found| late.statement_about(found.place()) == Some(&statement)))
}

async fn make_entries(
    connection: &mut PgConnection,
    placed: &[PlacedEvent<'_>],
) -> Result<Vec<PlacedEntry>, TailError> {
    let about = |placed: &PlacedEvent<'_>| {
        subscription_in(&placed.event.aggregate_id, &placed.event.event).map(str::to_owned)
    };
    let hooks: BTreeSet<String> = placed.iter().filter_map(about).collect();
    let subscribed: HashMap<String, _> = subscription_origins(connection, &hooks).await?;
    let entry = |PlacedEvent { place, event }: &PlacedEvent<'_>| {
        let stored = EntrySource {
            position: event.position,
            digest: event.digest,
            aggregate_id: &event.aggregate_id,
            sequence: event.sequence,
            event: &event.event,
            context: &event.context,
        };
        let entry = AuditEntry::new(stored, subscribed.get(&event.aggregate_id))?;
        Some(PlacedEntry { place: *place, entry })
    };
    Ok(placed.iter().filter_map(entry).collect())
}

/// Reads the origins of these subscriptions.
async fn subscription_origins(
    connection: &mut PgConnection,
    hooks: &BTreeSet<String>,
) -> Result<HashMap<String, SubscriptionOrigin>, TailError> {
    if hooks.is_empty() {
        return Ok(HashMap::new());
    }
    let ids: Vec<&str> = hooks.iter().map(String::as_str).collect();
    let first = load_first(connection, &Upcasters::current(), "Subscription", &ids).await?;
    let made = first.into_iter().filter_map(|recorded| {
        let made = SubscriptionOrigin::from_event(&recorded.event)?;
        Some((recorded.aggregate_id, made))
    });
    Ok(made.collect())
}
