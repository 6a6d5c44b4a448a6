//! Composes the bodies of leased rows. The body of a first attempt is read in the claim (contract,
//! section EventPayload) and frozen. Later attempts send the same bytes.

use std::collections::{HashMap, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use bytes::Bytes;
use domain::activity::{Booking, ReportDocument};
use domain::delivery::signature::WebhookSecret;
use domain::delivery::{EventPayload, FormPart, PayloadSource};
use domain::subscription::Trigger;
use domain::values::Timestamp;
use eventstore::JoinedWrites;
use projector::forms::{self, FormRow};
use sha2::{Digest, Sha256};
use sqlx::PgConnection;
use uuid::Uuid;
use vault::bodies::{self, StoredBody};
use vault::responses::{self, ResponseParts, StoredResponse};
use vault::step_headers::{self, StepSecrets};
use vault::{DataKeys, Entropy, KeySubject, bookings, reports, secrets};

use crate::attempt::FrozenBody;
use crate::error::DeliveryError;
use crate::outbox::row::OutboxRow;
use crate::settings::{DelivererContext, NoticeTarget};
use crate::targets::TargetsByHook;

/// The parts that attempts are made of.
pub(crate) struct ComposedDeliveries {
    /// By response.
    pub(crate) keys: DataKeys,
    /// By delivery.
    pub(crate) bodies: HashMap<Uuid, FrozenBody>,
    /// By firm.
    pub(crate) secrets: HashMap<Uuid, WebhookSecret>,
    /// By subscription.
    pub(crate) targets: TargetsByHook,
    /// By delivery of a workflow step.
    pub(crate) step_secrets: HashMap<Uuid, StepSecrets>,
    /// The operator's URL, for notices.
    pub(crate) notices: Option<Arc<NoticeTarget>>,
}

/// The inputs of bodies. Reading them takes no lock.
struct ComposeInputs {
    keys: DataKeys,
    secrets: HashMap<Uuid, WebhookSecret>,
    sources: PayloadParts,
    /// By firm and form.
    forms: HashMap<(Uuid, Uuid), FormRow>,
}

pub(crate) async fn compose_deliveries(
    deliverer: &DelivererContext,
    connection: &mut PgConnection,
    rows: &[&OutboxRow],
    now: Timestamp,
) -> Result<ComposedDeliveries, DeliveryError> {
    // A notice has its body in its row.
    let rows: Vec<&OutboxRow> = rows.iter().copied().filter(|row| row.notice.is_none()).collect();
    let inputs = ComposeInputs::read(deliverer, connection, &rows).await?;
    let composed = inputs.compose_rows(deliverer, connection, &rows, now).await?;
    Ok(ComposedDeliveries { notices: deliverer.notices.clone(), ..composed })
}

impl ComposeInputs {
    async fn read(
        deliverer: &DelivererContext,
        connection: &mut PgConnection,
        rows: &[&OutboxRow],
    ) -> Result<Self, DeliveryError> {
        let firm_ids: HashSet<Uuid> = rows.iter().map(|row| row.firm_id).collect();
        let subjects: HashSet<KeySubject> = rows.iter().map(|row| row.subject()).collect();
        let firm_ids = to_list(&firm_ids);
        let subjects = to_list(&subjects);
        // Both at once, because the keyring is a database of its own.
        let (keys, secrets) = tokio::join!(
            deliverer.keyring.find_keys(&subjects),
            secrets::read(connection, deliverer.keyring.wrapping_key(), &firm_ids),
        );
        let keys = keys?;
        let secrets = secrets?;
        let fresh = || rows.iter().filter(|row| row.body_id.is_none());
        let of_fresh: HashSet<KeySubject> = fresh().map(|row| row.subject()).collect();
        let sources = PayloadParts::read(connection, &keys, &of_fresh).await?;
        let form_ids: HashSet<(Uuid, Uuid)> =
            fresh().map(|row| (row.firm_id, row.form_id)).collect();
        let forms = if form_ids.is_empty() {
            Vec::new()
        } else {
            forms::find_all(connection, &to_list(&form_ids)).await?
        };
        let forms = forms.into_iter().map(|form| ((form.firm_id, form.form_id), form)).collect();
        let secrets = secrets.into_iter().map(|(firm, secret)| (firm, secret.secret)).collect();
        Ok(Self { keys, secrets, sources, forms })
    }

    /// Composes the leased rows, and freezes the bodies of first attempts.
    async fn compose_rows(
        self,
        deliverer: &DelivererContext,
        connection: &mut PgConnection,
        rows: &[&OutboxRow],
        now: Timestamp,
    ) -> Result<ComposedDeliveries, DeliveryError> {
        let keys = &self.keys;
        let step_ids: Vec<Uuid> =
            rows.iter().filter(|row| row.step.is_some()).map(|row| row.delivery_id).collect();
        let step_secrets = step_headers::read(connection, keys, &step_ids).await?;
        let mut bodies = thaw_bodies(connection, keys, rows).await?;
        let built = BuiltBodies::new(rows, |row| self.build_body(row), &*deliverer.entropy, now);
        let mut writes = JoinedWrites::default();
        bodies.extend(freeze_bodies(deliverer, &mut writes, keys, built)?);
        writes.execute(connection).await?;
        let hooks = rows.iter().filter(|row| row.step.is_none()).map(|row| row.lane_id);
        let life = deliverer.store.life().life_number();
        let targets = deliverer.targets.read_for_hooks(connection, life, hooks.collect()).await?;
        let Self { keys, secrets, .. } = self;
        Ok(ComposedDeliveries { keys, bodies, secrets, targets, step_secrets, notices: None })
    }

    fn build_body(&self, row: &OutboxRow) -> Option<Vec<u8>> {
        let PayloadParts { responses, reports, bookings } = &self.sources;
        let response = responses.get(&row.subject())?;
        let form = self.forms.get(&(row.firm_id, row.form_id))?;
        let form =
            FormPart { id: form.form_id.into(), title: form.title.clone(), url: form.url.clone() };
        let report = own_or_newest(reports.get(&row.subject()), row.report_id);
        let booking = own_or_newest(bookings.get(&row.subject()), row.booking_id);
        payload_bytes(row.trigger.parse().ok()?, form, response, report, booking)
    }
}

/// The bytes of a payload (contract, section EventPayload).
pub(crate) fn payload_bytes(
    trigger: Trigger,
    form: FormPart,
    response: &StoredResponse,
    report: Option<&ReportDocument>,
    booking: Option<&Booking>,
) -> Option<Vec<u8>> {
    let payload = EventPayload::new(PayloadSource {
        trigger,
        form,
        response_id: response.response_id,
        submitted_at: response.submitted_at.unwrap_or(response.saved_at).into(),
        document: &response.document,
        report,
        booking,
    });
    serde_json::to_vec(&payload).ok()
}

/// The frozen bodies of later attempts. A body with another digest than the sent one is left out.
async fn thaw_bodies(
    connection: &mut PgConnection,
    keys: &DataKeys,
    rows: &[&OutboxRow],
) -> Result<HashMap<Uuid, FrozenBody>, DeliveryError> {
    let body_ids: HashSet<Uuid> = rows.iter().filter_map(|row| row.body_id).collect();
    if body_ids.is_empty() {
        return Ok(HashMap::new());
    }
    let bodies = bodies::read(connection, keys, &to_list(&body_ids)).await?;
    let frozen: HashMap<Uuid, FrozenBody> =
        bodies.into_iter().map(|body| (body.body_id, to_frozen(body))).collect();
    let sent_before = |row: &&OutboxRow| {
        let body = frozen.get(&row.body_id?)?;
        let known = row.body_sha256.as_deref();
        if known.is_some_and(|known| known != body.sha256) {
            tracing::error!(delivery_id = %row.delivery_id, "a body is not the one sent before");
            return None;
        }
        Some((row.delivery_id, body.clone()))
    };
    Ok(rows.iter().filter_map(sent_before).collect())
}

/// The bodies of first attempts, not yet frozen.
pub(super) struct BuiltBodies<'a> {
    /// By occurrence. All deliveries of an occurrence share one body.
    by_occurrence: HashMap<Uuid, StoredBody>,
    rows: &'a [&'a OutboxRow],
    built_at: Timestamp,
}

