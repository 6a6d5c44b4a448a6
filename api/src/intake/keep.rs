//! Stores a batch. The vault gets answers, reports, bookings, secrets and reply addresses. The
//! timer gets the due times of unfinished responses.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use eventstore::AppendTransaction;
use projector::partials::{self, PartialRow};
use projector::subjects::SubjectId;
use sqlx::PgConnection;
use uuid::Uuid;
use vault::bookings::{self, StoredBooking};
use vault::parts::PartEffects;
use vault::people::NamedOn;
use vault::reports::{self, StoredReport};
use vault::responses::{self, PriorContent, ResponseBatch, StoredResponse};
use vault::{DataKeys, KeySubject, secrets};

use super::calls::UnchangedPlaces;
use super::error::IntakeError;
use super::plan::BatchPlan;
use super::reported::ReportedResponse;
use super::take_in::BatchIntake;

/// Result of the writes to the vault.
pub(super) struct VaultOutcome {
    /// Places of activities that changed nothing in the vault.
    pub(super) unchanged: UnchangedPlaces,
    /// New submissions of which the batch stores nothing else.
    pub(super) submitted: Vec<StoredResponse>,
}

/// Inputs of a write to the vault, beside the content.
#[derive(Clone, Copy)]
pub(super) struct VaultEncryption<'a> {
    /// Keys that encrypt the content.
    pub(super) keys: &'a DataKeys,
    /// Prior content that the vault may have.
    pub(super) before: PriorContent,
    /// Occurrences that this append recorded for the first time.
    pub(super) recorded: &'a HashSet<Uuid>,
    /// Responses that had expired, and are stored again although the log has their submission.
    pub(super) back: &'a BTreeSet<KeySubject>,
}

