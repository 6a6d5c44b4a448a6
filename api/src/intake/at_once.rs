//! Submissions of new responses, taken in by one statement. Most batches have nothing else.
//!
//! The state comes first, without a transaction: forms, subscriptions and lanes. It is remembered
//! from the batch before, or read. The statement then stores everything, on the condition that this
//! state is still so. If a condition does not hold, nothing is stored, the state is forgotten, and
//! the batch is taken in the ordinary way, which decides alike.

use std::collections::{BTreeMap, HashSet};
use std::time::Instant;

use domain::activity::Activity;
use domain::delivery::FormPart;
use eventstore::{
    AppendError, AsConflict, EventPositions, JoinedWrites, LifeNumber, NewEvent, OpenAppend,
    RecordedEvent, RememberedRows, StatementAppend, lists_somebody,
};
use projector::firms::KnownFirm;
use projector::hooks::{self, SubmissionMatch};
use projector::subjects::{self, LockedSubject, SubjectId, SubjectLinks, SubjectRow};
use projector::tokens;
use telemetry::metrics::WORKER_FAILURES;
use uuid::Uuid;
use vault::responses::{self, PriorContent, ResponseBatch, StoredResponse};
use vault::{DataKeys, KeySubject};

use super::batch::{BatchReferences, reported_of};
use super::error::IntakeError;
use super::known::{FoundReferences, KnownState};
use super::plan::{BatchPlan, plan_batch};
use super::take_in::{BatchIntake, TakenBatch};
use crate::service::{AppendClaimer, ClaimedInAppend};

/// Matches of submissions that this process remembers, by firm and form.
pub type KnownMatches = RememberedRows<(Uuid, Uuid), SubmissionMatch>;

/// The reported subjects of a batch, with their links.
type ReportedLinks = BTreeMap<SubjectId, SubjectLinks>;

