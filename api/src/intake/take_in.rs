//! Takes a batch in, in one transaction: all of it or nothing.

use std::collections::{BTreeSet, HashSet};

use domain::event::Event;
use domain::subscription::Trigger;
use eventstore::{AppendError, AppendTransaction, NewEvent, RecordedEvent, load_many};
use projector::subjects::{self, SubjectId};
use projector::{activity_ids, expiry, firms, partials};
use sqlx::PgConnection;
use telemetry::metrics::WORKER_FAILURES;
use tokio::time::Instant;
use uuid::Uuid;
use vault::responses::{NewSubmission, PriorContent, StoredResponse};
use vault::{DataKeys, KeySubject, erasure, people};

use super::batch::{
    BatchReferences, ChangedFirms, decided_streams, erased_people, firms_of_leads, firms_of_state,
    hot_leads, ids_of_state, reported_of, subjects_of,
};
use super::calls::{IntakeBatch, IntakeCounts};
use super::consequences::with_consequences;
use super::error::IntakeError;
use super::facts::PlacedFacts;
use super::keep::VaultEncryption;
use super::known::KnownState;
use super::locks::{find_references, leads_last, lock_changed, lock_ended_access, lock_subjects};
use super::plan::{BatchPlan, plan_batch};
use crate::batching::token_lookup;
use crate::service::{ClaimedInAppend, Service};

/// How a batch finds out whether an occurrence was recorded before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TrustedSource {
    /// The tables are trusted: a response without a row has no submission in the log and no content
    /// in the vault. A contradiction is a conflict. The tables answer only for a batch whose
    /// occurrences are all submissions of new responses.
    Tables,
    /// Nothing is trusted: the inserts allow for rows that exist already, which costs a third more.
    Nothing,
}

/// Takes the calls of a batch in, and returns the counts of each.
///
/// # Errors
/// [`IntakeError`] says why no activity was taken in. A [`super::BadEvent`] has its place in the
/// batch.
pub(super) async fn take_in(
    service: &Service,
    batch: &IntakeBatch,
    trusted: TrustedSource,
) -> Result<Vec<IntakeCounts>, IntakeError> {
    let subjects = subjects_of(batch);
    let intake = BatchIntake { service, batch, trusted, subjects };
    let mut taken = intake.take_in_shortest().await;
    if let Err(IntakeError::ClaimRefused(error)) = &taken {
        tracing::warn!(%error, "a claim in an append was refused; its deliveries wait for a claim");
        WORKER_FAILURES.count(&[("worker", "claim_in_append")]);
        // The refused run has made keys, so a failure here must not skip `forget_erased`.
        taken = match intake.begin_append().await {
            Ok(appending) => intake.take_batch_in(appending, ClaimMode::Later).await,
            Err(error) => Err(error),
        };
    }
    match &taken {
        // A batch that changes nothing writes nothing.
        Ok(taken) if taken.accepted.iter().any(|counts| counts.accepted > 0) => {
            service.admission.refused_reports.note_room();
        }
        Err(error) if error.is_of_full_disk() => {
            service.admission.refused_reports.note_refusal(Instant::now());
        }
        _ => {}
    }
    let forgotten = intake.forget_erased(taken.as_ref().ok()).await;
    let taken = taken?;
    forgotten?;
    Ok(taken.accepted)
}

/// Whether deliveries may be claimed in the appending transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ClaimMode {
    /// The append claims deliveries, which saves a claim.
    InAppend,
    /// All deliveries wait for a claim of their own.
    Later,
}

/// A batch while it is taken in.
pub(super) struct BatchIntake<'a> {
    pub(super) service: &'a Service,
    pub(super) batch: &'a IntakeBatch,
    trusted: TrustedSource,
    /// Subjects whose personal data the batch holds.
    pub(super) subjects: Vec<KeySubject>,
}

/// A batch that was taken in.
pub(super) struct TakenBatch {
    pub(super) accepted: Vec<IntakeCounts>,
    /// Erased subjects whose data the batch held.
    pub(super) erased: Vec<KeySubject>,
    /// Subjects that have expired, and for which the batch has made keys.
    pub(super) expired: Vec<KeySubject>,
}

