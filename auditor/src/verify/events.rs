//! A page of events, with the entry that each of them leads to.

use std::collections::{BTreeMap, HashMap, HashSet};

use domain::access::KeyEvent;
use domain::audit::merkle::Hash;
use domain::audit::{AuditEntry, EventPlace, LateStatements};
use domain::event::Event;
use domain::firm::FirmEvent;
use domain::subscription::SubscriptionEvent;
use domain::values::Timestamp;
use eventstore::RecordedEvent;
use eventstore::proof::{self, CheckedEvent};
use eventstore::tail::TailError;
use projector::audit::{PlacedEntry, placed_entries};
use sqlx::PgConnection;
use uuid::Uuid;

use super::source::{LogSource, SourcePage};
use super::{FlawLocation, VerifyStop, broken_at};

/// An event whose digest is right.
pub(super) struct WalkedEvent {
    pub(super) position: i64,
    pub(super) firm_id: Uuid,
    pub(super) event_id: Uuid,
    pub(super) digest: Hash,
}

impl WalkedEvent {
    fn place(&self) -> EventPlace {
        let Self { position, firm_id, event_id, .. } = *self;
        EventPlace { position, firm_id, event_id }
    }
}

/// The entry that an event leads to.
pub(super) enum ExpectedEntry {
    /// This entry.
    Entry(Box<AuditEntry>),
    /// An entry that stands later, where a statement at this position says so.
    Late {
        /// The position of the statement.
        stated_at: i64,
    },
    /// No entry.
    None,
    /// This build cannot tell.
    Unknown,
}

/// The entries that stand where an event stands.
pub(super) struct ExpectedEntries {
    /// The entry of the event.
    pub(super) own: ExpectedEntry,
    /// The late entries that the event states.
    pub(super) late: Vec<AuditEntry>,
}

/// Rows of other tables that the log leads to.
#[derive(Debug, Default)]
pub(super) struct LogTally {
    pub(super) keys: i64,
    pub(super) hooks: i64,
    /// The time of the last new signing secret of each firm.
    pub(super) secrets: BTreeMap<Uuid, Timestamp>,
}

/// A page of events.
pub(super) struct EventPage {
    /// The events; the position of each whose digest is wrong.
    events: Vec<Result<WalkedEvent, i64>>,
    /// The lowest position of the next page; `None` after the last page.
    pub(super) next: Option<i64>,
    /// The entries, by the position at which they stand.
    entries: HashMap<i64, Vec<PlacedEntry>>,
    late: LateStatements,
    /// Events that do not tell their entry, and why not.
    unread: BTreeMap<i64, String>,
    /// Events that the database does not have.
    pub(super) archived: i64,
}

impl EventPage {
    /// Reads the events at this position and above.
    pub(super) async fn read(
        connection: &mut PgConnection,
        source: &LogSource,
        from: i64,
        tally: &mut LogTally,
    ) -> Result<Self, VerifyStop> {
        let SourcePage { events: checked, next, archived } = source.read(connection, from).await?;
        let late = proof::late_statements(connection).await?;
        refuse_unlisted(&late, from, next, &checked)?;
        let mut page = Self {
            events: Vec::new(),
            next,
            entries: HashMap::new(),
            late,
            unread: BTreeMap::new(),
            archived,
        };
        let mut recorded = Vec::new();
        for CheckedEvent { position, firm_id, event_id, digest, event } in checked {
            match event {
                Ok(event) => recorded.push(event),
                Err(error) => drop(page.unread.insert(position, error.to_string())),
            }
            let walked = digest.map(|digest| WalkedEvent { position, firm_id, event_id, digest });
            page.events.push(walked.ok_or(position));
        }
        recorded.iter().for_each(|event| tally.count_event(event));
        page.derive_entries(connection, &recorded).await?;
        Ok(page)
    }