impl BatchIntake<'_> {
    pub(super) async fn keep_of_firms(
        &self,
        connection: &mut PgConnection,
        plan: &BatchPlan,
    ) -> Result<(), IntakeError> {
        let service = self.service;
        let wrapping = service.keyring.wrapping_key();
        let entropy = &*service.entropy;
        secrets::make_missing(
            connection,
            wrapping,
            &plan.opened,
            self.batch.last_call_at(),
            entropy,
        )
        .await?;
        secrets::put_contacts(connection, wrapping, &plan.contacts, entropy).await?;
        Ok(())
    }

    /// Puts the content of the batch into the vault.
    pub(super) async fn keep_content(
        &self,
        appending: &mut AppendTransaction<'_>,
        plan: BatchPlan,
        encryption: VaultEncryption<'_>,
    ) -> Result<VaultOutcome, IntakeError> {
        let entropy = &*self.service.entropy;
        let keys = encryption.keys;
        let connection = appending.connection();
        let (reports, places): (Vec<_>, Vec<_>) = plan.reports.into_values().unzip();
        let effects = reports::put(connection, keys, &reports, entropy).await?;
        let mut told_nothing =
            unchanged_places(reports.iter().map(StoredReport::id).zip(places), &effects);
        let (bookings, places): (Vec<_>, Vec<_>) = plan.bookings.into_values().unzip();
        let effects = bookings::put(connection, keys, &bookings, entropy).await?;
        let of_bookings = bookings.iter().map(StoredBooking::id).zip(places);
        told_nothing.extend(unchanged_places(of_bookings, &effects));
        reports::approve(connection, &plan.approved).await?;
        bookings::move_to(connection, &plan.moves).await?;
        bookings::cancel(connection, &plan.cancelled).await?;
        let mut kept =
            self.keep_responses(appending, plan.responses, &plan.named, encryption).await?;
        kept.unchanged.extend(told_nothing);
        let of_reports =
            reports.iter().map(|report| (report.subject.firm_id, report.subject.subject_id));
        let of_bookings =
            bookings.iter().map(|booking| (booking.subject.firm_id, booking.subject.subject_id));
        let with_parts: HashSet<(Uuid, Uuid)> = of_reports.chain(of_bookings).collect();
        kept.submitted
            .retain(|response| !with_parts.contains(&(response.firm_id, response.response_id)));
        Ok(kept)
    }

    /// Stores responses and names. Skips a submission that the log already has.
    async fn keep_responses(
        &self,
        appending: &mut AppendTransaction<'_>,
        reported: BTreeMap<KeySubject, ReportedResponse>,
        named: &BTreeSet<NamedOn>,
        VaultEncryption { keys, before, recorded, back }: VaultEncryption<'_>,
    ) -> Result<VaultOutcome, IntakeError> {
        let is_new = |reported: &ReportedResponse| {
            reported.submission.is_none_or(|event| recorded.contains(&event))
                || back.contains(&reported.response.subject())
        };
        let (new, known): (Vec<_>, Vec<_>) = reported.into_values().partition(is_new);
        let mut duplicates: Vec<usize> = known.into_iter().flat_map(|one| one.places).collect();
        if new.is_empty() && named.is_empty() {
            let unchanged = UnchangedPlaces { duplicates, ..UnchangedPlaces::default() };
            return Ok(VaultOutcome { unchanged, submitted: Vec::new() });
        }
        let (put, places): (Vec<_>, Vec<_>) =
            new.into_iter().map(|reported| (reported.response, reported.places)).unzip();
        let entropy = &*self.service.entropy;
        let batch = ResponseBatch { responses: &put, named, before };
        let (connection, writes) = appending.connection_and_writes();
        let news = responses::put(connection, writes, keys, batch, entropy).await?;
        let news: HashSet<KeySubject> = news.into_iter().collect();
        let is_news = |response: &&StoredResponse| news.contains(&response.subject());
        self.begin_hour(connection, put.iter().filter(is_news)).await?;
        let old = put.iter().zip(places).filter(|(response, _)| !is_news(response));
        duplicates.extend(old.flat_map(|(_, places)| places));
        let is_submitted =
            |one: &StoredResponse| one.submitted_at.is_some() && news.contains(&one.subject());
        let submitted = put.into_iter().filter(is_submitted).collect();
        let unchanged = UnchangedPlaces { duplicates, ..UnchangedPlaces::default() };
        Ok(VaultOutcome { unchanged, submitted })
    }

    /// Starts the hour in which an unfinished response waits for further answers. The hour runs by
    /// database time (contract, section Triggers).
    async fn begin_hour<'b>(
        &self,
        connection: &mut PgConnection,
        news: impl Iterator<Item = &'b StoredResponse>,
    ) -> Result<(), IntakeError> {
        let due_at = self.batch.last_call_at() + self.service.settings.partial_after;
        let (begun, empty): (Vec<_>, Vec<_>) = news
            .filter(|response| response.submitted_at.is_none())
            .partition(|response| !response.document.answers.is_empty());
        let empty: Vec<_> = empty.iter().map(|r| (r.firm_id, r.response_id)).collect();
        partials::drop_of(connection, &empty).await?;
        let begun: Vec<PartialRow> = begun
            .into_iter()
            .map(|response| PartialRow {
                firm_id: response.firm_id,
                response_id: response.response_id,
                form_id: response.form_id,
                answered_at: response.saved_at,
                due_at,
            })
            .collect();
        Ok(partials::set_times(connection, &begun).await?)
    }
}

/// Places of the activities that told the vault nothing new.
fn unchanged_places(
    parts: impl Iterator<Item = (SubjectId, Vec<usize>)>,
    effects: &PartEffects,
) -> UnchangedPlaces {
    let changed: HashSet<&SubjectId> = effects.changed.iter().collect();
    let stale: HashSet<&SubjectId> = effects.stale.iter().collect();
    let mut places_of = UnchangedPlaces::default();
    for (id, places) in parts {
        if stale.contains(&id) {
            places_of.stale.extend(places);
        } else if !changed.contains(&id) {
            places_of.duplicates.extend(places);
        }
    }
    places_of
}