/// A batch that is decided and holds its locks.
struct DecidedBatch<'a> {
    appending: AppendTransaction<'a>,
    plan: BatchPlan,
    known: KnownState,
    /// Events to append.
    events: Vec<NewEvent>,
    /// Prior content that the log and the vault may have of the batch.
    before: PriorContent,
    placed: PlacedFacts,
}

impl<'a> BatchIntake<'a> {
    /// Takes the batch in by one statement if that is possible, otherwise by a transaction of many.
    async fn take_in_shortest(&self) -> Result<TakenBatch, IntakeError> {
        if let Some(taken) = self.take_in_at_once().await? {
            return Ok(taken);
        }
        self.take_batch_in(self.begin_append().await?, ClaimMode::InAppend).await
    }

    /// Takes the batch in: decides, appends, stores, leases, commits, sends.
    ///
    /// The keys are made while the batch is decided. The keyring is a database of its own with its
    /// own commit. A key without data does no harm, but data without a key would. A run always
    /// waits for the keys, so that no key appears after the look-up of erased subjects.
    async fn take_batch_in(
        &self,
        appending: AppendTransaction<'a>,
        mode: ClaimMode,
    ) -> Result<TakenBatch, IntakeError> {
        let (decided, keys) = tokio::join!(self.decide_batch(appending), self.make_keys());
        let mut decided = decided?;
        let keys = keys?;
        let connection = decided.appending.connection();
        // Partial rows are deleted before the append, as `PartialTimer` does. The row lock then
        // makes the log's order that of the commits.
        partials::drop_of(
            connection,
            &decided.known.reported_before(decided.plan.submitted_responses()),
        )
        .await?;
        let recorded =
            append_events(&mut decided.appending, decided.events, decided.before).await?;
        let connection = decided.appending.connection();
        drop_parts(connection, &decided.known.parts_of_erased()).await?;
        let now_waiting = subjects::insert_waiting(
            connection,
            &decided.placed.waiting,
            self.batch.last_call_at(),
        )
        .await?;
        self.keep_of_firms(connection, &decided.plan).await?;
        let mut unchanged = std::mem::take(&mut decided.plan.unchanged);
        unchanged.duplicates.extend(decided.placed.duplicate_places(&recorded, &now_waiting));
        let back = std::mem::take(&mut decided.plan.back);
        clear_contents(connection, &back).await?;
        let checked = self.check_keys(&keys, &decided.known).await?;
        let keys = checked.as_ref().unwrap_or(&keys);
        let encryption =
            VaultEncryption { keys, before: decided.before, recorded: &recorded, back: &back };
        let kept = self.keep_content(&mut decided.appending, decided.plan, encryption).await?;
        unchanged.extend(kept.unchanged);
        let claimed = match mode {
            ClaimMode::InAppend => {
                let submissions = self.new_submissions(&decided.known, &kept.submitted, keys);
                self.claim_deliveries(&mut decided.appending, &submissions).await?
            }
            ClaimMode::Later => None,
        };
        decided.appending.commit().await?;
        if let Some(claimed) = claimed {
            claimed.send_claimed();
        }
        Ok(TakenBatch {
            accepted: self.batch.counts_by_call(&unchanged),
            erased: self.erased_of(&decided.known),
            expired: self.expired_of(&decided.known),
        })
    }

    /// The keys under which known subjects are stored. The keys were made before the subjects were
    /// locked, and the eraser may have deleted a key meanwhile, because its response had expired.
    async fn check_keys(
        &self,
        keys: &DataKeys,
        known: &KnownState,
    ) -> Result<Option<DataKeys>, IntakeError> {
        let is_known = |one: &&KeySubject| !known.is_new((one.firm_id, one.subject_id));
        let subjects: Vec<KeySubject> = self.subjects.iter().filter(is_known).copied().collect();
        if subjects.is_empty() {
            return Ok(None);
        }
        let service = self.service;
        let mut checked = keys.clone();
        let found = service.keyring.find_keys(&subjects).await?;
        if subjects.iter().all(|subject| found.contains_key(subject)) {
            checked.extend(found);
        } else {
            checked.extend(service.keyring.make_keys(&subjects, &*service.entropy).await?);
        }
        Ok(Some(checked))
    }

