//! Looks of a member. Each is recorded before the data are shown, except those at figures and at
//! the list of keys.

use std::collections::HashMap;

use auditor::lines;
use domain::audit::Action;
use domain::delivery::DeliveryState;
use domain::delivery::replay::{ReplayConditions, ReplaySkip, skip_reason};
use domain::operations::{ReadAs, ReadingDetails, ReadingSubject};
use domain::subscription::shown_target;
use domain::values::AsOf;
pub use projector::as_of::DeliveryThen;
use projector::audit::{self, AuditFilter};
use projector::deliveries::{self, RunPage};
pub use projector::deliveries::{DeliveryRow, HookHealth};
use projector::hooks;
pub use projector::hooks::HookLife;
pub use projector::keys::KeyRow;
use projector::replay_items;
use serde_json::Value;
use uuid::Uuid;
use vault::bodies;

use super::PortalSession;
use crate::commands::{keys as key_commands, steps as step_commands};
use crate::error::Error;
use crate::queries::as_of::{self, HookFilter};
use crate::queries::history::{self, HookHistory};
use crate::queries::listing::{self, DeliveryListQuery, HookListQuery, ListPage};
use crate::service::Service;

/// Rows of a page.
const PAGE_ROWS: i64 = 50;

/// Keys with the number of their live subscriptions.
#[derive(Debug)]
pub struct KeysWithHooks {
    /// A page of active or revoked keys, newest first.
    pub page: ListPage<KeyRow>,
    /// The live subscriptions of the firm, by key.
    pub hooks: HashMap<Uuid, usize>,
}

/// The kind of keys in a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyFilter {
    /// Active keys.
    Active,
    /// Revoked keys.
    Revoked,
}

/// A page of the firm's keys.
///
/// # Errors
/// `not_found`: the start of the page is no such key.
pub async fn keys(
    service: &Service,
    session: &PortalSession,
    which: KeyFilter,
    after: Option<Uuid>,
) -> Result<KeysWithHooks, Error> {
    let firm_id = session.firm_id();
    let mut rows = key_commands::list(service, firm_id).await?;
    rows.retain(|key| key.revoked_at.is_some() == (which == KeyFilter::Revoked));
    if let Some(after) = after {
        let last = rows.iter().position(|key| key.key_id == after).ok_or(Error::NotFound)?;
        rows.drain(..=last);
    }
    let mut of_key = HashMap::new();
    for hook in hooks::list_live(service.store.pool(), firm_id).await? {
        *of_key.entry(hook.key_id).or_default() += 1;
    }
    let page = ListPage::new(rows, PAGE_ROWS, |key| key.key_id);
    Ok(KeysWithHooks { page, hooks: of_key })
}

/// Figures of the firm right now.
#[derive(Debug, Clone, Copy)]
pub struct FirmFigures {
    /// Active keys.
    pub keys: usize,
    /// Live subscriptions.
    pub hooks: usize,
    /// Live subscriptions that the next 410 removes.
    pub warned: usize,
}

/// Counts for the first page.
pub async fn figures(service: &Service, session: &PortalSession) -> Result<FirmFigures, Error> {
    let firm_id = session.firm_id();
    let keys = key_commands::list(service, firm_id).await?;
    let pool = service.store.pool();
    Ok(FirmFigures {
        keys: keys.iter().filter(|key| key.revoked_at.is_none()).count(),
        hooks: hooks::list_live(pool, firm_id).await?.len(),
        warned: hooks::list_warned(pool, firm_id).await?.len(),
    })
}

/// A key with the live subscriptions that go with it.
#[derive(Debug, Clone)]
pub struct KeyWithHooks {
    /// The key.
    pub key: KeyRow,
    /// The subscriptions, with masked targets.
    pub hooks: Vec<HookLife>,
}

/// A key with the live subscriptions that go with it.
///
/// # Errors
/// `not_found`.
pub async fn key(
    service: &Service,
    session: &PortalSession,
    key_id: Uuid,
) -> Result<KeyWithHooks, Error> {
    let keys = key_commands::list(service, session.firm_id()).await?;
    let key = keys.into_iter().find(|key| key.key_id == key_id);
    let key = key.ok_or(Error::NotFound)?;
    let look = ReadingDetails {
        key_id: Some(key_id),
        ..ReadingDetails::at(ReadingSubject::Key, ReadAs::Page)
    };
    session.record_look(service, look).await?;
    let live = hooks::list_live(service.store.pool(), session.firm_id()).await?;
    let hooks = live.into_iter().filter(|hook| hook.key_id == key_id).map(mask_target).collect();
    Ok(KeyWithHooks { key, hooks })
}

