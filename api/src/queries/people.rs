//! Everything that was sent about a person, found by the keyed hash of the address. The answer has
//! no content, and the address is neither stored nor answered.

use std::collections::BTreeMap;

use chrono::TimeDelta;
use domain::activity::occurrence_id;
use domain::subscription::{Trigger, shown_target};
use domain::values::Timestamp;
use eventstore::load_first;
use projector::deliveries::{self, DeliveryRow};
use projector::{firms, forms, hooks, people};
use serde::Serialize;
use uuid::Uuid;
use vault::people::{self as named, PersonResponse};

use super::as_of::unread_error;
use super::causes::{self, CauseStep, Chain};
use crate::error::Error;
use crate::service::Service;

/// Deliveries in the answer, at most.
const DELIVERIES_MAX: i64 = 1_000;

/// Days whose invites are looked for. An invite has one id per form, person and day.
pub const INVITE_DAYS: i64 = 90;

/// Everything that was sent about a person.
#[derive(Debug, Serialize)]
pub struct PersonTrail {
    firm_id: Uuid,
    /// The person, by the keyed hash of the address.
    pub person_id: Uuid,
    /// Whether mail may go to the address.
    mail: &'static str,
    /// The last erasure of the person's data.
    erased_at: Option<Timestamp>,
    /// Responses that name the person. Erased ones are gone.
    responses: Vec<ResponseTrail>,
    /// Deliveries about these responses, newest first, at most 1,000.
    deliveries: Vec<DeliveryTrail>,
    /// Deliveries before this time have left, and a response is older.
    #[serde(skip_serializing_if = "Option::is_none")]
    archived_before: Option<Timestamp>,
    /// Subscriptions that got these deliveries.
    subscriptions: Vec<HookTrail>,
    /// Invites of the last 90 days.
    invites: Vec<CauseStep>,
    /// Events about the person's address and erasures.
    events: Vec<CauseStep>,
}

/// A response that names the person.
#[derive(Debug, Serialize)]
struct ResponseTrail {
    id: Uuid,
    form_id: Uuid,
    saved_at: Timestamp,
    submitted_at: Option<Timestamp>,
}

/// A delivery about a response of the person.
#[derive(Debug, Serialize)]
struct DeliveryTrail {
    id: Uuid,
    hook_id: Option<Uuid>,
    trigger: String,
    response_id: Uuid,
    state: String,
    created_at: Timestamp,
}

/// A subscription that got deliveries about the person.
#[derive(Debug, Serialize)]
struct HookTrail {
    id: Uuid,
    target: String,
    deliveries: usize,
}

/// The person with this address, in this firm.
#[must_use]
pub fn person_id(service: &Service, firm_id: Uuid, address: &str) -> Uuid {
    service.inviter.identity.person_named(firm_id, address)
}

/// Everything that was sent about a person of a firm.
///
/// # Errors
/// `firm_not_found`.
pub async fn trail(
    service: &Service,
    firm_id: Uuid,
    person_id: Uuid,
) -> Result<PersonTrail, Error> {
    let pool = service.store.pool();
    firms::is_active(pool, firm_id).await?.ok_or(Error::FirmNotFound)?;
    let mut connection = pool.acquire().await?;
    let state = people::find(&mut *connection, firm_id, person_id).await?;
    let erased_at = people::erased_at(&mut connection, firm_id, person_id).await?;
    let responses = named::responses_of(&mut connection, firm_id, person_id).await?;
    let events = causes::read_streams(&mut connection, [("Person", person_id)]).await?;
    drop(connection);
    let mut chain = Chain::default();
    chain.add_events(events.into_iter().filter(|event| event.context.firm_id == firm_id));
    let found = deliveries_about(service, firm_id, person_id, &responses).await?;
    let border = deliveries::history_border(pool).await?;
    let border = border.filter(|border| {
        responses.iter().any(|response| border.bounds_queued(Some(response.saved_at)))
    });
    let mail = match (state.unsubscribed, state.bounced) {
        (true, _) => "unsubscribed",
        (false, true) => "bounced",
        (false, false) => "allowed",
    };
    Ok(PersonTrail {
        firm_id,
        person_id,
        mail,
        erased_at: erased_at.map(Timestamp::from),
        responses: responses.iter().map(ResponseTrail::new).collect(),
        subscriptions: hook_trails(service, &found).await?,
        archived_before: border.map(|border| border.kept_since.into()),
        deliveries: found.into_iter().map(DeliveryTrail::new).collect(),
        invites: recent_invites(service, firm_id, person_id).await?,
        events: chain.tell_steps(service).await?,
    })
}