    /// Submissions whose deliveries can be composed here. Their responses are new, and the batch
    /// reports no state of their firm, its members or its forms.
    pub(super) fn new_submissions<'b>(
        &self,
        known: &'b KnownState,
        submitted: &'b [StoredResponse],
        keys: &'b DataKeys,
    ) -> Vec<NewSubmission<'b>> {
        let changing = firms_of_state(self.batch);
        let submission = |response: &'b StoredResponse| {
            let firm_id = response.firm_id;
            let subject = response.subject();
            let is_new = known.is_new((firm_id, response.response_id));
            if !is_new || changing.contains(&firm_id) {
                return None;
            }
            let form = known.form_part(firm_id, response.form_id)?;
            Some(NewSubmission { response, key: keys.get(&subject)?, form })
        };
        submitted.iter().filter_map(submission).collect()
    }

    /// Queues all deliveries of the append, and leases those of the submissions if this process may
    /// send now. Without submissions or a sender, the commit queues them.
    async fn claim_deliveries(
        &self,
        appending: &mut AppendTransaction<'_>,
        submissions: &[NewSubmission<'_>],
    ) -> Result<Option<Box<dyn ClaimedInAppend>>, IntakeError> {
        let Some(claims) =
            self.service.deliveries.append_claims.get().filter(|_| !submissions.is_empty())
        else {
            return Ok(None);
        };
        let occurrences = appending.take_occurrences();
        if occurrences.is_empty() {
            return Ok(None);
        }
        let claimed = claims.queue_and_claim(appending.open(), &occurrences, submissions).await;
        let claimed = claimed.map_err(IntakeError::of_claim)?;
        appending.send_writes().await.map_err(IntakeError::of_claim)?;
        if claimed.needs_worker() {
            appending.deliveries_wait();
        }
        Ok(Some(claimed))
    }

    /// Makes the keys of the batch. Each way to take it in makes them again: a crash between two
    /// ways may have lost keys that were not flushed.
    pub(super) async fn make_keys(&self) -> Result<DataKeys, sqlx::Error> {
        match &*self.subjects {
            [] => Ok(DataKeys::new()),
            subjects => self.service.keyring.make_keys(subjects, &*self.service.entropy).await,
        }
    }

    /// Begins the transaction, and first confirms every token that only the cache vouches for.
    async fn begin_append(&self) -> Result<AppendTransaction<'a>, IntakeError> {
        let mut appending = self.service.pools.intake.begin().await?;
        let tokens = self.batch.unconfirmed_tokens();
        let revoked =
            token_lookup::find_revoked(appending.connection(), tokens, self.batch.last_call_at())
                .await?;
        if revoked.is_empty() {
            return Ok(appending);
        }
        self.service.admission.batchers.tokens.forget(&revoked);
        Err(IntakeError::Revoked(revoked))
    }

    async fn decide_batch(
        &self,
        mut appending: AppendTransaction<'a>,
    ) -> Result<DecidedBatch<'a>, IntakeError> {
        let (mut plan, known) = self.load_and_plan(appending.connection()).await?;
        let ended = lock_ended_access(appending.connection(), &plan).await?;
        let mut events = with_consequences(&mut plan, &ended);
        let mut placed = self.place_facts(appending.connection(), &mut plan, &known).await?;
        events.extend(leads_last(std::mem::take(&mut placed.events)));
        let before = match self.trusted {
            TrustedSource::Tables if is_all_new(&known, &plan, &events) => PriorContent::Nothing,
            TrustedSource::Tables | TrustedSource::Nothing => PriorContent::Anything,
        };
        Ok(DecidedBatch { appending, plan, known, events, before, placed })
    }

    /// Remembers activity ids and locks changed firms and members, then loads and locks the
    /// subjects. Forms and people have no lock: a taken sequence is a conflict.
    async fn load_and_plan(
        &self,
        connection: &mut PgConnection,
    ) -> Result<(BatchPlan, KnownState), IntakeError> {
        let ids = ids_of_state(self.batch);
        let fresh = activity_ids::remember(connection, &ids, self.batch.last_call_at()).await?;
        lock_changed(connection, ChangedFirms::changed_by(self.batch)).await?;
        let known = self.load_and_lock(connection).await?;
        let identity = &self.service.inviter.identity;
        Ok(plan_batch(self.batch, fresh, known, identity)?)
    }

    /// Loads only the streams that the batch decides about. The tables answer for the rest. Locks
    /// the subjects last.
    async fn load_and_lock(
        &self,
        connection: &mut PgConnection,
    ) -> Result<KnownState, IntakeError> {
        let identity = &self.service.inviter.identity;
        let streams = decided_streams(self.batch, identity);
        let upcasters = self.service.pools.intake.upcasters();
        let events = if streams.is_empty() {
            Vec::new()
        } else {
            load_many(connection, &upcasters, &streams).await?
        };
        let there = find_references(connection, BatchReferences::named_by(self.batch)).await?;
        let leads = firms::plans(connection, &firms_of_leads(self.batch)).await?;
        let silent =
            subjects::silent_occurrences(connection, &hot_leads(self.batch, identity)).await?;
        let erased = erased_people(self.batch, identity);
        let named = people::responses_naming(connection, &erased).await?;
        let mut reported_of = reported_of(self.batch);
        for one in &named {
            reported_of.entry((one.firm_id, one.response_id)).or_default();
        }
        // Nothing is remembered of a firm whose data are dropped.
        reported_of.retain(|(firm_id, _), _| !there.dropped.contains(firm_id));
        let today = self.batch.last_call_at().date_naive();
        let subjects = lock_subjects(connection, &reported_of, today).await?;
        // A response that named an erased person in between must be erased too.
        if people::responses_naming(connection, &erased).await? != named {
            return Err(AppendError::Conflict.into());
        }
        Ok(KnownState::new(events, there, subjects).with_rows(leads, silent, named))
    }

    /// Writes new links of subjects, and places the facts that waited for them.
    async fn place_facts(
        &self,
        connection: &mut PgConnection,
        plan: &mut BatchPlan,
        known: &KnownState,
    ) -> Result<PlacedFacts, IntakeError> {
        let (rows, responses) = known.learned_rows();
        if !plan.back.is_empty() {
            let back: Vec<_> = plan.back.iter().map(KeySubject::ids).collect();
            expiry::unlink_parts(connection, &back, &known.locked_subjects()).await?;
        }
        subjects::update_known(connection, &rows).await?;
        let waited = subjects::take_waiting(connection, &responses).await?;
        Ok(std::mem::take(&mut plan.facts).into_occurrences(known, &waited, self.batch))
    }

    /// Deletes the key of an erased response, whether or not the batch was taken in: the key may be
    /// new. An erasure that comes after the lock or after this look-up deletes the key itself.
    async fn forget_erased(&self, taken: Option<&TakenBatch>) -> Result<(), IntakeError> {
        let (erased, expired) = match taken {
            Some(taken) => (taken.erased.clone(), taken.expired.clone()),
            None => (self.look_for_erased().await?, self.subjects.clone()),
        };
        if !erased.is_empty() {
            self.service.keyring.forget_keys(&erased).await?;
        }
        self.forget_expired(&expired).await
    }

    /// Deletes the keys of those that are still expired, under the locks of their subjects: a
    /// report that brings one back makes its key again.
    async fn forget_expired(&self, subjects: &[KeySubject]) -> Result<(), IntakeError> {
        if subjects.is_empty() {
            return Ok(());
        }
        let ids: Vec<_> = subjects.iter().map(KeySubject::ids).collect();
        let mut transaction = self.service.pools.intake.pool().begin().await?;
        let expired = expiry::lock_expired(&mut transaction, &ids).await?;
        if !expired.is_empty() {
            let expired: Vec<KeySubject> = expired.into_iter().map(KeySubject::from).collect();
            self.service.keyring.forget_keys(&expired).await?;
        }
        Ok(transaction.commit().await?)
    }

    fn expired_of(&self, known: &KnownState) -> Vec<KeySubject> {
        let has_expired =
            |one: &&KeySubject| known.expired_as((one.firm_id, one.subject_id)).is_some();
        self.subjects.iter().filter(has_expired).copied().collect()
    }

    fn erased_of(&self, known: &KnownState) -> Vec<KeySubject> {
        let is_erased = |one: &&KeySubject| {
            known.is_dropped(one.firm_id) || known.is_erased((one.firm_id, one.subject_id))
        };
        self.subjects.iter().filter(is_erased).copied().collect()
    }

    async fn look_for_erased(&self) -> Result<Vec<KeySubject>, IntakeError> {
        if self.subjects.is_empty() {
            return Ok(Vec::new());
        }
        let responses: Vec<_> = self.subjects.iter().map(KeySubject::ids).collect();
        let mut connection = self.service.pools.intake.pool().acquire().await?;
        let erased = subjects::erased_for_good(&mut connection, &responses).await?;
        Ok(erased.into_iter().map(KeySubject::from).collect())
    }
}

