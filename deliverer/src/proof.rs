//! Proof: was each occurrence queued once for each subscription that lived when it happened, and did
//! each delivery go as it may? Asked of the log alone, and of the outbox and of what replays have queued
//! at the same moment (case I1; rules in [`domain::once`]).
//!
//! The log is walked once, in windows: memory is that of one window, of all subscriptions there ever
//! were, and of what is missing. Nothing is written, and no lock is taken.

use std::collections::{BTreeMap, HashMap, HashSet};

use domain::delivery::DeliveryEvent;
use domain::event::Event;
use domain::occurrence::OccurrenceEvent;
use domain::once::{Beginning, Happened, Kind, Lives, Queued, Wrong, judge};
use eventstore::worker::Worker;
use eventstore::{RecordedEvent, StreamName, Upcasters, load_first, load_many, proof, tail};
use projector::replays::{self, QueuedItem};
use sqlx::{FromRow, PgConnection, PgPool};
use uuid::Uuid;

use crate::fan_out::FanOut;
use crate::repair::Missing;
use crate::settings::DeliveryError;

pub use eventstore::proof::Part;

/// Positions looked at at a time.
const WINDOW: i64 = 4_096;

/// Rows read at a time.
const ROWS: i64 = 10_000;

/// What is looked at: a stretch of the log, or a part of it.
#[derive(Debug, Clone, Copy)]
pub struct Scope {
    /// The first position.
    pub from: i64,
    /// The last one.
    pub to: i64,
    /// Which events of the stretch.
    pub part: Part,
    /// How many examples of each kind are kept.
    pub examples: usize,
}

/// What was found.
#[derive(Debug, Default)]
pub struct Report {
    /// The last position that was looked at.
    pub through: i64,
    /// How far fan-out has come.
    pub fanned_out: i64,
    /// Occurrences.
    pub occurrences: u64,
    /// Subscriptions there ever were.
    pub subscriptions: u64,
    /// Deliveries there should be.
    pub expected: u64,
    /// Deliveries that fan-out has not come to.
    pub not_yet: u64,
    /// Deliveries whose course was looked at, those of workflow steps too.
    pub deliveries: u64,
    /// How much is wrong, by kind.
    pub wrong: BTreeMap<Kind, u64>,
    /// The first of each kind.
    pub examples: Vec<Example>,
    /// What is missing, in order.
    pub missing: Vec<Missing>,
}

/// Something that is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Example {
    /// What.
    pub wrong: Wrong,
    /// Where in the log; none for what is not in it.
    pub position: Option<i64>,
    /// The delivery.
    pub delivery_id: Uuid,
    /// Its occurrence; none for a workflow step's.
    pub occurrence_id: Option<Uuid>,
    /// Its subscription.
    pub hook_id: Option<Uuid>,
}

impl Report {
    /// Whether nothing is wrong.
    #[must_use]
    pub fn is_proven(&self) -> bool {
        self.wrong.is_empty()
    }
}

/// Looks at a database as it is at one moment. Progress is told as (positions done, of how many).
///
/// # Errors
/// If the database does not answer, or an event cannot be read.
pub async fn verify(
    pool: &PgPool,
    scope: Scope,
    progress: impl Fn(i64, i64) + Send,
) -> Result<Report, DeliveryError> {
    let mut transaction = proof::snapshot(pool).await?;
    let connection = &mut *transaction;
    let fanned_out = tail::checkpoint(connection, FanOut::NAME).await?.unwrap_or_default();
    let through = proof::height(connection).await?.min(scope.to);
    let lives = lives(connection, scope.part.firm_id).await?;
    let subscriptions = lives.count() as u64;
    let report = Report { through, fanned_out, subscriptions, ..Report::default() };
    let mut walk = Walk { scope, lives, report };
    let before = scope.from.saturating_sub(1).max(0);
    let mut after = before;
    while after < through {
        let until = (after + WINDOW).min(through);
        walk.window(connection, (after, until)).await?;
        progress(until - before, through - before);
        after = until;
    }
    walk.unknown(connection).await?;
    walk.replays(connection).await?;
    Ok(walk.report)
}

/// All subscriptions, as their events tell.
async fn lives(
    connection: &mut PgConnection,
    firm_id: Option<Uuid>,
) -> Result<Lives, DeliveryError> {
    let mut lives = Lives::default();
    let mut after = (String::new(), 0);
    loop {
        let at = (after.0.as_str(), after.1);
        let events = proof::lives(connection, at, firm_id, ROWS).await?;
        for recorded in &events {
            if let (Event::Subscription(event), Ok(hook_id)) =
                (&recorded.event, recorded.aggregate_id.parse())
            {
                lives.take(hook_id, (recorded.context.firm_id, recorded.position), event);
            }
        }
        match events.into_iter().next_back() {
            Some(last) => after = (last.aggregate_id, last.sequence),
            None => return Ok(lives),
        }
    }
}

