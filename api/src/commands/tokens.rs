//! Bearer tokens of the internal API: for the product, for operators, for auditors.
//!
//! A token's text is shown once, like a key's, and only its SHA-256 is kept. A token belongs to no
//! firm, so it has no events.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use domain::time::Timestamp;
use projector::tokens::{self, NewToken, TokenRow};
use uuid::Uuid;

use crate::error::Error;
use crate::service::Service;
use crate::token_holder::hash;
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

/// Makes a token.
///
/// # Errors
/// `invalid_request` for a name that is empty or longer than 100 characters.
pub async fn create(
    service: &Service,
    name: &str,
    role: HolderRole,
) -> Result<CreatedToken, Error> {
    let name = super::keys::label(name)?;
    let id = service.entropy.id();
    let created_at = service.clock.now();
    let token = format!("{TOKEN_PREFIX}{}", URL_SAFE_NO_PAD.encode(service.entropy.secret()));
    let new = NewToken {
        token_id: id,
        name: &name,
        role: role.name(),
        sha256: hash(&token),
        created_at: created_at.get(),
    };
    tokens::insert(service.store.pool(), &new).await?;
    Ok(CreatedToken { id, token, name, role, created_at })
}

/// All tokens, revoked ones too, newest first.
///
/// # Errors
/// If the database does not answer.
pub async fn list(service: &Service) -> Result<Vec<TokenRow>, Error> {
    Ok(tokens::list(service.store.pool()).await?)
}

/// Revokes a token for good.
///
/// # Errors
/// `not_found`, also for a token that is revoked already.
pub async fn revoke(service: &Service, token_id: Uuid) -> Result<(), Error> {
    let at = service.clock.now().get();
    if tokens::revoke(service.store.pool(), token_id, at).await? {
        Ok(())
    } else {
        Err(Error::NotFound)
    }
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
    fn a_token_is_not_in_its_debug_text() {
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
