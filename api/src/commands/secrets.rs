//! Shows and rotates a firm's webhook signing secret (contract, Authentication 9). The log records
//! a showing before it happens. The log never holds the secret itself.

use domain::context::{Actor, EventContext};
use domain::firm::{Firm, FirmCommand, FirmRejection};
use domain::signature::WebhookSecret;
use domain::time::Timestamp;
use eventstore::{AppendError, CommandError, NewEvent, load, retry_conflicts};
use uuid::Uuid;
use vault::responses::VaultError;
use vault::secrets::{self, FirmSecret};

use crate::error::Error;
use crate::service::Service;

/// A firm's secret, with the time from which it signs.
#[derive(Debug, Clone)]
pub struct RevealedSecret {
    /// The secret.
    pub secret: WebhookSecret,
    /// Time of the last rotation.
    pub rotated_at: Timestamp,
}

/// Shows a firm's secret to an actor.
///
/// # Errors
/// `firm_not_found`; `not_a_manager` for a member who may not see it.
pub async fn reveal(
    service: &Service,
    firm_id: Uuid,
    actor: Actor,
) -> Result<RevealedSecret, Error> {
    let context = service.context(firm_id, actor);
    service
        .store
        .execute::<Firm>(&firm_id.to_string(), FirmCommand::RevealSecret, &context)
        .await
        .map_err(refused)?;
    let mut connection = service.store.pool().acquire().await?;
    let secret = secrets::read(&mut connection, service.keyring.wrapping(), &[firm_id])
        .await?
        .remove(&firm_id)
        .ok_or_else(|| Error::Internal(format!("firm {firm_id} has no webhook secret")))?;
    Ok(RevealedSecret { secret: secret.secret, rotated_at: secret.rotated_at.into() })
}

/// Gives a firm a new secret, which signs deliveries claimed from then on (ruling 32). Two
/// concurrent rotations both happen, and the later one in the log stands.
///
/// # Errors
/// `invalid_request` for a reason that is too long; `firm_not_found`; `firm_inactive` for a closed
/// firm; `not_a_manager` for a member who may not rotate.
pub async fn rotate(
    service: &Service,
    firm_id: Uuid,
    actor: Actor,
    reason: Option<&str>,
) -> Result<RevealedSecret, Error> {
    let command = FirmCommand::RotateSecret { reason: reason.map(super::reason).transpose()? };
    let context = service.context(firm_id, actor);
    let secret = WebhookSecret::from_bytes(service.entropy.secret());
    let new = FirmSecret { secret, rotated_at: context.recorded_at.get() };
    let attempt = || try_rotate(service, &context, &command, &new);
    retry_conflicts(context.correlation_id, attempt).await.map_err(refused)?;
    Ok(RevealedSecret { secret: new.secret, rotated_at: context.recorded_at })
}

/// Commits the event and the secret together. Another rotation that took the event's position has
/// committed its own secret, too.
async fn try_rotate(
    service: &Service,
    context: &EventContext,
    command: &FirmCommand,
    new: &FirmSecret,
) -> Result<(), CommandError<FirmRejection>> {
    let stream = context.firm_id.to_string();
    let mut appending = service.store.begin().await?;
    let upcasters = service.store.upcasters();
    let (firm, last) = load::<Firm>(appending.connection(), &upcasters, &stream).await?;
    let decided = firm.decide(command).map_err(CommandError::Rejected)?;
    appending.append(NewEvent::after(last, &stream, context, decided)).await?;
    let wrapping = service.keyring.wrapping();
    let entropy = &*service.entropy;
    secrets::replace(appending.connection(), wrapping, context.firm_id, new, entropy)
        .await
        .map_err(not_kept)?;
    Ok(appending.commit().await?)
}

fn not_kept(error: VaultError) -> AppendError {
    match error {
        VaultError::Database(error) => error.into(),
        VaultError::Broken(_) | VaultError::Unreadable(_) => {
            AppendError::Unreadable(error.to_string())
        }
    }
}

fn refused(error: CommandError<FirmRejection>) -> Error {
    match error {
        CommandError::Rejected(FirmRejection::Unknown) => Error::FirmNotFound,
        CommandError::Rejected(FirmRejection::Closed) => Error::FirmInactive,
        // Only the worker of closed firms gives the command that is refused so.
        CommandError::Rejected(why @ FirmRejection::NotClosed) => Error::Internal(why.to_string()),
        CommandError::Append(AppendError::ActorInactive) => Error::NotAManager,
        CommandError::Append(error) => error.into(),
    }
}
