//! Lists deliveries and subscriptions. The internal API and the terminal have the same filters.

use std::collections::HashSet;

use domain::delivery::DeliveryState;
use domain::operations::{ReadAs, ReadingDetails, ReadingSubject};
use domain::subscription::Trigger;
use domain::values::{AsOf, Timestamp};
use projector::deliveries::{self, DeliveryFilter, DeliveryRow};
use projector::firms;
use projector::hooks::{self, HookLife};
use uuid::Uuid;

use crate::error::Error;
use crate::queries::as_of::{self, HookFilter};
use crate::service::Service;

/// Rows in a page, if the caller asks for no number.
pub const LIST_LIMIT_DEFAULT: i64 = 50;

/// Most rows in a page.
pub const LIST_LIMIT_MAX: i64 = 500;

/// Filters of a list of deliveries.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeliveryListQuery {
    /// Only deliveries of this subscription.
    pub hook_id: Option<Uuid>,
    /// Only deliveries of this trigger.
    pub trigger: Option<String>,
    /// Only deliveries in this state.
    pub state: Option<DeliveryState>,
    /// Only deliveries queued at this time or later.
    pub since: Option<Timestamp>,
    /// Only deliveries queued before this time.
    pub until: Option<Timestamp>,
    /// Only deliveries after this one of the list.
    pub after: Option<Uuid>,
    /// Rows in the page; 50 by default.
    pub limit: Option<i64>,
    /// List as it was at this position or instant. Only `limit` may be given beside it.
    pub as_of: Option<String>,
}

impl DeliveryListQuery {
    /// Details of the reading that this query is.
    #[must_use]
    pub fn reading_details(&self) -> ReadingDetails {
        let Self { hook_id, since, until, .. } = *self;
        ReadingDetails {
            hook_id,
            since,
            until,
            ..ReadingDetails::at(ReadingSubject::Deliveries, ReadAs::Page)
        }
    }
}

/// A page, with the start of the next page if there may be one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListPage<R> {
    /// Rows, newest first.
    pub rows: Vec<R>,
    /// Id of the last row, if the page is full.
    pub next: Option<Uuid>,
    /// Rows before this time have left, and the question reaches there.
    pub archived_before: Option<Timestamp>,
}

/// A firm's deliveries as they were.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliveriesThen {
    /// The newest ones then.
    pub rows: Vec<DeliveryRow>,
    /// The responses among theirs that are erased by now.
    pub erased: HashSet<Uuid>,
    /// Deliveries before this time have left.
    pub archived_before: Option<Timestamp>,
}

/// A page of a firm's deliveries.
///
/// # Errors
/// `firm_not_found`; `invalid_request`.
pub async fn deliveries(
    service: &Service,
    firm_id: Uuid,
    asked: &DeliveryListQuery,
) -> Result<ListPage<DeliveryRow>, Error> {
    let wanted = delivery_filter(service, firm_id, asked).await?;
    let rows = deliveries::list(service.store.pool(), firm_id, &wanted).await?;
    let page = ListPage::new(rows, wanted.limit, |row| row.delivery_id);
    Ok(ListPage { archived_before: archived_before(service, asked).await?, ..page })
}

/// The time before which deliveries have left, if the question reaches there. Pending ones stay.
async fn archived_before(
    service: &Service,
    asked: &DeliveryListQuery,
) -> Result<Option<Timestamp>, Error> {
    if asked.state == Some(DeliveryState::Pending) {
        return Ok(None);
    }
    let border = deliveries::history_border(service.store.pool()).await?;
    let since = asked.since.map(Timestamp::get);
    Ok(border.filter(|border| border.bounds_queued(since)).map(|border| border.kept_since.into()))
}

/// Number of deliveries before this one in the list with these filters, at most `most`.
///
/// # Errors
/// `firm_not_found`; `invalid_request`.
pub async fn count_newer(
    service: &Service,
    firm_id: Uuid,
    than: Uuid,
    most: i64,
    asked: DeliveryListQuery,
) -> Result<usize, Error> {
    let pool = service.store.pool();
    let at = deliveries::created_at(pool, firm_id, than).await?;
    let at = at.ok_or_else(|| Error::invalid("`than` is no delivery of this firm"))?;
    let first = DeliveryListQuery { limit: Some(most), after: None, ..asked };
    let rows =
        deliveries::list(pool, firm_id, &delivery_filter(service, firm_id, &first).await?).await?;
    let is_newer = |row: &&DeliveryRow| (row.created_at, row.delivery_id) > (at, than);
    Ok(rows.iter().take_while(is_newer).count())
}

/// A firm's newest deliveries as they were.
///
/// # Errors
/// `firm_not_found`; `invalid_request`.
pub async fn deliveries_then(
    service: &Service,
    firm_id: Uuid,
    asked: &DeliveryListQuery,
) -> Result<DeliveriesThen, Error> {
    let alone = DeliveryListQuery {
        limit: asked.limit,
        as_of: asked.as_of.clone(),
        ..DeliveryListQuery::default()
    };
    if *asked != alone {
        return Err(Error::invalid("beside `as_of` there may be `limit`, and nothing else"));
    }
    let wanted = delivery_filter(service, firm_id, asked).await?;
    let as_of = as_of::read(service, asked.as_of.as_deref().unwrap_or_default()).await?;
    let limit = usize::try_from(wanted.limit).unwrap_or_default();
    let (rows, erased) = as_of::deliveries(service, firm_id, as_of, limit).await?;
    let archived_before = archived_before(service, asked).await?;
    Ok(DeliveriesThen { rows, erased, archived_before })
}