fn mask_target(hook: HookLife) -> HookLife {
    HookLife { target_url: shown_target(&hook.target_url), ..hook }
}

/// Subscriptions with their health.
#[derive(Debug)]
pub struct HooksWithHealth {
    /// A page of subscriptions, with masked targets.
    pub page: ListPage<HookLife>,
    /// The health of the live ones.
    pub health: Vec<HookHealth>,
    /// Live subscriptions that the next 410 removes.
    pub warned: Vec<Uuid>,
}

/// A page of the firm's live or removed subscriptions.
///
/// # Errors
/// `invalid_request`.
pub async fn hooks(
    service: &Service,
    session: &PortalSession,
    which: HookFilter,
    after: Option<Uuid>,
) -> Result<HooksWithHealth, Error> {
    let firm_id = session.firm_id();
    session.record_look(service, ReadingDetails::at(ReadingSubject::Hooks, ReadAs::Page)).await?;
    let asked = HookListQuery { which, as_of: None, after, limit: Some(PAGE_ROWS) };
    let ListPage { rows, next, archived_before } = listing::hooks(service, firm_id, asked).await?;
    let live: Vec<Uuid> =
        rows.iter().filter(|hook| hook.removed_at.is_none()).map(|hook| hook.hook_id).collect();
    let pool = service.store.pool();
    let health = deliveries::hook_health(pool, firm_id, &live).await?;
    let warned = hooks::list_warned(pool, firm_id).await?.iter().map(|hook| hook.hook_id).collect();
    let page =
        ListPage { rows: rows.into_iter().map(mask_target).collect(), next, archived_before };
    Ok(HooksWithHealth { page, health, warned })
}

/// A subscription's life and end, with the health of its newest deliveries.
///
/// # Errors
/// `not_found`.
pub async fn hook(
    service: &Service,
    session: &PortalSession,
    hook_id: Uuid,
) -> Result<(HookHistory, HookHealth), Error> {
    require_hook(service, session, hook_id).await?;
    let found = history::of_hook(service, hook_id, None).await?;
    if found.firm_id != session.firm_id() {
        return Err(Error::NotFound);
    }
    let look = ReadingDetails {
        hook_id: Some(hook_id),
        ..ReadingDetails::at(ReadingSubject::Hook, ReadAs::Page)
    };
    session.record_look(service, look).await?;
    let pool = service.store.pool();
    let health = deliveries::hook_health(pool, session.firm_id(), &[hook_id]).await?.pop();
    Ok((found, health.unwrap_or_default()))
}

/// Finds out whether the firm has or had this subscription, before its history is read.
///
/// # Errors
/// `not_found`.
pub(super) async fn require_hook(
    service: &Service,
    session: &PortalSession,
    hook_id: Uuid,
) -> Result<(), Error> {
    let found = hooks::life_positions(service.store.pool(), session.firm_id(), hook_id).await?;
    found.map(drop).ok_or(Error::NotFound)
}

/// A page of deliveries with these filters.
///
/// # Errors
/// `invalid_request`.
pub async fn deliveries(
    service: &Service,
    session: &PortalSession,
    asked: DeliveryListQuery,
) -> Result<ListPage<DeliveryRow>, Error> {
    session.record_look(service, asked.reading_details()).await?;
    let asked = DeliveryListQuery { limit: Some(PAGE_ROWS), as_of: None, ..asked };
    listing::deliveries(service, session.firm_id(), &asked).await
}

/// A page of the deliveries of workflow steps.
///
/// # Errors
/// `invalid_request`.
pub async fn steps(
    service: &Service,
    session: &PortalSession,
    after: Option<Uuid>,
) -> Result<ListPage<DeliveryRow>, Error> {
    let asked = DeliveryListQuery { after, limit: Some(PAGE_ROWS), ..DeliveryListQuery::default() };
    session.record_look(service, asked.reading_details()).await?;
    listing::steps(service, session.firm_id(), &asked).await
}

