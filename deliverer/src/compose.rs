//! Composing: what a delivery sends. The body is read when its first try is claimed (contract,
//! section EventPayload), and frozen: later tries send the same bytes.

use std::collections::{HashMap, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind};

use bytes::Bytes;
use domain::document::{Booking, ReportDocument};
use domain::payload::{EventPayload, FormPart, PayloadSource};
use domain::signature::WebhookSecret;
use domain::time::Timestamp;
use projector::forms::{self, FormRow};
use sha2::{Digest, Sha256};
use sqlx::PgConnection;
use uuid::Uuid;
use vault::bodies::{self, Body};
use vault::responses::{self, Parts, Response};
use vault::step_headers::{self, Headers};
use vault::{DataKeys, Subject, bookings, reports, secrets};

use crate::claim::{FrozenBody, Leased};
use crate::settings::{Courier, DeliveryError};
use crate::targets::Targets;

/// What the claimed deliveries need.
pub(crate) struct Composed {
    /// By subject.
    pub(crate) keys: DataKeys,
    /// By delivery.
    pub(crate) bodies: HashMap<Uuid, FrozenBody>,
    /// By firm.
    pub(crate) secrets: HashMap<Uuid, WebhookSecret>,
    /// By subscription.
    pub(crate) targets: Targets,
    /// By delivery of a workflow step.
    pub(crate) step_headers: HashMap<Uuid, Headers>,
}

/// What deliveries are composed from. None of it needs a lock.
pub(crate) struct Ingredients {
    pub(crate) kept: Kept,
    pub(crate) forms: Forms,
}

/// What lies in the vault.
pub(crate) struct Kept {
    keys: DataKeys,
    secrets: HashMap<Uuid, WebhookSecret>,
    sources: Sources,
}

/// By firm and form.
pub(crate) type Forms = HashMap<(Uuid, Uuid), FormRow>;

/// The forms that are wanted.
pub(crate) async fn forms(
    connection: &mut PgConnection,
    wanted: &Wanted,
) -> Result<Forms, sqlx::Error> {
    if wanted.form_ids.is_empty() {
        return Ok(Forms::default());
    }
    let forms = forms::find_all(connection, &listed(&wanted.form_ids)).await?;
    Ok(forms.into_iter().map(|form| ((form.firm_id, form.form_id), form)).collect())
}

/// What ingredients are wanted of. Where it goes is not among them: that is known, mostly.
#[derive(Default)]
pub(crate) struct Wanted {
    /// Whose secrets.
    pub(crate) firm_ids: HashSet<Uuid>,
    /// Whose keys.
    pub(crate) subjects: HashSet<Subject>,
    /// Which of them have no frozen body.
    pub(crate) fresh: HashSet<Subject>,
    /// The forms of those.
    pub(crate) form_ids: HashSet<(Uuid, Uuid)>,
}

impl Wanted {
    /// What telling of these responses takes, each with its form.
    pub(crate) fn telling(of: impl Iterator<Item = (Subject, Uuid)>) -> Self {
        let mut wanted = Self::default();
        for (subject, form_id) in of {
            wanted.tell(subject, Some(form_id));
        }
        wanted
    }

    pub(crate) fn by<'a>(leased: impl Iterator<Item = &'a Leased>) -> Self {
        let mut wanted = Self::default();
        for row in leased {
            wanted.tell(row.subject(), row.body_id.is_none().then_some(row.form_id));
        }
        wanted
    }

    /// With its form, where there is no frozen body.
    fn tell(&mut self, subject: Subject, form_id: Option<Uuid>) {
        self.firm_ids.insert(subject.firm_id);
        self.subjects.insert(subject);
        if let Some(form_id) = form_id {
            self.fresh.insert(subject);
            self.form_ids.insert((subject.firm_id, form_id));
        }
    }
}

pub(crate) async fn compose(
    courier: &Courier,
    connection: &mut PgConnection,
    leased: &[Leased],
    now: Timestamp,
) -> Result<Composed, DeliveryError> {
    let ingredients = Ingredients::read(courier, connection, &Wanted::by(leased.iter())).await?;
    ingredients.compose((courier, connection), leased, now).await
}

