//! Computes subscriptions and deliveries as they were, and one delivery as it is, from the log.

use std::collections::HashSet;

use domain::audit::AuditPeriod;
use domain::values::AsOf;
use eventstore::RecordedEvent;
use eventstore::tail::TailError;
use projector::as_of::{self, AsOfError, DeliveryThen, HookThen};
use projector::deliveries::DeliveryRow;
use projector::hooks::HookLife;
use projector::{firms, subjects};
use sqlx::PgConnection;
use uuid::Uuid;

use crate::error::Error;
use crate::service::Service;

/// Kind of subscription in a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HookFilter {
    /// Live subscriptions, last made first.
    Live,
    /// Live subscriptions whose last finished delivery ended with 410.
    Warned,
    /// Subscriptions removed in this period, last removed first.
    Removed(AuditPeriod),
}

impl HookFilter {
    fn includes_hook(self, hook: &HookThen) -> bool {
        match (self, hook.life.removed_at) {
            (Self::Live, removed) => removed.is_none(),
            (Self::Warned, removed) => removed.is_none() && hook.warned,
            (Self::Removed(AuditPeriod { since, until }), Some(at)) => {
                since.is_none_or(|since| at >= since.get())
                    && until.is_none_or(|until| at < until.get())
            }
            (Self::Removed(_), None) => false,
        }
    }
}

/// Reads a position or an instant.
///
/// # Errors
/// `invalid_request`: the text is neither a position nor an instant, or it lies ahead of the log.
pub async fn read(service: &Service, text: &str) -> Result<AsOf, Error> {
    let parsed = text.parse().map_err(|_| {
        Error::invalid("`as_of` must be a position of the log, from 1, or an instant in RFC 3339")
    });
    check(service, parsed?).await
}

/// Refuses a position or an instant that has not come yet.
///
/// # Errors
/// `invalid_request`.
pub async fn check(service: &Service, as_of: AsOf) -> Result<AsOf, Error> {
    match as_of {
        AsOf::Position(position) => {
            let end = as_of::last_position(service.store.pool()).await?;
            if position > end {
                let beyond = format!("`as_of` lies beyond the end of the log, which is at {end}");
                return Err(Error::invalid(beyond));
            }
        }
        AsOf::Instant(at) => {
            if at > service.clock.now() {
                return Err(Error::invalid("`as_of` lies in the future"));
            }
        }
    }
    Ok(as_of)
}

/// Subscriptions of a firm as they were.
///
/// # Errors
/// The database's, and an event that cannot be read.
pub async fn hooks(
    service: &Service,
    firm_id: Uuid,
    as_of: AsOf,
    which: HookFilter,
) -> Result<Vec<HookLife>, Error> {
    let mut connection = service.store.pool().acquire().await?;
    let then = as_of::list_hooks(&mut connection, firm_id, as_of).await.map_err(unread_error)?;
    let mut lives: Vec<HookLife> =
        then.into_iter().filter(|hook| which.includes_hook(hook)).map(|hook| hook.life).collect();
    if matches!(which, HookFilter::Removed(_)) {
        lives.sort_by_key(|life| std::cmp::Reverse(life.removed_at));
    }
    Ok(lives)
}

/// The newest deliveries of a firm as they were, at most `limit`, with the responses among them
/// that are erased by now.
///
/// # Errors
/// The database's, and an event that cannot be read.
pub async fn deliveries(
    service: &Service,
    firm_id: Uuid,
    as_of: AsOf,
    limit: usize,
) -> Result<(Vec<DeliveryRow>, HashSet<Uuid>), Error> {
    let mut connection = service.store.pool().acquire().await?;
    let rows = as_of::list_deliveries(&mut connection, firm_id, as_of, limit).await;
    let rows = rows.map_err(unread_error)?;
    let responses: Vec<_> = rows.iter().map(|row| row.response_id).collect();
    let erased = erased_among(&mut connection, firm_id, &responses).await?;
    Ok((rows, erased))
}

/// The responses among these whose data are erased or dropped by now.
async fn erased_among(
    connection: &mut PgConnection,
    firm_id: Uuid,
    responses: &[Uuid],
) -> Result<HashSet<Uuid>, Error> {
    if firms::is_dropped(connection, firm_id).await? {
        return Ok(responses.iter().copied().collect());
    }
    let asked: Vec<_> = responses.iter().map(|response_id| (firm_id, *response_id)).collect();
    let erased = subjects::erased_among(connection, &asked).await?;
    Ok(erased.into_iter().map(|(_, response_id)| response_id).collect())
}

/// A delivery of a firm as it is or was, and whether its response is erased by now.
///
/// # Errors
/// `delivery_not_found`: none was queued by then. `archived`: its events have left, and this
/// process has no archive.
pub async fn delivery(
    service: &Service,
    firm_id: Uuid,
    delivery_id: Uuid,
    as_of: AsOf,
) -> Result<(DeliveryThen, bool), Error> {
    let (then, _) = delivery_with_archived(service, firm_id, delivery_id, as_of).await?;
    let mut connection = service.store.pool().acquire().await?;
    let erased = erased_among(&mut connection, firm_id, &[then.row.response_id]).await?;
    Ok((then, !erased.is_empty()))
}

/// A delivery of a firm as it is or was, and those of its events that come from the archive.
///
/// # Errors
/// As [`delivery`].
pub(super) async fn delivery_with_archived(
    service: &Service,
    firm_id: Uuid,
    delivery_id: Uuid,
    as_of: AsOf,
) -> Result<(DeliveryThen, Vec<RecordedEvent>), Error> {
    let find = async |archived: &[RecordedEvent]| {
        let mut connection = service.store.pool().acquire().await?;
        as_of::find_delivery(&mut connection, firm_id, delivery_id, as_of, archived).await
    };
    let mut archived = Vec::new();
    let mut then = find(&archived).await;
    if let Err(AsOfError::Left(left)) = then {
        archived = service.audit.find_streams(left).await?;
        then = find(&archived).await;
    }
    let then = then.map_err(unread_error)?.ok_or(Error::DeliveryNotFound)?;
    Ok((then, archived))
}

pub(super) fn unread_error(error: impl Into<AsOfError>) -> Error {
    match error.into() {
        AsOfError::Tail(TailError::Database(error)) => error.into(),
        AsOfError::Tail(unreadable @ TailError::Unreadable { .. }) => {
            Error::Internal(unreadable.to_string())
        }
        AsOfError::Left(_) | AsOfError::ListLeft { .. } => Error::Archived,
    }
}