struct Walk {
    scope: Scope,
    lives: Lives,
    report: Report,
}

impl Walk {
    async fn window(
        &mut self,
        connection: &mut PgConnection,
        window: (i64, i64),
    ) -> Result<(), DeliveryError> {
        let events = proof::beginnings(connection, window, self.scope.part).await?;
        let happened: Vec<Happened> = events.iter().filter_map(happened).collect();
        let begun: Vec<Begun<'_>> = events.iter().filter_map(Begun::of).collect();
        self.heard(connection, &happened).await?;
        self.begun(connection, &begun, &happened).await?;
        self.courses(connection, &begun).await
    }

    /// Is there a delivery for everybody who should hear of these?
    async fn heard(
        &mut self,
        connection: &mut PgConnection,
        happened: &[Happened],
    ) -> Result<(), DeliveryError> {
        self.report.occurrences += happened.len() as u64;
        let expected: Vec<(&Happened, Uuid)> = happened
            .iter()
            .flat_map(|one| self.lives.hearing_of(one).map(move |hook_id| (one, hook_id)))
            .collect();
        self.report.expected += expected.len() as u64;
        let by_rule = |(one, hook_id): &(&Happened, Uuid)| one.delivery_id(*hook_id);
        let ids: Vec<String> = expected.iter().map(|pair| by_rule(pair).to_string()).collect();
        let known = proof::known_deliveries(connection, &ids).await?;
        let known: HashSet<String> = known.into_iter().collect();
        for (pair, id) in expected.iter().zip(&ids).filter(|(_, id)| !known.contains(*id)) {
            let (one, hook_id) = *pair;
            if one.position > self.report.fanned_out {
                self.report.not_yet += 1;
                continue;
            }
            tracing::debug!(delivery_id = id, "missing");
            self.report.missing.push((one.position, hook_id));
            self.found(Example {
                wrong: Wrong::Missing,
                position: Some(one.position),
                delivery_id: by_rule(pair),
                occurrence_id: Some(one.occurrence_id),
                hook_id: Some(hook_id),
            });
        }
        Ok(())
    }

    /// Does each of these belong to something that happened, and to somebody who should hear of it?
    async fn begun(
        &mut self,
        connection: &mut PgConnection,
        begun: &[Begun<'_>],
        near: &[Happened],
    ) -> Result<(), DeliveryError> {
        let mut known: HashMap<Uuid, Happened> =
            near.iter().map(|one| (one.occurrence_id, *one)).collect();
        let to_hooks = || begun.iter().filter_map(|one| Some((one, one.beginning?)));
        let far: HashSet<String> = to_hooks()
            .map(|(_, beginning)| beginning.consignment().occurrence_id)
            .filter(|id| !known.contains_key(id))
            .map(|id| id.to_string())
            .collect();
        let far: Vec<&str> = far.iter().map(String::as_str).collect();
        let upcasters = Upcasters::current();
        let loaded = load_first(connection, &upcasters, "Occurrence", &far).await?;
        known.extend(loaded.iter().filter_map(happened).map(|one| (one.occurrence_id, one)));
        for (one, beginning) in to_hooks() {
            let happened = known.get(&beginning.consignment().occurrence_id);
            if let Some(wrong) = self.lives.beginning(one.delivery_id, beginning, happened) {
                self.found(one.example(wrong));
            }
        }
        Ok(())
    }

    /// Was each tried as often as it may be, and is it queued as long as it waits?
    async fn courses(
        &mut self,
        connection: &mut PgConnection,
        begun: &[Begun<'_>],
    ) -> Result<(), DeliveryError> {
        self.report.deliveries += begun.len() as u64;
        let name = |one: &Begun<'_>| StreamName {
            aggregate_type: "Delivery",
            aggregate_id: one.delivery_id.to_string(),
        };
        let names: Vec<StreamName> = begun.iter().map(name).collect();
        let events = load_many(connection, &Upcasters::current(), &names).await?;
        let mut streams: HashMap<&str, Vec<&DeliveryEvent>> = HashMap::new();
        for recorded in &events {
            if let Event::Delivery(event) = &recorded.event {
                streams.entry(&recorded.aggregate_id).or_default().push(event);
            }
        }
        let ids: Vec<Uuid> = begun.iter().map(|one| one.delivery_id).collect();
        let queued = queued(connection, &ids).await?;
        for (one, name) in begun.iter().zip(&names) {
            let stream = streams.get(name.aggregate_id.as_str()).map_or(&[][..], Vec::as_slice);
            let is_queued = queued.get(&one.delivery_id).copied().unwrap_or(Queued::No);
            if let Some(wrong) = judge(stream.iter().copied(), is_queued) {
                self.found(one.example(wrong));
            }
        }
        Ok(())
    }

    /// What is queued and was never in the log; the whole outbox, whatever part of the log is looked
    /// at.
    async fn unknown(&mut self, connection: &mut PgConnection) -> Result<(), DeliveryError> {
        let mut after = Uuid::nil();
        loop {
            let rows = outbox_after(connection, after, self.scope.part.firm_id).await?;
            let Some(last) = rows.last() else {
                return Ok(());
            };
            after = last.delivery_id;
            let ids: Vec<String> = rows.iter().map(|row| row.delivery_id.to_string()).collect();
            let known = proof::known_deliveries(connection, &ids).await?;
            let known: HashSet<String> = known.into_iter().collect();
            for (row, _) in rows.iter().zip(&ids).filter(|(_, id)| !known.contains(*id)) {
                self.found(row.example());
            }
        }
    }

    /// What replays have queued and nobody will send; of all replays, whatever part of the log is looked
    /// at: what they drop is in no event.
    async fn replays(&mut self, connection: &mut PgConnection) -> Result<(), DeliveryError> {
        let mut after = (Uuid::nil(), 0);
        loop {
            let rows = replays::queued_after(connection, after, self.scope.part.firm_id, ROWS);
            let rows = rows.await?;
            let Some(last) = rows.last() else {
                return Ok(());
            };
            after = (last.replay_id, last.place);
            let ids: Vec<Uuid> = rows.iter().map(|row| row.delivery_id).collect();
            let queued = queued(connection, &ids).await?;
            let is_queued = |row: &QueuedItem| {
                queued.get(&row.delivery_id) == Some(&Queued::ForReplay(row.replay_id))
            };
            for row in rows.iter().filter(|row| !is_queued(row)) {
                self.found(Example {
                    wrong: Wrong::ReplayLost(row.replay_id),
                    position: None,
                    delivery_id: row.delivery_id,
                    occurrence_id: None,
                    hook_id: None,
                });
            }
        }
    }

    fn found(&mut self, example: Example) {
        let count = self.report.wrong.entry(example.wrong.kind()).or_default();
        *count += 1;
        if *count <= self.scope.examples as u64 {
            self.report.examples.push(example);
        }
    }
}

fn happened(recorded: &RecordedEvent) -> Option<Happened> {
    let Event::Occurrence(OccurrenceEvent::OccurrenceRecorded(happening)) = &recorded.event else {
        return None;
    };
    let place = (recorded.aggregate_id.parse().ok()?, recorded.position);
    Some(Happened::at(place, &recorded.context, happening))
}

/// The first event of a delivery.
struct Begun<'a> {
    delivery_id: Uuid,
    position: i64,
    beginning: Option<Beginning<'a>>,
}

