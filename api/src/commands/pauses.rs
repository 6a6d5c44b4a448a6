//! Pauses: operators hold deliveries, list the pauses and end them
//! (docs/explanation/decisions/operations.md).

use std::collections::HashMap;

use domain::delivery::{DeliveryRoute, Pause, PauseCommand, PauseRejection, PauseScope};
use domain::event::Actor;
use domain::subscription::host_of;
use eventstore::CommandError;
use projector::deliveries::{self, DeliveryRow};
use projector::pauses::{self, PauseRow};
use projector::{firms, hooks};
use uuid::Uuid;

use crate::error::Error;
use crate::service::Service;

/// Scope of a pause, as an operator asks for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequestedScope {
    /// All deliveries.
    All,
    /// Deliveries of a firm.
    Firm(Uuid),
    /// Deliveries of a subscription.
    Hook(Uuid),
    /// Deliveries to a host.
    Host(String),
}

/// Holds deliveries, from the next claim of any process on. A repeated pause changes nothing.
///
/// # Errors
/// `invalid_request`; `firm_not_found`; `not_found` for a subscription that is not live.
pub async fn pause(
    service: &Service,
    which: &RequestedScope,
    reason: &str,
    actor: Actor,
) -> Result<PauseRow, Error> {
    let reason = super::parse_reason(reason)?;
    let scope = resolve_scope(service, which).await?;
    let pause_id = scope.pause_id();
    let command = PauseCommand::Pause { scope: scope.clone(), reason };
    execute_command(service, &scope, actor, command).await?;
    pauses::find(service.store.pool(), pause_id).await?.ok_or(Error::PauseNotFound)
}

/// Ends a pause. The held deliveries continue from their state before the pause.
///
/// # Errors
/// `pause_not_found`; `invalid_request`.
pub async fn resume(
    service: &Service,
    pause_id: Uuid,
    reason: Option<&str>,
    actor: Actor,
) -> Result<PauseRow, Error> {
    let reason = reason.map(super::parse_reason).transpose()?;
    let row = pauses::find(service.store.pool(), pause_id).await?.ok_or(Error::PauseNotFound)?;
    execute_command(service, &row.scope(), actor, PauseCommand::Resume { reason }).await?;
    Ok(row)
}

/// Returns the id that a pause of this scope has or would have. `None` if the host is no name. The
/// id of a subscription's pause does not depend on its firm, so nothing is looked up.
#[must_use]
pub fn id_of(which: &RequestedScope) -> Option<Uuid> {
    let scope = match which {
        RequestedScope::All => PauseScope::All,
        RequestedScope::Firm(firm_id) => PauseScope::Firm { firm_id: *firm_id },
        RequestedScope::Hook(hook_id) => {
            PauseScope::Hook { firm_id: Uuid::nil(), hook_id: *hook_id }
        }
        RequestedScope::Host(name) => PauseScope::of_host(name)?,
    };
    Some(scope.pause_id())
}

/// Pauses in force, longest first.
pub async fn list(service: &Service) -> Result<Vec<PauseRow>, Error> {
    Ok(pauses::list(service.store.pool()).await?)
}

/// Maps each paused delivery of these rows to its pause.
pub async fn holding_pauses(
    service: &Service,
    firm_id: Uuid,
    rows: &[DeliveryRow],
) -> Result<HashMap<Uuid, Uuid>, Error> {
    let pool = service.store.pool();
    let pauses = pauses::list(pool).await?;
    if pauses.is_empty() {
        return Ok(HashMap::new());
    }
    let pending = rows.iter().filter(|row| row.state == "pending");
    let pending: Vec<_> = pending.map(|row| (row.delivery_id, row.hook_id)).collect();
    let mut pause_ids = HashMap::new();
    for destination in deliveries::destinations_of(pool, &pending).await? {
        let host = destination.host.or_else(|| destination.target_url.as_deref().map(host_of));
        let hook_id = destination.hook_id;
        let route = DeliveryRoute { firm_id, hook_id, host: host.as_deref() };
        if let Some(pause) = pauses.iter().find(|pause| pause.scope().holds(route)) {
            pause_ids.insert(destination.delivery_id, pause.pause_id);
        }
    }
    Ok(pause_ids)
}

async fn resolve_scope(service: &Service, which: &RequestedScope) -> Result<PauseScope, Error> {
    let pool = service.store.pool();
    match which {
        RequestedScope::All => Ok(PauseScope::All),
        RequestedScope::Firm(firm_id) => {
            firms::is_active(pool, *firm_id).await?.ok_or(Error::FirmNotFound)?;
            Ok(PauseScope::Firm { firm_id: *firm_id })
        }
        RequestedScope::Hook(hook_id) => {
            let firm_id = hooks::firm_of_live(pool, *hook_id).await?.ok_or(Error::NotFound)?;
            Ok(PauseScope::Hook { firm_id, hook_id: *hook_id })
        }
        RequestedScope::Host(name) => PauseScope::of_host(name)
            .ok_or_else(|| Error::invalid("`host` must be the name of a host")),
    }
}

async fn execute_command(
    service: &Service,
    scope: &PauseScope,
    actor: Actor,
    command: PauseCommand,
) -> Result<(), Error> {
    let context = service.context(scope.chain_firm_id(), actor);
    let stream = scope.pause_id().to_string();
    service.store.execute::<Pause>(&stream, command, &context).await.map_err(rejection_error)
}

fn rejection_error(error: CommandError<PauseRejection>) -> Error {
    match error {
        CommandError::Rejected(PauseRejection::NotPaused) => Error::PauseNotFound,
        CommandError::Append(error) => error.into(),
    }
}
