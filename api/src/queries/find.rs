//! Finds whatever an operator has a piece of: an id or the start of one, a key's start, a hash, a
//! position, a host or a firm's name. The answer says what it is and which commands tell more.

use std::collections::HashMap;

use domain::audit::merkle::Hash;
use domain::operations::search::{self, SearchTerm};
use domain::subscription::shown_target;
use domain::values::Timestamp;
use eventstore::{RecordedEvent, related};
use projector::search::FoundObject;
use projector::{audit, deliveries, firms, receivers};
use serde::Serialize;
use uuid::Uuid;

use super::as_of::unread_error;
use super::causes;
use super::events::{self, EventRef};
use crate::error::Error;
use crate::service::Service;

/// Something that was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Found {
    /// The kind: `firm`, `key`, `hook`, `event`, `entry`, `receiver` and so on.
    pub kind: String,
    /// The id, the position of an event, or the host of a receiver.
    pub id: String,
    /// The firm, if it belongs to one.
    pub firm_id: Option<Uuid>,
    /// The firm's name.
    pub firm: Option<String>,
    /// A name or a sentence for a person.
    pub label: String,
    /// Commands that tell more.
    pub look: Vec<String>,
}

/// The findings for a text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FoundText {
    /// All that was found.
    pub items: Vec<Found>,
    /// Nothing was found, and deliveries before this time have left.
    pub archived_before: Option<Timestamp>,
}

/// Finds a text. `reach` are the firms that the caller may reach; `None` for all.
///
/// # Errors
/// `invalid_request`: nothing can be looked for.
pub async fn find_text(
    service: &Service,
    reach: Option<&[Uuid]>,
    text: &str,
) -> Result<FoundText, Error> {
    let terms = search::search_terms(text);
    if terms.is_empty() {
        return Err(Error::invalid("there is nothing to look for, or more than 300 characters"));
    }
    let mut found = Vec::new();
    let mut names_id = false;
    for term in terms {
        names_id |= matches!(term, SearchTerm::Id(_) | SearchTerm::IdsBetween(..));
        found.extend(of_term(service, term).await?);
    }
    if let Some(reach) = reach {
        found.retain(|one: &Found| one.firm_id.is_some_and(|firm_id| reach.contains(&firm_id)));
    }
    name_firms(service, &mut found).await?;
    let border = if found.is_empty() && names_id {
        deliveries::history_border(service.store.pool()).await?
    } else {
        None
    };
    let archived_before = border.map(|border| border.kept_since.into());
    Ok(FoundText { items: found, archived_before })
}

async fn of_term(service: &Service, term: SearchTerm) -> Result<Vec<Found>, Error> {
    let pool = service.store.pool();
    let objects = match term {
        SearchTerm::Position(position) => return event_at(service, position).await,
        SearchTerm::Hash(hash) => return of_hash(service, hash).await,
        SearchTerm::Id(id) => {
            let mut found = list_found(service, projector::search::by_id(pool, id, id).await?);
            let is_new = |one: &Found| found.iter().all(|known| known.kind != one.kind);
            let in_log: Vec<Found> =
                in_log(service, id).await?.into_iter().filter(is_new).collect();
            found.extend(in_log);
            return Ok(found);
        }
        SearchTerm::Host(host) => {
            let mut found = find_receiver(service, &host).await?;
            found.extend(list_found(service, projector::search::by_host(pool, &host).await?));
            return Ok(found);
        }
        SearchTerm::IdsBetween(low, high) => projector::search::by_id(pool, low, high).await?,
        SearchTerm::KeyStart(start) => projector::search::by_key_start(pool, &start).await?,
        SearchTerm::FirmName(start) => projector::search::by_firm_name(pool, &start).await?,
    };
    Ok(list_found(service, objects))
}

fn list_found(service: &Service, objects: Vec<FoundObject>) -> Vec<Found> {
    objects.into_iter().map(|object| Found::from_service(service, object)).collect()
}

impl Found {
    fn from_service(service: &Service, object: FoundObject) -> Self {
        let id = object.id.to_string();
        let is_hook = object.kind == "hook";
        Self {
            look: service.words.commands_about(&object.kind, &id, object.firm_id),
            label: if is_hook { shown_target(&object.label) } else { object.label },
            kind: object.kind,
            id,
            firm_id: object.firm_id,
            firm: None,
        }
    }