impl<'a> Begun<'a> {
    fn of(recorded: &'a RecordedEvent) -> Option<Self> {
        let Event::Delivery(event) = &recorded.event else {
            return None;
        };
        let (delivery_id, beginning) = (recorded.aggregate_id.parse().ok()?, Beginning::of(event));
        Some(Self { delivery_id, position: recorded.position, beginning })
    }

    fn example(&self, wrong: Wrong) -> Example {
        let consignment = self.beginning.map(Beginning::consignment);
        Example {
            wrong,
            position: Some(self.position),
            delivery_id: self.delivery_id,
            occurrence_id: consignment.map(|consignment| consignment.occurrence_id),
            hook_id: consignment.map(|consignment| consignment.hook_id),
        }
    }
}

/// How these are queued; those that are not, are left out.
async fn queued(
    connection: &mut PgConnection,
    delivery_ids: &[Uuid],
) -> Result<HashMap<Uuid, Queued>, sqlx::Error> {
    let rows: Vec<(Uuid, Option<Uuid>)> =
        sqlx::query_as("select delivery_id, replay_id from outbox where delivery_id = any($1)")
            .bind(delivery_ids)
            .fetch_all(connection)
            .await?;
    let how = |replay: Option<Uuid>| replay.map_or(Queued::ForItself, Queued::ForReplay);
    Ok(rows.into_iter().map(|(id, replay)| (id, how(replay))).collect())
}

#[derive(FromRow)]
struct OutboxRow {
    delivery_id: Uuid,
    occurrence_id: Uuid,
    lane_id: Uuid,
    is_step: bool,
}

impl OutboxRow {
    fn example(&self) -> Example {
        Example {
            wrong: Wrong::Unknown,
            position: None,
            delivery_id: self.delivery_id,
            occurrence_id: (!self.is_step).then_some(self.occurrence_id),
            hook_id: (!self.is_step).then_some(self.lane_id),
        }
    }
}

async fn outbox_after(
    connection: &mut PgConnection,
    after: Uuid,
    firm_id: Option<Uuid>,
) -> Result<Vec<OutboxRow>, sqlx::Error> {
    sqlx::query_as(
        "select delivery_id, occurrence_id, lane_id, step is not null as is_step from outbox
          where delivery_id > $1 and ($2::uuid is null or firm_id = $2)
          order by delivery_id limit $3",
    )
    .bind(after)
    .bind(firm_id)
    .bind(ROWS)
    .fetch_all(connection)
    .await
}
