//! Bearer tokens of the internal API: for the product, for operators, for auditors.
//!
//! A token's text is shown once, like a key's, and only its SHA-256 is kept. Creations and
//! revocations are entries in the audit log of the installation.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use domain::access::{AccessToken, AccessTokenCommand, TokenScope};
use domain::delivery::INSTALLATION_FIRM_ID;
use domain::values::Timestamp;
use eventstore::{AppendTransaction, NewEvent, load_aggregate};
use projector::firms;
use projector::tokens::{self, NewToken, TokenRow};
use uuid::Uuid;

use crate::error::Error;
use crate::service::Service;
use crate::token_holder::hash_token;
pub use crate::token_holder::{HolderRole, NotARole, TOKEN_PREFIX, TokenHolder};

/// A new token with its text. No later answer shows the text.
#[derive(Clone, PartialEq, Eq)]
pub struct CreatedToken {
    /// The token's id.
    pub id: Uuid,
    /// The token's text.
    pub token: String,
    /// The token's label.
    pub name: String,
    /// The role of its holder.
    pub role: HolderRole,
    /// Time of its making.
    pub created_at: Timestamp,
}

/// Makes a token for all firms that does not expire.
///
/// # Errors
/// As [`create_limited`].
pub async fn create(
    service: &Service,
    name: &str,
    role: HolderRole,
) -> Result<CreatedToken, Error> {
    let scope = TokenScope { name: name.to_owned(), role, expires_at: None, firm_ids: None };
    create_limited(service, scope).await
}

/// Makes a token with its limits, by the operator at the terminal.
///
/// # Errors
/// `invalid_request` for a name that is empty or longer than 100 characters, an expiry in the past
/// or an empty list of firms; `firm_not_found`.
pub async fn create_limited(service: &Service, scope: TokenScope) -> Result<CreatedToken, Error> {
    let context = service.context(INSTALLATION_FIRM_ID, service.operator());
    let created_at = context.recorded_at;
    let scope = TokenScope { name: super::keys::parse_label(&scope.name)?, ..scope };
    check_limits(service, &scope, created_at).await?;
    let id = service.entropy.new_id();
    let token = format!("{TOKEN_PREFIX}{}", URL_SAFE_NO_PAD.encode(service.entropy.new_secret()));
    let new = NewToken {
        token_id: id,
        name: &scope.name,
        role: scope.role.name(),
        sha256: hash_token(&token),
        created_at: created_at.get(),
        expires_at: scope.expires_at.map(Timestamp::get),
        firm_ids: scope.firm_ids.as_deref(),
    };
    let mut appending = service.store.begin().await?;
    let command = AccessTokenCommand::Create(scope.clone());
    let events = decide_events(service, &mut appending, id, &command).await?;
    appending.append(events).await?;
    tokens::insert(appending.connection(), &new).await?;
    appending.commit().await?;
    Ok(CreatedToken { id, token, name: scope.name, role: scope.role, created_at })
}

async fn check_limits(service: &Service, scope: &TokenScope, now: Timestamp) -> Result<(), Error> {
    if scope.expires_at.is_some_and(|expires_at| expires_at <= now) {
        return Err(Error::invalid("the expiry must be in the future"));
    }
    let Some(firm_ids) = &scope.firm_ids else {
        return Ok(());
    };
    if firm_ids.is_empty() {
        return Err(Error::invalid("a list of firms must name one"));
    }
    for firm_id in firm_ids {
        firms::is_active(service.store.pool(), *firm_id).await?.ok_or(Error::FirmNotFound)?;
    }
    Ok(())
}

/// All tokens, revoked ones too, newest first.
pub async fn list(service: &Service) -> Result<Vec<TokenRow>, Error> {
    Ok(tokens::list(service.store.pool()).await?)
}

/// Revokes a token for good, by the operator at the terminal.
///
/// # Errors
/// `not_found`, also for a token that is revoked already.
pub async fn revoke(service: &Service, token_id: Uuid) -> Result<(), Error> {
    let mut appending = service.store.begin().await?;
    // The row is locked first, so of two revocations one finds it.
    let at = service.clock.now().get();
    if !tokens::revoke(appending.connection(), token_id, at).await? {
        return Err(Error::NotFound);
    }
    let command = AccessTokenCommand::Revoke;
    let events = decide_events(service, &mut appending, token_id, &command).await?;
    appending.append(events).await?;
    appending.commit().await?;
    Ok(())
}

/// The events of a command on a token's stream.
async fn decide_events(
    service: &Service,
    appending: &mut AppendTransaction<'_>,
    token_id: Uuid,
    command: &AccessTokenCommand,
) -> Result<Vec<NewEvent>, Error> {
    let context = service.context(INSTALLATION_FIRM_ID, service.operator());
    let stream = token_id.to_string();
    let upcasters = service.store.upcasters();
    let (token, last) =
        load_aggregate::<AccessToken>(appending.connection(), &upcasters, &stream).await?;
    // The row was new or active, so the stream allows the command.
    let decided = token.decide(command).map_err(|error| Error::Internal(error.to_string()))?;
    Ok(NewEvent::number_after(last, &stream, &context, decided))
}

impl fmt::Debug for CreatedToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CreatedToken({}, {}, {:?})", self.id, self.name, self.role)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_text_hides_the_token() {
        let created = CreatedToken {
            id: Uuid::nil(),
            token: "fft_secret".into(),
            name: "Backend".into(),
            role: HolderRole::Product,
            created_at: "2026-11-01T00:00:00.000Z".parse().unwrap(),
        };
        assert!(!format!("{created:?}").contains("fft_secret"));
    }
}
