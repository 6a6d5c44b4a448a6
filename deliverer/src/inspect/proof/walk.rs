//! The walk over the log: judges occurrences and deliveries, window by window.

use std::collections::{HashMap, HashSet};

use domain::audit::once::{
    DeliveryBeginning, DeliveryFault, MatchOverlap, QueuedFor, RecordedOccurrence,
    SubscriptionLives, first_fault,
};
use domain::delivery::{DeliveryEvent, DeliveryOf};
use domain::event::Event;
use eventstore::{RecordedEvent, StreamName, Upcasters, load_first, load_many, proof, ranges};
use projector::replays::{self, QueuedItem};
use sqlx::PgConnection;
use uuid::Uuid;

use super::queued::{ROWS_PER_READ, outbox_after, queued_kinds, unspread_among};
use super::report::{ProofExample, ProofReport, ProofScope, UnsentDelivery};
use crate::error::DeliveryError;

pub(super) struct ProofWalk {
    pub(super) scope: ProofScope,
    pub(super) lives: SubscriptionLives,
    pub(super) report: ProofReport,
    /// The last position that has left the database.
    pub(super) archived_through: i64,
}

impl ProofWalk {
    pub(super) async fn walk_window(
        &mut self,
        connection: &mut PgConnection,
        after: i64,
        through: i64,
    ) -> Result<(), DeliveryError> {
        let events = proof::read_beginnings(connection, after, through, self.scope.part).await?;
        let happened: Vec<RecordedOccurrence<'_>> =
            events.iter().filter_map(recorded_occurrence).collect();
        let begun: Vec<DeliveryStart<'_>> = events.iter().filter_map(DeliveryStart::new).collect();
        self.check_lists(connection, &happened).await?;
        self.check_origins(connection, &begun, &happened).await?;
        self.check_courses(connection, &begun).await
    }

