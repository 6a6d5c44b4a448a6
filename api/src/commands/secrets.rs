//! Showing a firm's webhook signing secret (contract, Authentication 9). That it was shown is in
//! the log before it is.

use domain::context::Actor;
use domain::firm::{Firm, FirmCommand, FirmRejection};
use domain::signature::WebhookSecret;
use domain::time::Timestamp;
use eventstore::{AppendError, CommandError};
use uuid::Uuid;
use vault::secrets;

use crate::error::Error;
use crate::service::Service;

/// A firm's secret, and since when it signs.
#[derive(Debug, Clone)]
pub struct RevealedSecret {
    /// The secret.
    pub secret: WebhookSecret,
    /// Since when.
    pub rotated_at: Timestamp,
}

/// Shows a firm's secret to somebody.
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
        .map_err(not_revealed)?;
    let mut connection = service.store.pool().acquire().await?;
    let secret = secrets::read(&mut connection, service.keyring.wrapping(), &[firm_id])
        .await?
        .remove(&firm_id)
        .ok_or_else(|| Error::Internal(format!("firm {firm_id} has no webhook secret")))?;
    Ok(RevealedSecret { secret: secret.secret, rotated_at: secret.rotated_at.into() })
}

fn not_revealed(error: CommandError<FirmRejection>) -> Error {
    match error {
        CommandError::Rejected(FirmRejection::Unknown) => Error::FirmNotFound,
        CommandError::Append(AppendError::ActorInactive) => Error::NotAManager,
        CommandError::Append(error) => error.into(),
    }
}
