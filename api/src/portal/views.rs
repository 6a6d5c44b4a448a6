//! Looks of a member. Each is recorded before the data are shown.

use auditor::lines;
use domain::as_of::AsOf;
use domain::reading::{ReadAs, ReadingDetails, ReadingSubject};
use domain::target::shown_target;
pub use projector::as_of::DeliveryThen;
use projector::audit::{self, AuditFilter};
use projector::deliveries;
pub use projector::deliveries::{DeliveryRow, HookHealth};
use projector::hooks;
pub use projector::hooks::HookLife;
pub use projector::keys::KeyRow;
use serde_json::Value;
use uuid::Uuid;

use super::PortalSession;
use crate::commands::keys;
use crate::error::Error;
use crate::queries::as_of::{self, HookFilter};
use crate::queries::history::{self, HookHistory};
use crate::queries::listing::{self, DeliveryListQuery, HookListQuery, ListPage};
use crate::service::Service;

/// Rows of a page.
const PAGE_ROWS: i64 = 50;

/// Most steps of a run that a page shows.
const RUN_STEPS_MAX: i64 = 200;

/// All keys of the firm, newest first.
///
/// # Errors
/// None but the database's.
pub async fn keys(service: &Service, session: &PortalSession) -> Result<Vec<KeyRow>, Error> {
    keys::list(service, session.firm_id()).await
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
    let key = keys(service, session).await?.into_iter().find(|key| key.key_id == key_id);
    let key = key.ok_or(Error::NotFound)?;
    let look = ReadingDetails {
        key_id: Some(key_id),
        ..ReadingDetails::at(ReadingSubject::Key, ReadAs::Page)
    };
    session.record(service, look).await?;
    let live = hooks::list_live(service.store.pool(), session.firm_id()).await?;
    let hooks = live.into_iter().filter(|hook| hook.key_id == key_id).map(masked).collect();
    Ok(KeyWithHooks { key, hooks })
}

fn masked(hook: HookLife) -> HookLife {
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
    session.record(service, ReadingDetails::at(ReadingSubject::Hooks, ReadAs::Page)).await?;
    let asked = HookListQuery { which, as_of: None, after, limit: Some(PAGE_ROWS) };
    let ListPage { rows, next } = listing::hooks(service, firm_id, asked).await?;
    let live: Vec<Uuid> =
        rows.iter().filter(|hook| hook.removed_at.is_none()).map(|hook| hook.hook_id).collect();
    let pool = service.store.pool();
    let health = deliveries::health(pool, firm_id, &live).await?;
    let warned = hooks::list_warned(pool, firm_id).await?.iter().map(|hook| hook.hook_id).collect();
    let page = ListPage { rows: rows.into_iter().map(masked).collect(), next };
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
    let found = history::of_hook(service, hook_id, None).await?;
    if found.firm_id != session.firm_id() {
        return Err(Error::NotFound);
    }
    let look = ReadingDetails {
        hook_id: Some(hook_id),
        ..ReadingDetails::at(ReadingSubject::Hook, ReadAs::Page)
    };
    session.record(service, look).await?;
    let pool = service.store.pool();
    let health = deliveries::health(pool, session.firm_id(), &[hook_id]).await?.pop();
    Ok((found, health.unwrap_or_default()))
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
    session.record(service, asked.look()).await?;
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
    session.record(service, asked.look()).await?;
    listing::steps(service, session.firm_id(), &asked).await
}

/// The steps of a run, oldest first.
///
/// # Errors
/// `not_found`.
pub async fn run(
    service: &Service,
    session: &PortalSession,
    run_id: Uuid,
) -> Result<Vec<DeliveryRow>, Error> {
    let firm_id = session.firm_id();
    session.record(service, ReadingDetails::at(ReadingSubject::Deliveries, ReadAs::Page)).await?;
    let steps = deliveries::of_run(service.store.pool(), firm_id, run_id, RUN_STEPS_MAX).await?;
    if steps.is_empty() { Err(Error::NotFound) } else { Ok(steps) }
}

/// A delivery with its tries. The targets are masked.
///
/// # Errors
/// `delivery_not_found`.
pub async fn delivery(
    service: &Service,
    session: &PortalSession,
    delivery_id: Uuid,
) -> Result<DeliveryThen, Error> {
    let (found, _) = as_of::delivery(service, session.firm_id(), delivery_id, AsOf::NOW).await?;
    let look = ReadingDetails {
        delivery_id: Some(delivery_id),
        ..ReadingDetails::at(ReadingSubject::Delivery, ReadAs::Page)
    };
    session.record(service, look).await?;
    Ok(found)
}

/// Entries of the audit log as JSON, newest first, and the start of the next page.
///
/// # Errors
/// None but the database's.
pub async fn audit(
    service: &Service,
    session: &PortalSession,
    before: Option<i64>,
) -> Result<(Vec<Value>, Option<i64>), Error> {
    session.record(service, ReadingDetails::at(ReadingSubject::Audit, ReadAs::Page)).await?;
    let filter = AuditFilter { before, ..AuditFilter::default() };
    let rows = audit::list(service.store.pool(), session.firm_id(), &filter, PAGE_ROWS).await?;
    let is_full = i64::try_from(rows.len()) == Ok(PAGE_ROWS);
    let next = rows.last().filter(|_| is_full).map(|row| row.sequence);
    Ok((rows.iter().map(lines::entry_json).collect(), next))
}