/// A page of the deliveries of a firm's workflow steps.
///
/// # Errors
/// `firm_not_found`; `invalid_request`.
pub async fn steps(
    service: &Service,
    firm_id: Uuid,
    asked: &DeliveryListQuery,
) -> Result<ListPage<DeliveryRow>, Error> {
    let wanted = delivery_filter(service, firm_id, asked).await?;
    let rows = deliveries::list_steps(service.store.pool(), firm_id, &wanted).await?;
    let page = ListPage::new(rows, wanted.limit, |row| row.delivery_id);
    Ok(ListPage { archived_before: archived_before(service, asked).await?, ..page })
}

impl<R> ListPage<R> {
    pub(crate) fn new(mut rows: Vec<R>, limit: i64, id: impl Fn(&R) -> Uuid) -> Self {
        rows.truncate(usize::try_from(limit).unwrap_or_default());
        let full = i64::try_from(rows.len()) == Ok(limit);
        let next = rows.last().filter(|_| full).map(id);
        Self { rows, next, archived_before: None }
    }

    /// The time before which rows have left, on the last page of a list that ends there.
    #[must_use]
    pub fn ends_at(&self) -> Option<Timestamp> {
        self.archived_before.filter(|_| self.next.is_none())
    }
}

/// Filters of a list of subscriptions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HookListQuery {
    /// Kind of subscription.
    pub which: HookFilter,
    /// List as it was at this position or instant.
    pub as_of: Option<AsOf>,
    /// Only subscriptions after this one of the list.
    pub after: Option<Uuid>,
    /// Rows in the page; 500 by default.
    pub limit: Option<i64>,
}

/// A page of a firm's subscriptions.
///
/// # Errors
/// `invalid_request`.
pub async fn hooks(
    service: &Service,
    firm_id: Uuid,
    asked: HookListQuery,
) -> Result<ListPage<HookLife>, Error> {
    let pool = service.store.pool();
    let limit = checked_limit(asked.limit.unwrap_or(LIST_LIMIT_MAX))?;
    let places = match asked.after.filter(|_| asked.as_of.is_none()) {
        Some(id) => Some(hooks::life_positions(pool, firm_id, id).await?.ok_or_else(no_hook)?),
        None => None,
    };
    let lives = match (asked.as_of, asked.which) {
        (None, HookFilter::Removed(period)) => {
            let after = places.map(|(_, removed)| removed.ok_or_else(no_hook)).transpose()?;
            hooks::list_removed(pool, firm_id, period, after, limit).await?
        }
        (None, HookFilter::Warned) => made_before(hooks::list_warned(pool, firm_id).await?, places),
        (None, HookFilter::Live) => made_before(hooks::list_live(pool, firm_id).await?, places),
        (Some(as_of), which) => {
            rest_after(as_of::hooks(service, firm_id, as_of, which).await?, asked.after)?
        }
    };
    Ok(ListPage::new(lives, limit, |life| life.hook_id))
}

/// Subscriptions made before the one with these positions, which may have moved to another list.
fn made_before(mut lives: Vec<HookLife>, places: Option<(i64, Option<i64>)>) -> Vec<HookLife> {
    lives.retain(|life| places.is_none_or(|(made, _)| life.created_position < made));
    lives
}

/// Rows after this one, in a list that does not change.
fn rest_after(mut lives: Vec<HookLife>, after: Option<Uuid>) -> Result<Vec<HookLife>, Error> {
    if let Some(id) = after {
        let last = lives.iter().position(|life| life.hook_id == id).ok_or_else(no_hook)?;
        lives.drain(..=last);
    }
    Ok(lives)
}

fn no_hook() -> Error {
    Error::invalid("`after` is no subscription of this list")
}

/// The length of a page, if it is allowed.
pub(crate) fn checked_limit(limit: i64) -> Result<i64, Error> {
    if (1..=LIST_LIMIT_MAX).contains(&limit) {
        Ok(limit)
    } else {
        Err(Error::invalid("`limit` must be a whole number from 1 to 500"))
    }
}

async fn delivery_filter(
    service: &Service,
    firm_id: Uuid,
    asked: &DeliveryListQuery,
) -> Result<DeliveryFilter, Error> {
    let pool = service.store.pool();
    let limit = checked_limit(asked.limit.unwrap_or(LIST_LIMIT_DEFAULT))?;
    let trigger: Option<Trigger> = match &asked.trigger {
        Some(key) => Some(
            key.parse().map_err(|_| Error::invalid("`trigger` must be the key of a trigger"))?,
        ),
        None => None,
    };
    firms::is_active(pool, firm_id).await?.ok_or(Error::FirmNotFound)?;
    let after = match asked.after {
        Some(id) => {
            let last = deliveries::created_at(pool, firm_id, id).await?;
            let last = last.ok_or_else(|| Error::invalid("`after` is no delivery of this firm"))?;
            Some((last, id))
        }
        None => None,
    };
    Ok(DeliveryFilter {
        hook_id: asked.hook_id,
        trigger,
        state: asked.state,
        since: asked.since.map(Timestamp::get),
        until: asked.until.map(Timestamp::get),
        after,
        limit,
    })
}
