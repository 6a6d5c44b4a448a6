//! Shows and rotates a firm's webhook signing secret (contract, Authentication 9). The log records
//! a showing before it happens. The log never holds the secret itself.

use domain::delivery::signature::WebhookSecret;
use domain::event::{Actor, EventContext};
use domain::firm::{Firm, FirmCommand, FirmRejection};
use domain::values::Timestamp;
use eventstore::{AppendError, CommandError, NewEvent, load_aggregate, retry_conflicts};
use uuid::Uuid;
use vault::VaultError;
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
        .map_err(rejection_error)?;
    let mut connection = service.store.pool().acquire().await?;
    let secret = secrets::read(&mut connection, service.keyring.wrapping_key(), &[firm_id])
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
    match rotate_by(service, RotationOrder { firm_id, actor, reason, since: None }).await? {
        RotationOutcome::New(secret) => Ok(secret),
        RotationOutcome::Earlier => Err(Error::Internal("a rotation without a condition".into())),
    }
}

/// An order for a new secret.
#[derive(Debug, Clone, Copy)]
pub struct RotationOrder<'a> {
    /// The firm.
    pub firm_id: Uuid,
    /// The actor.
    pub actor: Actor,
    /// The actor's reason.
    pub reason: Option<&'a str>,
    /// The time since which the old secret must sign. Without it any secret is replaced.
    pub since: Option<Timestamp>,
}

/// The outcome of an order for a new secret.
#[derive(Debug, Clone)]
pub enum RotationOutcome {
    /// The new secret.
    New(RevealedSecret),
    /// The old secret was replaced before, by another order or by a form that was sent twice.
    Earlier,
}

/// Gives a firm a new secret, as [`rotate`] does, unless its secret is not the one of the order.
///
/// # Errors
/// As [`rotate`].
pub async fn rotate_by(
    service: &Service,
    order: RotationOrder<'_>,
) -> Result<RotationOutcome, Error> {
    let reason = order.reason.map(super::parse_reason).transpose()?;
    let command = FirmCommand::RotateSecret { reason };
    let context = service.context(order.firm_id, order.actor);
    let secret = WebhookSecret::from_bytes(service.entropy.new_secret());
    let new = FirmSecret { secret, rotated_at: context.recorded_at.get() };
    let rotation = Rotation { command, since: order.since, new };
    let attempt = || try_rotate(service, &context, &rotation);
    match retry_conflicts(context.correlation_id, attempt).await.map_err(rejection_error)? {
        SecretStep::Replaced => {
            let rotated_at = context.recorded_at;
            Ok(RotationOutcome::New(RevealedSecret { secret: rotation.new.secret, rotated_at }))
        }
        SecretStep::Kept => Ok(RotationOutcome::Earlier),
    }
}

/// The time since which a firm's secret signs.
pub(crate) async fn rotated_at(service: &Service, firm_id: Uuid) -> Result<Timestamp, Error> {
    let mut connection = service.store.pool().acquire().await?;
    let since = secrets::rotated_at(&mut connection, firm_id).await?;
    let since = since.ok_or_else(|| Error::Internal(format!("firm {firm_id} has no secret")))?;
    Ok(since.into())
}

/// A rotation that is decided at its append.
struct Rotation {
    command: FirmCommand,
    since: Option<Timestamp>,
    new: FirmSecret,
}

/// The effect of an attempt on the secret.
enum SecretStep {
    Replaced,
    Kept,
}

/// Commits the event and the secret together. Another rotation that took the event's position has
/// committed its own secret, too, so the condition holds until the commit.
async fn try_rotate(
    service: &Service,
    context: &EventContext,
    rotation: &Rotation,
) -> Result<SecretStep, CommandError<FirmRejection>> {
    let stream = context.firm_id.to_string();
    let mut appending = service.store.begin().await?;
    let upcasters = service.store.upcasters();
    let (firm, last) = load_aggregate::<Firm>(appending.connection(), &upcasters, &stream).await?;
    let decided = firm.decide(&rotation.command).map_err(CommandError::Rejected)?;
    if let Some(since) = rotation.since {
        let connection = appending.connection();
        let signs = secrets::rotated_at(connection, context.firm_id).await;
        if signs.map_err(AppendError::from)? != Some(since.get()) {
            return Ok(SecretStep::Kept);
        }
    }
    appending.append(NewEvent::number_after(last, &stream, context, decided)).await?;
    let wrapping = service.keyring.wrapping_key();
    let entropy = &*service.entropy;
    secrets::replace(appending.connection(), wrapping, context.firm_id, &rotation.new, entropy)
        .await
        .map_err(not_kept)?;
    appending.commit().await?;
    Ok(SecretStep::Replaced)
}

fn not_kept(error: VaultError) -> AppendError {
    match error {
        VaultError::Database(error) => error.into(),
        VaultError::Broken(_) | VaultError::Unreadable(_) => {
            AppendError::Unreadable(error.to_string())
        }
    }
}

fn rejection_error(error: CommandError<FirmRejection>) -> Error {
    match error {
        CommandError::Rejected(FirmRejection::Unknown) => Error::FirmNotFound,
        CommandError::Rejected(FirmRejection::Closed) => Error::FirmInactive,
        // Only the worker of closed firms gives the command that is refused so.
        CommandError::Rejected(why @ FirmRejection::NotClosed) => Error::Internal(why.to_string()),
        CommandError::Append(AppendError::ActorInactive) => Error::NotAManager,
        CommandError::Append(error) => error.into(),
    }
}