    fn new(
        service: &Service,
        kind: &str,
        id: String,
        firm_id: Option<Uuid>,
        label: String,
    ) -> Self {
        let look = service.words.commands_about(kind, &id, firm_id);
        Self { kind: kind.to_owned(), id, firm_id, firm: None, label, look }
    }
}

async fn event_at(service: &Service, position: i64) -> Result<Vec<Found>, Error> {
    let mut connection = service.store.pool().acquire().await?;
    let upcasters = service.store.upcasters();
    let event =
        related::find_at(&mut connection, &upcasters, position).await.map_err(unread_error)?;
    drop(connection);
    match event {
        Some(event) => Ok(vec![found_event(service, &event).await?]),
        None => Ok(Vec::new()),
    }
}

async fn found_event(service: &Service, event: &RecordedEvent) -> Result<Found, Error> {
    let names = causes::find_names(service, std::iter::once(event)).await?;
    let sentence = service.words.event_sentence(&names, &event.aggregate_id, &event.event);
    let firm_id = Some(event.context.firm_id);
    Ok(Found::new(service, "event", event.position.to_string(), firm_id, sentence))
}

/// An audit entry by its hash, or a key by its SHA-256.
async fn of_hash(service: &Service, hash: Hash) -> Result<Vec<Found>, Error> {
    let pool = service.store.pool();
    let key = projector::search::by_key_hash(pool, hash).await?;
    let mut all = list_found(service, key.into_iter().collect());
    for entry in audit::by_hash(pool, hash).await? {
        let label = format!("{}, entry {} of its chain", entry.action, entry.sequence);
        let firm_id = Some(entry.firm_id);
        all.push(Found::new(service, "entry", entry.position.to_string(), firm_id, label));
        all.extend(event_at(service, entry.position).await?);
    }
    Ok(all)
}

/// The event with this id, and the streams with it that no table has.
async fn in_log(service: &Service, id: Uuid) -> Result<Vec<Found>, Error> {
    let mut all = Vec::new();
    match events::show(service, EventRef::Id(id)).await {
        Ok(shown) => all.extend(event_at(service, shown.step.position).await?),
        Err(Error::NotFound) => {}
        Err(error) => return Err(error),
    }
    match events::of_stream(service, None, &id.to_string(), None, Some(1)).await {
        Ok(page) => {
            let kind = page.items.first().map_or("stream", |first| first.kind);
            let kind = kind.to_lowercase();
            let label = page.items.first().map(|first| first.sentence.clone());
            let firm_id = Some(page.firm_id);
            if !TABLED.contains(&kind.as_str()) {
                let label = label.unwrap_or_default();
                all.push(Found::new(service, &kind, id.to_string(), firm_id, label));
            }
        }
        Err(Error::NotFound) => {}
        Err(error) => return Err(error),
    }
    Ok(all)
}

/// Kinds of streams whose objects a table has. An old delivery may be in the log alone.
const TABLED: [&str; 7] = ["firm", "form", "key", "subscription", "replay", "pause", "accesstoken"];

async fn find_receiver(service: &Service, host: &str) -> Result<Vec<Found>, Error> {
    let wanted = receivers::ReceiverFilter {
        host: Some(host),
        after: None,
        since: service.clock.now().get(),
        limit: 1,
    };
    let rows = receivers::list(service.store.pool(), wanted).await?;
    Ok(rows
        .into_iter()
        .map(|row| {
            let label = format!("{} subscriptions over all firms", row.subscriptions);
            Found::new(service, "receiver", row.host, None, label)
        })
        .collect())
}

async fn name_firms(service: &Service, found: &mut [Found]) -> Result<(), Error> {
    let mut firm_ids: Vec<Uuid> = found.iter().filter_map(|one| one.firm_id).collect();
    firm_ids.sort_unstable();
    firm_ids.dedup();
    let rows = firms::named(service.store.pool(), &firm_ids).await?;
    let names: HashMap<Uuid, String> =
        rows.into_iter().map(|row| (row.firm_id, row.name)).collect();
    for one in found {
        one.firm = one.firm_id.and_then(|firm_id| names.get(&firm_id).cloned());
    }
    Ok(())
}