    /// The page without the events above this position. A page that loses events is the last one.
    pub(super) fn up_to(mut self, through: i64) -> Self {
        let position = |event: &Result<WalkedEvent, i64>| match event {
            Ok(event) => event.position,
            Err(position) => *position,
        };
        let read = self.events.len();
        self.events.retain(|event| position(event) <= through);
        if self.events.len() < read {
            self.next = None;
        }
        self
    }

    /// Makes the entries of these events, one by one if not all of them tell.
    async fn derive_entries(
        &mut self,
        connection: &mut PgConnection,
        recorded: &[RecordedEvent],
    ) -> Result<(), VerifyStop> {
        match placed_entries(connection, recorded, &self.late).await {
            Ok(entries) => self.keep_entries(entries),
            Err(TailError::Database(error)) => return Err(error.into()),
            Err(TailError::Unreadable { .. }) => {
                for event in recorded {
                    let one = std::slice::from_ref(event);
                    match placed_entries(connection, one, &self.late).await {
                        Ok(entries) => self.keep_entries(entries),
                        Err(TailError::Database(error)) => return Err(error.into()),
                        Err(unreadable) => {
                            self.unread.insert(event.position, unreadable.to_string());
                        }
                    }
                }
            }
        }
        Ok(())
    }

    fn keep_entries(&mut self, entries: Vec<PlacedEntry>) {
        for placed in entries {
            self.entries.entry(placed.place).or_default().push(placed);
        }
    }

    /// The events in order, each with the entries that stand there. Ends at an event whose digest
    /// is wrong.
    pub(super) fn into_events(
        self,
    ) -> impl Iterator<Item = Result<(WalkedEvent, ExpectedEntries), VerifyStop>> {
        let Self { events, mut entries, late, unread, .. } = self;
        events.into_iter().map(move |event| {
            let event = match event {
                Ok(event) => event,
                Err(position) => {
                    let place = FlawLocation::Event { position };
                    return broken_at(place, "its digest is not that of what is stored");
                }
            };
            let mut there = entries.remove(&event.position).unwrap_or_default().into_iter();
            let own = match late.statement_about(event.place()) {
                Some(statement) => ExpectedEntry::Late { stated_at: statement.stated_at },
                None if unread.contains_key(&event.position) => ExpectedEntry::Unknown,
                None => match there.next() {
                    Some(PlacedEntry { entry, .. }) => ExpectedEntry::Entry(Box::new(entry)),
                    None => ExpectedEntry::None,
                },
            };
            let late: Vec<AuditEntry> = there.map(|placed| placed.entry).collect();
            Ok((event, ExpectedEntries { own, late }))
        })
    }

    /// The first event that does not tell its entry, and why not.
    pub(super) fn first_unread(&self) -> Option<&String> {
        self.unread.values().next()
    }
}

/// Refuses a statement in the stretch of a page that the page does not have. Statements are found
/// by another index than pages.
fn refuse_unlisted(
    late: &LateStatements,
    from: i64,
    next: Option<i64>,
    checked: &[CheckedEvent],
) -> Result<(), VerifyStop> {
    let listed: HashSet<i64> = checked.iter().map(|event| event.position).collect();
    let is_in_page = |position: i64| position >= from && next.is_none_or(|next| position < next);
    let unlisted = |position: &i64| is_in_page(*position) && !listed.contains(position);
    match late.iter().map(|statement| statement.stated_at).find(unlisted) {
        Some(position) => broken_at(FlawLocation::Event { position }, "an index does not have it"),
        None => Ok(()),
    }
}

impl LogTally {
    fn count_event(&mut self, recorded: &RecordedEvent) {
        match &recorded.event {
            Event::Key(KeyEvent::KeyCreated { .. }) => self.keys += 1,
            Event::Subscription(SubscriptionEvent::SubscriptionCreated { .. }) => self.hooks += 1,
            Event::Firm(FirmEvent::FirmOpened { .. } | FirmEvent::SecretRotated { .. }) => {
                let context = &recorded.context;
                self.secrets.insert(context.firm_id, context.recorded_at);
            }
            _ => {}
        }
    }
}
