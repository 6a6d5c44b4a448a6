//! Taking a batch in: one transaction, begun again when another came first.

use std::collections::{BTreeMap, HashSet};

use domain::activity::BATCH_MAX_EVENTS;
use domain::context::{Actor, Context};
use domain::event::Event;
use eventstore::{AppendError, Appending, NewEvent, load_many, retry_conflicts};
use projector::partials::{self, Partial};
use projector::subjects::{self, SubjectId};
use projector::{firms, reports};
use serde::Serialize;
use sqlx::PgConnection;
use telemetry::figures::INTAKE;
use uuid::Uuid;
use vault::bookings::{self, Booking};
use vault::reports::{self as vault_reports, Report};
use vault::responses::{self as vault_responses, Response};
use vault::{DataKeys, Subject, erasure, people, secrets};

use super::batch::{
    Changing, Named, erased_people, firms_of_leads, hot_leads, report_ids, reported_of, streams,
    subjects_of,
};
use super::cloudevents::CloudEvent;
use super::consequences::with_consequences;
use super::error::IntakeError;
use super::facts::Placed;
use super::known::Known;
use super::locks::{condemned, leads_last, lock, lock_subjects, there};
use super::plan::{Plan, plan};
use super::reported::Reported;
use crate::service::Service;

/// What became of a batch: together, as many as were sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Accepted {
    /// Reports that changed something.
    pub accepted: usize,
    /// Reports that changed nothing, because it was known or newer was.
    pub duplicates: usize,
}

impl Accepted {
    /// Counts them, once the product is told.
    pub(crate) fn count(&self) {
        for (result, reports) in [("accepted", self.accepted), ("duplicate", self.duplicates)] {
            INTAKE.add(&[("result", result)], reports as u64);
        }
    }
}

/// Takes in a batch: all of it or nothing.
///
/// # Errors
/// [`IntakeError`] says why nothing was taken in.
pub async fn accept(
    service: &Service,
    batch: Vec<CloudEvent>,
    actor: Actor,
) -> Result<Accepted, IntakeError> {
    if batch.len() > BATCH_MAX_EVENTS {
        return Err(IntakeError::TooMany);
    }
    let subjects = subjects_of(&batch);
    let keys = keys(service, &subjects).await?;
    let context = service.context(Uuid::nil(), actor);
    let seed = context.correlation_id;
    let intake = Intake { service, batch, keys, context };
    let accepted = retry_conflicts(seed, || intake.attempt()).await;
    let forgotten = forget_erased(service, &subjects).await;
    accepted.and_then(|accepted| forgotten.map(|()| accepted))
}

/// The keyring is a database of its own: a key without data does no harm, data without one would.
async fn keys(service: &Service, subjects: &[Subject]) -> Result<DataKeys, IntakeError> {
    if subjects.is_empty() {
        return Ok(DataKeys::new());
    }
    Ok(service.keyring.make(subjects, &*service.entropy).await?)
}

/// Whatever became of the batch, an erased response has no key: the one just made for it goes. An
/// erasure that comes after this look drops it itself.
async fn forget_erased(service: &Service, subjects: &[Subject]) -> Result<(), IntakeError> {
    if subjects.is_empty() {
        return Ok(());
    }
    let responses: Vec<_> = subjects.iter().map(|one| (one.firm_id, one.subject_id)).collect();
    let mut connection = service.store.pool().acquire().await?;
    let erased = subjects::erased(&mut connection, &responses).await?;
    drop(connection);
    if erased.is_empty() {
        return Ok(());
    }
    let subject = |(firm_id, subject_id)| Subject { firm_id, subject_id };
    let erased: Vec<Subject> = erased.into_iter().map(subject).collect();
    Ok(service.keyring.forget(&erased).await?)
}

struct Intake<'a> {
    service: &'a Service,
    batch: Vec<CloudEvent>,
    keys: DataKeys,
    /// Of no firm: each event gets its own.
    context: Context,
}