impl<'a> BuiltBodies<'a> {
    /// Builds the bodies of rows without one. A body that cannot be built, or panics, costs its own
    /// delivery an attempt and no other delivery anything (case E10).
    pub(super) fn new(
        rows: &'a [&'a OutboxRow],
        build: impl Fn(&OutboxRow) -> Option<Vec<u8>>,
        entropy: &dyn Entropy,
        now: Timestamp,
    ) -> Self {
        let mut by_occurrence = HashMap::new();
        for row in rows.iter().filter(|row| row.body_id.is_none()) {
            if by_occurrence.contains_key(&row.occurrence_id) {
                continue;
            }
            let Some(bytes) = catch_unwind(AssertUnwindSafe(|| build(row))).ok().flatten() else {
                tracing::error!(delivery_id = %row.delivery_id, "a body could not be built");
                continue;
            };
            let body_id = entropy.id_at(now.get());
            by_occurrence.insert(row.occurrence_id, stored_body(body_id, row.subject(), bytes));
        }
        Self { by_occurrence, rows, built_at: now }
    }
}

/// Freezes the built bodies in the vault. Answers with the frozen bodies by delivery.
pub(super) fn freeze_bodies(
    deliverer: &DelivererContext,
    writes: &mut JoinedWrites,
    keys: &DataKeys,
    built: BuiltBodies<'_>,
) -> Result<HashMap<Uuid, FrozenBody>, DeliveryError> {
    let BuiltBodies { by_occurrence, rows, built_at } = built;
    if by_occurrence.is_empty() {
        return Ok(HashMap::new());
    }
    let bodies: Vec<StoredBody> = by_occurrence.values().cloned().collect();
    bodies::write(writes, keys, &bodies, built_at.get(), &*deliverer.entropy)?;
    let frozen: HashMap<Uuid, FrozenBody> = by_occurrence
        .into_iter()
        .map(|(occurrence_id, body)| (occurrence_id, to_frozen(body)))
        .collect();
    let first = rows.iter().filter(|row| row.body_id.is_none());
    let body = |row: &&OutboxRow| Some((row.delivery_id, frozen.get(&row.occurrence_id)?.clone()));
    Ok(first.filter_map(body).collect())
}