impl Kept {
    pub(crate) async fn read(
        courier: &Courier,
        connection: &mut PgConnection,
        wanted: &Wanted,
    ) -> Result<Self, DeliveryError> {
        let firm_ids = listed(&wanted.firm_ids);
        let subjects = listed(&wanted.subjects);
        // The keyring is another database: it is asked meanwhile.
        let (keys, secrets) = tokio::join!(
            courier.keyring.find(&subjects),
            secrets::read(connection, courier.keyring.wrapping(), &firm_ids),
        );
        let (keys, secrets) = (keys?, secrets?);
        let sources = Sources::read(connection, &keys, wanted).await?;
        let secrets = secrets.into_iter().map(|(firm, secret)| (firm, secret.secret)).collect();
        Ok(Self { keys, secrets, sources })
    }
}

impl Ingredients {
    pub(crate) async fn read(
        courier: &Courier,
        connection: &mut PgConnection,
        wanted: &Wanted,
    ) -> Result<Self, DeliveryError> {
        let kept = Kept::read(courier, connection, wanted).await?;
        Ok(Self { kept, forms: forms(connection, wanted).await? })
    }

    /// Composes what was leased; freezes the bodies of first tries.
    pub(crate) async fn compose(
        self,
        (courier, connection): (&Courier, &mut PgConnection),
        leased: &[Leased],
        now: Timestamp,
    ) -> Result<Composed, DeliveryError> {
        let keys = &self.kept.keys;
        let with_headers =
            |row: &&Leased| row.step.as_ref().is_some_and(|step| step.extra_headers > 0);
        let step_ids: Vec<Uuid> =
            leased.iter().filter(with_headers).map(|row| row.delivery_id).collect();
        let step_headers = step_headers::read(connection, keys, &step_ids).await?;
        let mut bodies = thaw(connection, keys, leased).await?;
        bodies.extend(freeze((courier, connection), &self, leased, now).await?);
        let hooks = leased.iter().filter(|row| row.step.is_none()).map(|row| row.lane_id);
        let targets = courier.targets.of(connection, hooks.collect()).await?;
        let Kept { keys, secrets, .. } = self.kept;
        Ok(Composed { keys, bodies, secrets, targets, step_headers })
    }

    fn build(&self, row: &Leased) -> Option<Vec<u8>> {
        let Sources { responses, reports, bookings } = &self.kept.sources;
        let response = responses.get(&row.subject())?;
        let form = self.forms.get(&(row.firm_id, row.form_id))?;
        let payload = EventPayload::of(PayloadSource {
            trigger: row.trigger.parse().ok()?,
            form: FormPart {
                id: form.form_id.into(),
                title: form.title.clone(),
                url: form.url.clone(),
            },
            response_id: row.response_id,
            submitted_at: response.submitted_at.unwrap_or(response.saved_at).into(),
            document: &response.document,
            report: own_or_newest(reports.get(&row.subject()), row.report_id),
            booking: own_or_newest(bookings.get(&row.subject()), row.booking_id),
        });
        serde_json::to_vec(&payload).ok()
    }
}

/// The bodies of later tries, as they were frozen.
async fn thaw(
    connection: &mut PgConnection,
    keys: &DataKeys,
    leased: &[Leased],
) -> Result<HashMap<Uuid, FrozenBody>, DeliveryError> {
    let body_ids: HashSet<Uuid> = leased.iter().filter_map(|row| row.body_id).collect();
    if body_ids.is_empty() {
        return Ok(HashMap::new());
    }
    let bodies = bodies::read(connection, keys, &listed(&body_ids)).await?;
    let frozen: HashMap<Uuid, FrozenBody> =
        bodies.into_iter().map(|body| (body.body_id, to_frozen(body))).collect();
    Ok(leased
        .iter()
        .filter_map(|row| Some((row.delivery_id, frozen.get(&row.body_id?)?.clone())))
        .collect())
}