impl Intake<'_> {
    async fn attempt(&self) -> Result<Accepted, IntakeError> {
        let mut appending = self.service.store.begin().await?;
        let (mut plan, known) = self.plan(appending.connection()).await?;
        let condemned = condemned(appending.connection(), &plan).await?;
        let mut events = with_consequences(&mut plan, &condemned, &self.context);
        let mut placed = self.place(appending.connection(), &mut plan, &known).await?;
        // Before the append, as the timer does it: then the order of the log is that of the commits.
        partials::drop_of(appending.connection(), &plan.submitted()).await?;
        events.extend(leads_last(std::mem::take(&mut placed.events)));
        let recorded = append(&mut appending, events).await?;
        drop_parts(appending.connection(), &known.parts_of_erased()).await?;
        let now_waiting = subjects::wait(appending.connection(), &placed.waiting).await?;
        self.keep_of_firms(appending.connection(), &plan).await?;
        let duplicates = plan.duplicates
            + placed.duplicates(&recorded, &now_waiting)
            + self.keep(appending.connection(), plan, &recorded).await?;
        appending.commit().await?;
        Ok(Accepted { accepted: self.batch.len() - duplicates, duplicates })
    }

    /// Locks before it loads: then nothing of these firms and subjects can change before the commit.
    async fn plan(&self, connection: &mut PgConnection) -> Result<(Plan, Known), IntakeError> {
        let at = self.context.recorded_at.get();
        let fresh = reports::remember(connection, &report_ids(&self.batch), at).await?;
        lock(connection, Changing::by(&self.batch)).await?;
        let known = self.known(connection).await?;
        let identity = &self.service.inviter.identity;
        Ok(plan(&self.batch, fresh, known, (identity, &self.context))?)
    }

    /// Only streams that are decided about are loaded; the rest is asked of the tables.
    async fn known(&self, connection: &mut PgConnection) -> Result<Known, IntakeError> {
        let identity = &self.service.inviter.identity;
        let streams = streams(&self.batch, identity);
        let upcasters = self.service.store.upcasters();
        let events = if streams.is_empty() {
            Vec::new()
        } else {
            load_many(connection, &upcasters, &streams).await?
        };
        let there = there(connection, Named::by(&self.batch)).await?;
        let leads = firms::plans(connection, &firms_of_leads(&self.batch)).await?;
        let silent = subjects::silent(connection, &hot_leads(&self.batch, identity)).await?;
        let erased = erased_people(&self.batch, identity);
        let named = people::naming(connection, &erased).await?;
        let mut reported_of = reported_of(&self.batch);
        reported_of.extend(named.iter().map(|one| (one.firm_id, one.response_id)));
        let subjects = lock_subjects(connection, &reported_of).await?;
        // A response that named one of them in between is erased too.
        if people::naming(connection, &erased).await? != named {
            return Err(AppendError::Conflict.into());
        }
        Ok(Known::of(events, there, subjects).with(leads, silent, named))
    }

    /// Writes down what became known of subjects, and finds out what that settles.
    async fn place(
        &self,
        connection: &mut PgConnection,
        plan: &mut Plan,
        known: &Known,
    ) -> Result<Placed, IntakeError> {
        let (rows, responses) = known.learned();
        subjects::know(connection, &rows).await?;
        let waited = subjects::take_waiting(connection, &responses).await?;
        Ok(std::mem::take(&mut plan.facts).place(known, &waited, &self.context))
    }

    async fn keep_of_firms(
        &self,
        connection: &mut PgConnection,
        plan: &Plan,
    ) -> Result<(), IntakeError> {
        let (wrapping, entropy) = (self.service.keyring.wrapping(), &*self.service.entropy);
        let at = self.context.recorded_at.get();
        secrets::make(connection, wrapping, &plan.opened, at, entropy).await?;
        secrets::put_contacts(connection, wrapping, &plan.contacts, entropy).await?;
        Ok(())
    }

    /// Puts what was reported into the vault; answers how many reports turned out to be duplicates.
    async fn keep(
        &self,
        connection: &mut PgConnection,
        plan: Plan,
        recorded: &HashSet<Uuid>,
    ) -> Result<usize, IntakeError> {
        let entropy = &*self.service.entropy;
        let (reports, counts): (Vec<_>, Vec<_>) = plan.reports.into_values().unzip();
        let news = vault_reports::put(connection, &self.keys, &reports, entropy).await?;
        let old_reports = old(reports.iter().map(Report::id).zip(counts), &news);
        let (bookings, counts): (Vec<_>, Vec<_>) = plan.bookings.into_values().unzip();
        let news = bookings::put(connection, &self.keys, &bookings, entropy).await?;
        let old_bookings = old(bookings.iter().map(Booking::id).zip(counts), &news);
        people::put(connection, &plan.named).await?;
        vault_reports::approve(connection, &plan.approved).await?;
        bookings::move_to(connection, &plan.moves).await?;
        bookings::cancel(connection, &plan.cancelled).await?;
        let responses = self.keep_responses(connection, plan.responses, recorded).await?;
        Ok(responses + old_reports + old_bookings)
    }

    /// A submission that the log knew already is not put again.
    async fn keep_responses(
        &self,
        connection: &mut PgConnection,
        reported: BTreeMap<Subject, Reported>,
        recorded: &HashSet<Uuid>,
    ) -> Result<usize, IntakeError> {
        let all: usize = reported.values().map(|reported| reported.reports).sum();
        let (put, reports): (Vec<_>, Vec<_>) = reported
            .into_values()
            .filter(|reported| reported.submission.is_none_or(|event| recorded.contains(&event)))
            .map(|reported| (reported.response, reported.reports))
            .unzip();
        if put.is_empty() {
            return Ok(all);
        }
        let entropy = &*self.service.entropy;
        let news = vault_responses::put(connection, &self.keys, &put, entropy).await?;
        let news: HashSet<Subject> = news.into_iter().collect();
        let is_news = |response: &&Response| news.contains(&response.subject());
        self.begin_hour(connection, put.iter().filter(is_news)).await?;
        let accepted: usize = put
            .iter()
            .zip(reports)
            .filter(|(response, _)| is_news(response))
            .map(|(_, reports)| reports)
            .sum();
        Ok(all - accepted)
    }

    /// Whoever answered something has an hour to go on, by database time (contract, section
    /// Triggers).
    async fn begin_hour<'b>(
        &self,
        connection: &mut PgConnection,
        news: impl Iterator<Item = &'b Response>,
    ) -> Result<(), IntakeError> {
        let due_at = self.context.recorded_at.get() + self.service.partial_after;
        let (begun, empty): (Vec<_>, Vec<_>) = news
            .filter(|response| response.submitted_at.is_none())
            .partition(|response| !response.document.answers.is_empty());
        let empty: Vec<_> = empty.iter().map(|r| (r.firm_id, r.response_id)).collect();
        partials::drop_of(connection, &empty).await?;
        let begun: Vec<Partial> = begun
            .into_iter()
            .map(|response| Partial {
                firm_id: response.firm_id,
                response_id: response.response_id,
                form_id: response.form_id,
                due_at,
            })
            .collect();
        Ok(partials::set(connection, &begun).await?)
    }
}