    /// Judges the lists of these occurrences: each lists its receivers and no others, and each
    /// listed delivery exists.
    async fn check_lists(
        &mut self,
        connection: &mut PgConnection,
        happened: &[RecordedOccurrence<'_>],
    ) -> Result<(), DeliveryError> {
        self.report.occurrences += happened.len() as u64;
        let mut expected = Vec::new();
        let mut wrong = Vec::new();
        for one in happened {
            let listed = one.happening.hooks.iter().copied();
            expected.extend(listed.map(|hook_id| (one, hook_id, DeliveryFault::Lost)));
            let missing = self.lives.missing_hooks(one);
            expected.extend(missing.map(|hook_id| (one, hook_id, DeliveryFault::Missing)));
            let strangers = self.lives.unexpected_hooks(one);
            wrong.extend(
                strangers.map(|hook_id| listed_example(one, hook_id, DeliveryFault::ToNobody)),
            );
            self.report.listed += one.happening.hooks.len() as u64;
            match self.lives.match_overlap(one) {
                MatchOverlap::None => {}
                MatchOverlap::Some => self.report.overlaps += 1,
                MatchOverlap::TooOld => {
                    wrong.push(listed_example(one, Uuid::nil(), DeliveryFault::Unseen));
                }
            }
        }
        wrong.into_iter().for_each(|example| self.count_fault(example));
        self.find_unsent(connection, &expected).await
    }

    /// Judges whether these deliveries are in the log, in the outbox, or unspread. All others are
    /// lost or missing.
    async fn find_unsent(
        &mut self,
        connection: &mut PgConnection,
        expected: &[(&RecordedOccurrence<'_>, Uuid, DeliveryFault)],
    ) -> Result<(), DeliveryError> {
        let ids: Vec<Uuid> =
            expected.iter().map(|(one, hook_id, _)| one.delivery_id(*hook_id)).collect();
        let names: Vec<String> = ids.iter().map(Uuid::to_string).collect();
        let known = proof::known_deliveries(connection, &names).await?;
        let known: HashSet<String> = known.into_iter().collect();
        let mut rest: Vec<_> = expected
            .iter()
            .zip(ids.iter().zip(&names))
            .filter(|(_, (_, name))| !known.contains(*name))
            .map(|(pair, (id, _))| (pair, *id))
            .collect();
        let unknown: Vec<Uuid> = rest.iter().map(|(_, id)| *id).collect();
        let queued = queued_kinds(connection, &unknown).await?;
        rest.retain(|(_, id)| !queued.contains_key(id));
        let occurrences: Vec<Uuid> = rest.iter().map(|((one, ..), _)| one.occurrence_id).collect();
        let unspread = unspread_among(connection, &occurrences).await?;
        for ((one, hook_id, wrong), delivery_id) in rest {
            if unspread.contains(&one.occurrence_id) && *wrong == DeliveryFault::Lost {
                self.report.unspread += 1;
                continue;
            }
            tracing::debug!(%delivery_id, ?wrong, "neither in the log nor queued");
            let missing = DeliveryOf { hook_id: *hook_id, occurrence_id: one.occurrence_id };
            self.report.unsent.push(UnsentDelivery::Unbegun(missing));
            self.count_fault(listed_example(one, *hook_id, *wrong));
        }
        Ok(())
    }

    /// Judges whether each of these deliveries belongs to an occurrence and a subscription of its
    /// list.
    async fn check_origins(
        &mut self,
        connection: &mut PgConnection,
        begun: &[DeliveryStart<'_>],
        near: &[RecordedOccurrence<'_>],
    ) -> Result<(), DeliveryError> {
        let mut known: HashMap<Uuid, RecordedOccurrence<'_>> =
            near.iter().map(|one| (one.occurrence_id, *one)).collect();
        let to_hooks = || begun.iter().filter_map(|one| Some((one, one.beginning?)));
        let far: HashSet<String> = to_hooks()
            .filter_map(|(_, beginning)| Some(beginning.delivery_of()?.occurrence_id))
            .filter(|id| !known.contains_key(id))
            .map(|id| id.to_string())
            .collect();
        let far: Vec<&str> = far.iter().map(String::as_str).collect();
        let upcasters = Upcasters::current();
        let loaded = load_first(connection, &upcasters, "Occurrence", &far).await?;
        known.extend(
            loaded.iter().filter_map(recorded_occurrence).map(|one| (one.occurrence_id, one)),
        );
        let left = self.left_among(connection, &far, &known).await?;
        for (one, beginning) in to_hooks() {
            let of = beginning.delivery_of();
            // The occurrence was proven before it left.
            if of.is_some_and(|of| left.contains(&of.occurrence_id)) {
                continue;
            }
            let happened = of.and_then(|of| known.get(&of.occurrence_id));
            if let Some(wrong) = self.lives.fault_of_beginning(one.delivery_id, beginning, happened)
            {
                self.count_fault(one.proof_example(wrong));
            }
        }
        Ok(())
    }

    /// Returns which of these occurrences have left the database for the archive.
    async fn left_among(
        &self,
        connection: &mut PgConnection,
        far: &[&str],
        known: &HashMap<Uuid, RecordedOccurrence<'_>>,
    ) -> Result<HashSet<Uuid>, DeliveryError> {
        let unknown = far.iter().filter_map(|id| id.parse().ok());
        let unknown: Vec<Uuid> = unknown.filter(|id| !known.contains_key(id)).collect();
        if self.archived_through == 0 || unknown.is_empty() {
            return Ok(HashSet::new());
        }
        let left = ranges::left_among(connection, &unknown, self.archived_through).await?;
        Ok(left.into_iter().collect())
    }

    /// Judges the attempts of these deliveries, and whether a pending delivery is queued.
    async fn check_courses(
        &mut self,
        connection: &mut PgConnection,
        begun: &[DeliveryStart<'_>],
    ) -> Result<(), DeliveryError> {
        self.report.deliveries += begun.len() as u64;
        let name = |one: &DeliveryStart<'_>| StreamName {
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
        let queued = queued_kinds(connection, &ids).await?;
        for (one, name) in begun.iter().zip(&names) {
            let stream = streams.get(name.aggregate_id.as_str()).map_or(&[][..], Vec::as_slice);
            let is_queued = queued.get(&one.delivery_id).copied().unwrap_or(QueuedFor::No);
            if let Some(wrong) = first_fault(stream.iter().copied(), is_queued) {
                if wrong == DeliveryFault::Lost {
                    self.report.unsent.push(UnsentDelivery::Begun(one.delivery_id));
                }
                self.count_fault(one.proof_example(wrong));
            }
        }
        Ok(())
    }

    /// Finds rows of the outbox that are in no list and no stream of the log. It reads the whole
    /// outbox, for any scope.
    pub(super) async fn find_unknown(
        &mut self,
        connection: &mut PgConnection,
    ) -> Result<(), DeliveryError> {
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
            let rest: Vec<_> =
                rows.iter().zip(&ids).filter(|(_, id)| !known.contains(*id)).collect();
            let of: HashSet<String> =
                rest.iter().map(|(row, _)| row.occurrence_id.to_string()).collect();
            let of: Vec<&str> = of.iter().map(String::as_str).collect();
            let occurrences =
                load_first(connection, &Upcasters::current(), "Occurrence", &of).await?;
            let listed: HashSet<Uuid> = occurrences
                .iter()
                .filter_map(recorded_occurrence)
                .flat_map(|one| one.happening.deliveries(one.occurrence_id))
                .map(|(delivery_id, _)| delivery_id)
                .collect();
            for (row, _) in rest.iter().filter(|(row, _)| !listed.contains(&row.delivery_id)) {
                self.count_fault(row.proof_example());
            }
        }
    }

    /// Finds deliveries that a replay has queued and no process will send. It reads all replays,
    /// for any scope, because no event names the deliveries that a replay drops.
    pub(super) async fn find_unsent_replays(
        &mut self,
        connection: &mut PgConnection,
    ) -> Result<(), DeliveryError> {
        let firm_id = self.scope.part.firm_id;
        let mut after = (Uuid::nil(), 0);
        loop {
            let (replay_id, place) = after;
            let rows =
                replays::queued_after(connection, replay_id, place, firm_id, ROWS_PER_READ).await?;
            let Some(last) = rows.last() else {
                return Ok(());
            };
            after = (last.replay_id, last.place);
            let ids: Vec<Uuid> = rows.iter().map(|row| row.delivery_id).collect();
            let queued = queued_kinds(connection, &ids).await?;
            let is_queued = |row: &QueuedItem| {
                queued.get(&row.delivery_id) == Some(&QueuedFor::ForReplay(row.replay_id))
            };
            for row in rows.iter().filter(|row| !is_queued(row)) {
                self.report.unsent.push(UnsentDelivery::Begun(row.delivery_id));
                self.count_fault(ProofExample {
                    wrong: DeliveryFault::ReplayLost(row.replay_id),
                    position: None,
                    delivery_id: row.delivery_id,
                    occurrence_id: None,
                    hook_id: None,
                });
            }
        }
    }

    fn count_fault(&mut self, example: ProofExample) {
        let count = self.report.wrong.entry(example.wrong.kind()).or_default();
        *count += 1;
        if *count <= self.scope.examples as u64 {
            self.report.examples.push(example);
        }
    }
}

fn listed_example(
    one: &RecordedOccurrence<'_>,
    hook_id: Uuid,
    wrong: DeliveryFault,
) -> ProofExample {
    ProofExample {
        wrong,
        position: Some(one.position),
        delivery_id: one.delivery_id(hook_id),
        occurrence_id: Some(one.occurrence_id),
        hook_id: Some(hook_id).filter(|hook_id| !hook_id.is_nil()),
    }
}

fn recorded_occurrence(recorded: &RecordedEvent) -> Option<RecordedOccurrence<'_>> {
    let happening = recorded.event.happening()?;
    let occurrence_id = recorded.aggregate_id.parse().ok()?;
    Some(RecordedOccurrence::at(occurrence_id, recorded.position, &recorded.context, happening))
}

/// The first event of a delivery.
struct DeliveryStart<'a> {
    delivery_id: Uuid,
    position: i64,
    beginning: Option<DeliveryBeginning<'a>>,
}

impl<'a> DeliveryStart<'a> {
    fn new(recorded: &'a RecordedEvent) -> Option<Self> {
        let Event::Delivery(event) = &recorded.event else {
            return None;
        };
        Some(Self {
            delivery_id: recorded.aggregate_id.parse().ok()?,
            position: recorded.position,
            beginning: DeliveryBeginning::new(event),
        })
    }

    fn proof_example(&self, wrong: DeliveryFault) -> ProofExample {
        let of = self.beginning.and_then(DeliveryBeginning::delivery_of);
        ProofExample {
            wrong,
            position: Some(self.position),
            delivery_id: self.delivery_id,
            occurrence_id: of.map(|of| of.occurrence_id),
            hook_id: of.map(|of| of.hook_id),
        }
    }
}