/// Deliveries about these responses. The history of the firm is read from the first response on:
/// an index of all deliveries by response would cost each of them a write at a random place.
async fn deliveries_about(
    service: &Service,
    firm_id: Uuid,
    person_id: Uuid,
    responses: &[PersonResponse],
) -> Result<Vec<DeliveryRow>, Error> {
    let pool = service.store.pool();
    let ids: Vec<Uuid> = responses.iter().map(|response| response.response_id).collect();
    let mut found = match responses.iter().map(|response| response.saved_at).min() {
        Some(since) => {
            let since = since - TimeDelta::days(1);
            deliveries::about_responses(pool, firm_id, &ids, since, DELIVERIES_MAX).await?
        }
        None => Vec::new(),
    };
    // A hot lead may be about a response that is erased by now.
    let lead = occurrence_id(firm_id, Trigger::LeadHot, &person_id.to_string());
    let known: Vec<Uuid> = found.iter().map(|row| row.delivery_id).collect();
    let of_lead =
        deliveries::list_among(pool, firm_id, &listed_deliveries(service, lead).await?).await?;
    found.extend(of_lead.into_iter().filter(|row| !known.contains(&row.delivery_id)));
    Ok(found)
}

/// The deliveries that an occurrence lists.
async fn listed_deliveries(service: &Service, occurrence_id: Uuid) -> Result<Vec<Uuid>, Error> {
    let mut connection = service.store.pool().acquire().await?;
    let id = occurrence_id.to_string();
    let upcasters = service.store.upcasters();
    let first = load_first(&mut connection, &upcasters, "Occurrence", &[&id]).await;
    let first = first.map_err(unread_error)?;
    let happening = first.first().and_then(|event| event.event.happening());
    Ok(happening.map_or_else(Vec::new, |happening| {
        happening.deliveries(occurrence_id).map(|(delivery_id, _)| delivery_id).collect()
    }))
}

async fn hook_trails(
    service: &Service,
    deliveries: &[DeliveryRow],
) -> Result<Vec<HookTrail>, Error> {
    let mut counts: BTreeMap<Uuid, usize> = BTreeMap::new();
    for hook_id in deliveries.iter().filter_map(|row| row.hook_id) {
        *counts.entry(hook_id).or_default() += 1;
    }
    let ids: Vec<Uuid> = counts.keys().copied().collect();
    let mut connection = service.store.pool().acquire().await?;
    let targets = hooks::target_urls(&mut connection, &ids).await?;
    let trail = |(id, target): (Uuid, String)| HookTrail {
        id,
        target: shown_target(&target),
        deliveries: counts.get(&id).copied().unwrap_or_default(),
    };
    Ok(targets.into_iter().map(trail).collect())
}

/// Invites of the last days: their ids follow from form, person and day.
async fn recent_invites(
    service: &Service,
    firm_id: Uuid,
    person_id: Uuid,
) -> Result<Vec<CauseStep>, Error> {
    let mut connection = service.store.pool().acquire().await?;
    let form_ids = forms::all_ids(&mut connection, firm_id).await?;
    let today = service.clock.now().get().date_naive();
    let days = (0..INVITE_DAYS).map(|back| today - TimeDelta::days(back));
    let ids: Vec<Uuid> = days
        .flat_map(|day| {
            form_ids.iter().map(move |form_id| {
                domain::invite::InviteOf { form_id: *form_id, person_id, day }.id(firm_id)
            })
        })
        .collect();
    let mut chain = Chain::default();
    for ids in ids.chunks(1_000) {
        let names = ids.iter().map(|id| ("Invite", *id));
        chain.add_events(causes::read_streams(&mut connection, names).await?);
    }
    drop(connection);
    chain.tell_steps(service).await
}

impl ResponseTrail {
    fn new(response: &PersonResponse) -> Self {
        Self {
            id: response.response_id,
            form_id: response.form_id,
            saved_at: response.saved_at.into(),
            submitted_at: response.submitted_at.map(Timestamp::from),
        }
    }
}

impl DeliveryTrail {
    fn new(row: DeliveryRow) -> Self {
        Self {
            id: row.delivery_id,
            hook_id: row.hook_id,
            trigger: row.trigger,
            response_id: row.response_id,
            state: row.state,
            created_at: row.created_at.into(),
        }
    }
}