/// What came of parts of an erased response before it was known that they are: the eraser could not
/// tell.
async fn drop_parts(connection: &mut PgConnection, parts: &[SubjectId]) -> Result<(), sqlx::Error> {
    if parts.is_empty() {
        return Ok(());
    }
    subjects::drop_waiting(connection, parts).await?;
    erasure::erase_parts(connection, parts).await
}

/// How many reports led to parts of responses that were no news to the vault.
fn old(parts: impl Iterator<Item = (SubjectId, usize)>, news: &[SubjectId]) -> usize {
    let news: HashSet<&SubjectId> = news.iter().collect();
    parts.filter(|(id, _)| !news.contains(id)).map(|(_, count)| count).sum()
}

/// Appends all of it in the order of the reports; answers what is new. Only an occurrence may have
/// been recorded before: any other place that is taken means that another came first.
async fn append(
    appending: &mut Appending<'_>,
    events: Vec<NewEvent>,
) -> Result<HashSet<Uuid>, AppendError> {
    let required: HashSet<Uuid> = events
        .iter()
        .filter(|new| !matches!(new.event, Event::Occurrence(_)))
        .map(NewEvent::id)
        .collect();
    let recorded = appending.append_new(events).await?;
    let recorded: HashSet<Uuid> = recorded.into_iter().map(|event| event.event_id).collect();
    if required.is_subset(&recorded) { Ok(recorded) } else { Err(AppendError::Conflict) }
}