/// The bodies of first tries: one per occurrence, shared by its deliveries in this claim.
async fn freeze(
    (courier, connection): (&Courier, &mut PgConnection),
    ingredients: &Ingredients,
    leased: &[Leased],
    now: Timestamp,
) -> Result<HashMap<Uuid, FrozenBody>, DeliveryError> {
    let first: Vec<&Leased> = leased.iter().filter(|row| row.body_id.is_none()).collect();
    if first.is_empty() {
        return Ok(HashMap::new());
    }
    let mut built: HashMap<Uuid, Body> = HashMap::new();
    for row in &first {
        if !built.contains_key(&row.occurrence_id)
            && let Some(bytes) = build_safely(ingredients, row)
        {
            let body_id = courier.entropy.id_at(now.get());
            built.insert(row.occurrence_id, body(body_id, row.subject(), bytes));
        }
    }
    let bodies: Vec<Body> = built.values().cloned().collect();
    bodies::put(connection, &ingredients.kept.keys, &bodies, now.get(), &*courier.entropy).await?;
    let frozen: HashMap<Uuid, FrozenBody> =
        built.into_iter().map(|(occurrence_id, body)| (occurrence_id, to_frozen(body))).collect();
    Ok(first
        .iter()
        .filter_map(|row| Some((row.delivery_id, frozen.get(&row.occurrence_id)?.clone())))
        .collect())
}

/// Builds a body; one that cannot be built, or panics, costs its own delivery a try and no other
/// anything (case E10).
fn build_safely(ingredients: &Ingredients, row: &Leased) -> Option<Vec<u8>> {
    let built = catch_unwind(AssertUnwindSafe(|| ingredients.build(row))).ok().flatten();
    if built.is_none() {
        tracing::error!(delivery_id = %row.delivery_id, "a body could not be built");
    }
    built
}

/// What payloads are built from.
#[derive(Default)]
struct Sources {
    responses: HashMap<Subject, Response>,
    /// The newest last.
    reports: HashMap<Subject, Vec<ReportDocument>>,
    /// The newest last.
    bookings: HashMap<Subject, Vec<Booking>>,
}

impl Sources {
    async fn read(
        connection: &mut PgConnection,
        keys: &DataKeys,
        wanted: &Wanted,
    ) -> Result<Self, DeliveryError> {
        if wanted.fresh.is_empty() {
            return Ok(Self::default());
        }
        let keys = keys
            .iter()
            .filter(|(subject, _)| wanted.fresh.contains(subject))
            .map(|(subject, key)| (*subject, key.clone()))
            .collect();
        let whole = responses::read_with_parts(connection, &keys).await?;
        let with = |has: fn(&Parts) -> bool| -> Vec<Subject> {
            let some = whole.iter().filter(|(_, parts)| has(parts));
            some.map(|(response, _)| response.subject()).collect()
        };
        let (reported_on, booked) = (with(|parts| parts.reports), with(|parts| parts.bookings));
        let mut documents: HashMap<Subject, Vec<ReportDocument>> = HashMap::new();
        for report in reports::read(connection, &keys, &reported_on).await? {
            documents.entry(report.subject).or_default().push(report.document);
        }
        let mut calls: HashMap<Subject, Vec<Booking>> = HashMap::new();
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

/// Of several reports or calls the occurrence's own, otherwise the newest (ruling 14a).
fn own_or_newest<T: Identified>(parts: Option<&Vec<T>>, own: Option<Uuid>) -> Option<&T> {
    let parts = parts?;
    let of_occurrence = own.and_then(|own| parts.iter().find(|part| part.id() == own));
    of_occurrence.or_else(|| parts.last())
}

/// A part of a response with an id of its own.
trait Identified {
    fn id(&self) -> Uuid;
}

impl Identified for ReportDocument {
    fn id(&self) -> Uuid {
        self.id.into()
    }
}

impl Identified for Booking {
    fn id(&self) -> Uuid {
        self.id.into()
    }
}

fn body(body_id: Uuid, subject: Subject, bytes: Vec<u8>) -> Body {
    Body { body_id, subject, sha256: Sha256::digest(&bytes).into(), bytes }
}

fn to_frozen(body: Body) -> FrozenBody {
    FrozenBody { body_id: body.body_id, sha256: body.sha256, bytes: Bytes::from(body.bytes) }
}

fn listed<T: Copy>(items: &HashSet<T>) -> Vec<T> {
    items.iter().copied().collect()
}