/// A page of the steps of a run, oldest first. A failed one is read from its stream, which knows a
/// retry before the table does.
///
/// # Errors
/// `not_found`.
pub async fn run(
    service: &Service,
    session: &PortalSession,
    run_id: Uuid,
    after: Option<Uuid>,
) -> Result<ListPage<DeliveryRow>, Error> {
    let firm_id = session.firm_id();
    session
        .record_look(service, ReadingDetails::at(ReadingSubject::Deliveries, ReadAs::Page))
        .await?;
    let pool = service.store.pool();
    let after = match after {
        Some(id) => {
            let at = deliveries::created_at(pool, firm_id, id).await?;
            Some((at.ok_or(Error::NotFound)?, id))
        }
        None => None,
    };
    let wanted = RunPage { firm_id, run_id, after, limit: PAGE_ROWS };
    let mut page =
        ListPage::new(deliveries::of_run(pool, wanted).await?, PAGE_ROWS, |row| row.delivery_id);
    if page.rows.is_empty() && after.is_none() {
        return Err(Error::NotFound);
    }
    let is_failed = |row: &DeliveryRow| row.state == DeliveryState::Failed.name();
    let failed: Vec<Uuid> =
        page.rows.iter().filter(|row| is_failed(row)).map(|row| row.delivery_id).collect();
    let mut now = step_commands::from_streams(service, firm_id, &failed).await?;
    for row in &mut page.rows {
        if let Some(then) = now.remove(&row.delivery_id) {
            *row = then.row;
        }
    }
    Ok(page)
}

/// A delivery with its tries, and why it cannot be sent again.
#[derive(Debug)]
pub struct DeliveryOutlook {
    /// The delivery. The targets are masked.
    pub then: DeliveryThen,
    /// The reason, if a failed delivery of a subscription cannot be sent again.
    pub skip: Option<ReplaySkip>,
}

/// A delivery with its tries, from its stream.
///
/// # Errors
/// `delivery_not_found`.
pub async fn delivery(
    service: &Service,
    session: &PortalSession,
    delivery_id: Uuid,
) -> Result<DeliveryOutlook, Error> {
    let (then, _) = as_of::delivery(service, session.firm_id(), delivery_id, AsOf::NOW).await?;
    let look = ReadingDetails {
        delivery_id: Some(delivery_id),
        ..ReadingDetails::at(ReadingSubject::Delivery, ReadAs::Page)
    };
    session.record_look(service, look).await?;
    let is_failed = then.row.hook_id.is_some() && then.row.state == DeliveryState::Failed.name();
    let skip = if is_failed { replay_skip(service, delivery_id).await? } else { None };
    Ok(DeliveryOutlook { then, skip })
}

/// Whether a list of entries has those of looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LookFilter {
    /// Without looks.
    Hidden,
    /// With looks.
    Shown,
}

/// Entries of the audit log as JSON, newest first, and the start of the next page.
pub async fn audit(
    service: &Service,
    session: &PortalSession,
    looks: LookFilter,
    before: Option<i64>,
) -> Result<(Vec<Value>, Option<i64>), Error> {
    session.record_look(service, ReadingDetails::at(ReadingSubject::Audit, ReadAs::Page)).await?;
    let actions = Action::action_words(&[], looks == LookFilter::Hidden);
    let filter = AuditFilter { actions, before, ..AuditFilter::default() };
    let rows =
        audit::list_entries(service.store.pool(), session.firm_id(), &filter, PAGE_ROWS).await?;
    let is_full = i64::try_from(rows.len()) == Ok(PAGE_ROWS);
    let next = rows.last().filter(|_| is_full).map(|row| row.sequence);
    Ok((rows.iter().map(lines::entry_json).collect(), next))
}

/// Why a failed delivery of a subscription cannot be sent again, if it cannot.
pub(super) async fn replay_skip(
    service: &Service,
    delivery_id: Uuid,
) -> Result<Option<ReplaySkip>, Error> {
    let mut connection = service.store.pool().acquire().await?;
    let found = projector::replays::find_replayable(&mut connection, &[delivery_id]).await?.pop();
    let Some(found) = found else { return Ok(Some(ReplaySkip::NotSelected)) };
    let under_way = replay_items::is_waiting(&mut connection, delivery_id).await?;
    let kept = bodies::kept_among(&mut connection, found.body_id.as_slice()).await?;
    Ok(skip_reason(ReplayConditions { under_way, ..found.replay_conditions(&kept) }))
}