/// Whether the log and the vault can hold no part of the batch. All its occurrences must be
/// submissions of new responses. Other occurrences have ids of their own, and may be recorded
/// already for a new response.
fn is_all_new(known: &KnownState, plan: &BatchPlan, events: &[NewEvent]) -> bool {
    let is_new = |firm_id, response_id| known.is_new((firm_id, response_id));
    events.iter().all(|new| {
        let Some(of) = new.event.happening() else { return true };
        of.trigger == Trigger::FormSubmitted && is_new(new.context.firm_id, of.response_id)
    }) && plan.responses.keys().all(|of| is_new(of.firm_id, of.subject_id))
        && plan.named.iter().all(|of| is_new(of.firm_id, of.response_id))
}

/// Deletes the remaining contents of expired responses that are reported again.
async fn clear_contents(
    connection: &mut PgConnection,
    back: &BTreeSet<KeySubject>,
) -> Result<(), sqlx::Error> {
    if back.is_empty() {
        return Ok(());
    }
    erasure::clear_contents(connection, &back.iter().copied().collect::<Vec<_>>()).await
}

/// Drops facts and content of reports and bookings that turned out to belong to an erased response.
/// The eraser could not know of them.
async fn drop_parts(connection: &mut PgConnection, parts: &[SubjectId]) -> Result<(), sqlx::Error> {
    if parts.is_empty() {
        return Ok(());
    }
    subjects::drop_waiting(connection, parts).await?;
    erasure::erase_parts(connection, parts).await
}

/// Appends the events in their order, and returns the ids of new occurrences. With
/// [`PriorContent::Anything`], an occurrence may be recorded already. Any other taken sequence is a
/// conflict.
async fn append_events(
    appending: &mut AppendTransaction<'_>,
    events: Vec<NewEvent>,
    before: PriorContent,
) -> Result<HashSet<Uuid>, AppendError> {
    let is_occurrence = |event: &Event| matches!(event, Event::Occurrence(_));
    let required = events.iter().filter(|new| !is_occurrence(&new.event)).count();
    let recorded = match before {
        PriorContent::Nothing => appending.append(events).await?,
        PriorContent::Anything => appending.append_new(events).await?,
    };
    let (occurrences, others): (Vec<_>, Vec<_>) =
        recorded.iter().partition(|recorded| is_occurrence(&recorded.event));
    if others.len() < required {
        return Err(AppendError::Conflict);
    }
    Ok(occurrences.into_iter().map(RecordedEvent::id).collect())
}