impl BatchIntake<'_> {
    /// Takes the batch in by one statement. `None` if it has something else than submissions of new
    /// responses, or if the state has changed meanwhile.
    pub(super) async fn take_in_at_once(&self) -> Result<Option<TakenBatch>, IntakeError> {
        let claims = self.service.deliveries.append_claims.get();
        let Some(claims) = claims.filter(|_| self.has_only_submissions()) else {
            return Ok(None);
        };
        let life = self.service.pools.intake.life().life_number();
        let found = tokio::join!(self.match_forms(life), self.make_keys());
        let matched = found.0?;
        let keys = &found.1?;
        let reported = reported_of(self.batch);
        let planned = self.plan_submissions(&matched, &reported);
        let Some((plan, known)) = planned else { return Ok(None) };
        let mut writes = self.conditions(&matched, &reported);
        let mut events = plan.events;
        hooks::list_matched(&mut events, &matched);
        let submitted: Vec<StoredResponse> =
            plan.responses.into_values().map(|reported| reported.response).collect();
        let batch = ResponseBatch {
            responses: &submitted,
            named: &plan.named,
            before: PriorContent::Nothing,
        };
        responses::write_new(&mut writes, keys, batch, &*self.service.entropy)?;
        let claimed = self.claim_at_once(&**claims, &mut writes, &events, &known, &submitted, keys);
        let Some(claimed) = claimed.await? else { return Ok(None) };
        let deliveries_wait = claimed.needs_worker();
        let append = StatementAppend { events, writes, deliveries_wait, decided_in: Some(life) };
        if let Err(error) = self.service.pools.intake.append_at_once(append).await {
            claimed.note_refusal();
            self.service.admission.matches.forget(&BatchReferences::named_by(self.batch).forms);
            return refused_statement(error).map(|()| None);
        }
        claimed.send_claimed();
        let accepted = self.batch.counts_by_call(&plan.unchanged);
        Ok(Some(TakenBatch { accepted, erased: Vec::new(), expired: Vec::new() }))
    }

    /// Whether all activities are submissions, each of another response.
    fn has_only_submissions(&self) -> bool {
        let mut seen = HashSet::new();
        self.batch.events().all(|event| match &event.activity {
            Activity::ResponseSubmitted(report) => seen.insert((event.firm_id, report.response_id)),
            _ => false,
        })
    }

    /// The matches of the batch's forms: from memory if all are known, else read.
    async fn match_forms(&self, life: LifeNumber) -> Result<Vec<SubmissionMatch>, sqlx::Error> {
        let forms = BatchReferences::named_by(self.batch).forms;
        let remembered = &self.service.admission.matches;
        let begun = Instant::now();
        if let Some(known) = remembered.get_all(life, begun, forms.iter()) {
            return Ok(known.into_values().collect());
        }
        let connections = self.service.pools.intake.connections();
        let mut connection = connections.take().await?;
        let responses = self.subjects.iter().map(KeySubject::ids);
        let matched = hooks::match_submissions(&mut connection, &forms, responses).await?;
        connections.give_back(connection);
        let rows = matched.iter().map(|one| ((one.firm_id, one.form_id), one.clone()));
        remembered.remember(life, begun, rows);
        Ok(matched)
    }

    /// Plans the batch as if all its responses were new. `None` if a form is not known, or if an
    /// activity is refused: the ordinary way checks the tokens before it says so.
    fn plan_submissions(
        &self,
        matched: &[SubmissionMatch],
        reported: &ReportedLinks,
    ) -> Option<(BatchPlan, KnownState)> {
        let mut found = FoundReferences::default();
        for SubmissionMatch { firm_id, form_id, title, url, .. } in matched {
            found.add_firm(KnownFirm { firm_id: *firm_id, is_dropped: false });
            let part = FormPart { id: (*form_id).into(), title: title.clone(), url: url.clone() };
            found.forms.insert((*firm_id, *form_id), part);
        }
        let new = reported.iter().map(|(&id, links)| {
            let row = SubjectRow { form_id: links.form_id, ..SubjectRow::without_links(id) };
            LockedSubject { row, is_new: true }
        });
        let known = KnownState::new(Vec::new(), found, new.collect());
        let identity = &self.service.inviter.identity;
        plan_batch(self.batch, Vec::new(), known, identity).ok()
    }

    /// The write of the subjects, and the conditions of the statement.
    fn conditions(&self, matched: &[SubmissionMatch], reported: &ReportedLinks) -> JoinedWrites {
        let mut writes = JoinedWrites::default();
        let today = self.batch.last_call_at().date_naive();
        subjects::write_new(&mut writes, reported, today);
        let presented = self.batch.unconfirmed_tokens().into_iter().collect();
        tokens::require_active(&mut writes, presented, self.batch.last_call_at());
        hooks::require_matches(&mut writes, matched);
        writes
    }

    /// Queues the deliveries of these submissions, and leases those that this process may send now.
    /// `None` if the deliverer could not; the ordinary way then tells why.
    async fn claim_at_once(
        &self,
        claims: &dyn AppendClaimer,
        writes: &mut JoinedWrites,
        events: &[NewEvent],
        known: &KnownState,
        submitted: &[StoredResponse],
        keys: &DataKeys,
    ) -> Result<Option<Box<dyn ClaimedInAppend>>, IntakeError> {
        let occurrences: Vec<RecordedEvent> = in_place(events);
        let submissions = self.new_submissions(known, submitted, keys);
        let connections = self.service.pools.intake.connections();
        let mut connection = connections.take().await?;
        let open = OpenAppend {
            connection: &mut connection,
            writes,
            positions: EventPositions::OfStatement,
        };
        let claimed = claims.queue_and_claim(open, &occurrences, &submissions).await;
        match claimed.map_err(IntakeError::of_claim) {
            Ok(claimed) => {
                connections.give_back(connection);
                Ok(Some(claimed))
            }
            Err(IntakeError::ClaimRefused(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Lets the ordinary way take the batch after a failed statement, unless the database is lost.
fn refused_statement(error: AppendError) -> Result<(), IntakeError> {
    match IntakeError::of_claim(error) {
        IntakeError::ClaimRefused(error) => {
            tracing::warn!(%error, "an append in one statement was refused; it is made in several");
            WORKER_FAILURES.count(&[("worker", "intake_at_once")]);
            Ok(())
        }
        error if error.is_conflict() => Ok(()),
        error => Err(error),
    }
}

/// The occurrences that list a subscription, each with its place among the events as its position.
fn in_place(events: &[NewEvent]) -> Vec<RecordedEvent> {
    let placed = (1..).zip(events).filter(|(_, new)| lists_somebody(&new.event));
    let recorded = |(place, new): (i64, &NewEvent)| {
        let NewEvent { aggregate_id, sequence, event, context } = new.clone();
        RecordedEvent { position: place, digest: [0; 32], aggregate_id, sequence, event, context }
    };
    placed.map(recorded).collect()
}