/// The parts of payloads.
#[derive(Default)]
struct PayloadParts {
    responses: HashMap<KeySubject, StoredResponse>,
    /// In order of time.
    reports: HashMap<KeySubject, Vec<ReportDocument>>,
    /// In order of time.
    bookings: HashMap<KeySubject, Vec<Booking>>,
}

impl PayloadParts {
    async fn read(
        connection: &mut PgConnection,
        keys: &DataKeys,
        fresh: &HashSet<KeySubject>,
    ) -> Result<Self, DeliveryError> {
        if fresh.is_empty() {
            return Ok(Self::default());
        }
        let keys = keys
            .iter()
            .filter(|(subject, _)| fresh.contains(subject))
            .map(|(subject, key)| (*subject, key.clone()))
            .collect();
        let whole = responses::read_with_parts(connection, &keys).await?;
        let with = |has: fn(&ResponseParts) -> bool| -> Vec<KeySubject> {
            let some = whole.iter().filter(|(_, parts)| has(parts));
            some.map(|(response, _)| response.subject()).collect()
        };
        let reported_on = with(|parts| parts.reports);
        let booked = with(|parts| parts.bookings);
        let mut documents: HashMap<KeySubject, Vec<ReportDocument>> = HashMap::new();
        for report in reports::read(connection, &keys, &reported_on).await? {
            documents.entry(report.subject).or_default().push(report.document);
        }
        let mut calls: HashMap<KeySubject, Vec<Booking>> = HashMap::new();
        for booking in bookings::read(connection, &keys, &booked).await? {
            calls.entry(booking.subject).or_default().push(booking.document);
        }
        Ok(Self {
            reports: documents,
            bookings: calls,
            responses: whole.into_iter().map(|(r, _)| (r.subject(), r)).collect(),
        })
    }
}

/// The occurrence's own report or call, otherwise the newest (ruling 14a, payload edges).
fn own_or_newest<T: HasId>(parts: Option<&Vec<T>>, own: Option<Uuid>) -> Option<&T> {
    let parts = parts?;
    let of_occurrence = own.and_then(|own| parts.iter().find(|part| part.part_id() == own));
    of_occurrence.or_else(|| parts.last())
}

/// A part of a response with an id of its own.
trait HasId {
    fn part_id(&self) -> Uuid;
}

impl HasId for ReportDocument {
    fn part_id(&self) -> Uuid {
        self.id.into()
    }
}

impl HasId for Booking {
    fn part_id(&self) -> Uuid {
        self.id.into()
    }
}

fn stored_body(body_id: Uuid, subject: KeySubject, bytes: Vec<u8>) -> StoredBody {
    StoredBody { body_id, subject, sha256: Sha256::digest(&bytes).into(), bytes }
}

fn to_frozen(body: StoredBody) -> FrozenBody {
    FrozenBody { body_id: body.body_id, sha256: body.sha256, bytes: Bytes::from(body.bytes) }
}

fn to_list<T: Copy>(items: &HashSet<T>) -> Vec<T> {
    items.iter().copied().collect()
}
