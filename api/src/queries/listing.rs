//! Listing deliveries and subscriptions: the same filters by the internal door and at the terminal.

use std::collections::HashSet;

use domain::as_of::AsOf;
use domain::delivery::DeliveryState;
use domain::reading::{ReadAs, ReadingDetails, ReadingSubject};
use domain::time::Timestamp;
use domain::trigger::Trigger;
use projector::deliveries::{self, DeliveryFilter, DeliveryRow};
use projector::firms;
use projector::hooks::{self, HookLife};
use serde::Deserialize;
use uuid::Uuid;

use crate::error::Error;
use crate::queries::as_of::{self, HookFilter};
use crate::service::Service;

/// How many are listed when nothing is said.
pub const LIST_LIMIT_DEFAULT: i64 = 50;

/// How many are listed at most.
pub const LIST_LIMIT_MAX: i64 = 500;

/// What is asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeliveryListQuery {
    /// Only this subscription's.
    pub hook_id: Option<Uuid>,
    /// Only this trigger's.
    pub trigger: Option<String>,
    /// Only those that stand so.
    pub state: Option<DeliveryState>,
    /// Only those queued then or later.
    pub since: Option<Timestamp>,
    /// Only those queued before.
    pub until: Option<Timestamp>,
    /// Only those after this one of the list.
    pub after: Option<Uuid>,
    /// How many; 50 unless it is said.
    pub limit: Option<i64>,
    /// As it was at this position or instant; with `limit` alone.
    pub as_of: Option<String>,
}

impl DeliveryListQuery {
    /// What somebody reads who is shown that.
    #[must_use]
    pub const fn look(&self) -> ReadingDetails {
        let Self { hook_id, since, until, .. } = *self;
        ReadingDetails {
            hook_id,
            since,
            until,
            ..ReadingDetails::at(ReadingSubject::Deliveries, ReadAs::Page)
        }
    }
}

/// A page, and where the next one begins, if there may be one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListPage<R> {
    /// The rows, newest first.
    pub rows: Vec<R>,
    /// The last of them.
    pub next: Option<Uuid>,
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
    let wanted = wanted(service, firm_id, asked).await?;
    let rows = deliveries::list(service.store.pool(), firm_id, &wanted).await?;
    Ok(ListPage::of(rows, wanted.limit, |row| row.delivery_id))
}

/// A firm's newest deliveries as they were, and which of their responses are erased by now.
///
/// # Errors
/// `firm_not_found`; `invalid_request`.
pub async fn deliveries_then(
    service: &Service,
    firm_id: Uuid,
    asked: &DeliveryListQuery,
) -> Result<(Vec<DeliveryRow>, HashSet<Uuid>), Error> {
    let alone = DeliveryListQuery {
        limit: asked.limit,
        as_of: asked.as_of.clone(),
        ..DeliveryListQuery::default()
    };
    if *asked != alone {
        return Err(Error::invalid("beside `as_of` there may be `limit`, and nothing else"));
    }
    let wanted = wanted(service, firm_id, asked).await?;
    let as_of = as_of::read(service, asked.as_of.as_deref().unwrap_or_default()).await?;
    let limit = usize::try_from(wanted.limit).unwrap_or_default();
    as_of::deliveries(service, (firm_id, as_of), limit).await
}

/// A page of what a firm's workflow steps send.
///
/// # Errors
/// `firm_not_found`; `invalid_request`.
pub async fn steps(
    service: &Service,
    firm_id: Uuid,
    asked: &DeliveryListQuery,
) -> Result<ListPage<DeliveryRow>, Error> {
    let wanted = wanted(service, firm_id, asked).await?;
    let rows = deliveries::list_steps(service.store.pool(), firm_id, &wanted).await?;
    Ok(ListPage::of(rows, wanted.limit, |row| row.delivery_id))
}

impl<R> ListPage<R> {
    fn of(mut rows: Vec<R>, limit: i64, id: impl Fn(&R) -> Uuid) -> Self {
        rows.truncate(usize::try_from(limit).unwrap_or_default());
        let full = i64::try_from(rows.len()) == Ok(limit);
        let next = rows.last().filter(|_| full).map(id);
        Self { rows, next }
    }
}

/// Which of a firm's subscriptions are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HookListQuery {
    /// Of which kind.
    pub which: HookFilter,
    /// As it was at this position or instant.
    pub as_of: Option<AsOf>,
    /// Only those after this one of the list.
    pub after: Option<Uuid>,
    /// How many; 500 unless it is said.
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
    let limit = within(asked.limit.unwrap_or(LIST_LIMIT_MAX))?;
    let places = match asked.after.filter(|_| asked.as_of.is_none()) {
        Some(id) => Some(hooks::positions(pool, firm_id, id).await?.ok_or_else(no_hook)?),
        None => None,
    };
    let lives = match (asked.as_of, asked.which) {
        (None, HookFilter::Removed(since)) => {
            let after = places.map(|(_, removed)| removed.ok_or_else(no_hook)).transpose()?;
            hooks::list_removed(pool, firm_id, (since, after), limit).await?
        }
        (None, HookFilter::Warned) => made_before(hooks::list_warned(pool, firm_id).await?, places),
        (None, HookFilter::Live) => made_before(hooks::list_live(pool, firm_id).await?, places),
        (Some(as_of), which) => {
            rest(as_of::hooks(service, (firm_id, as_of), which).await?, asked.after)?
        }
    };
    Ok(ListPage::of(lives, limit, |life| life.hook_id))
}

/// Those made before the one with these places, which may be of another list by now.
fn made_before(mut lives: Vec<HookLife>, places: Option<(i64, Option<i64>)>) -> Vec<HookLife> {
    lives.retain(|life| places.is_none_or(|(made, _)| life.created_position < made));
    lives
}

/// What comes after this one of a list that stays as it is.
fn rest(mut lives: Vec<HookLife>, after: Option<Uuid>) -> Result<Vec<HookLife>, Error> {
    if let Some(id) = after {
        let last = lives.iter().position(|life| life.hook_id == id).ok_or_else(no_hook)?;
        lives.drain(..=last);
    }
    Ok(lives)
}

fn no_hook() -> Error {
    Error::invalid("`after` is no subscription of this list")
}

fn within(limit: i64) -> Result<i64, Error> {
    if (1..=LIST_LIMIT_MAX).contains(&limit) {
        Ok(limit)
    } else {
        Err(Error::invalid("`limit` must be a whole number from 1 to 500"))
    }
}

async fn wanted(
    service: &Service,
    firm_id: Uuid,
    asked: &DeliveryListQuery,
) -> Result<DeliveryFilter, Error> {
    let pool = service.store.pool();
    let limit = within(asked.limit.unwrap_or(LIST_LIMIT_DEFAULT))?;
    let trigger: Option<Trigger> = match &asked.trigger {
        Some(key) => Some(key.parse().map_err(|_| Error::invalid("`trigger` is not one"))?),
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
