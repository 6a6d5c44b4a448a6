//! Bearer tokens of the internal API: for the product, for operators, for auditors.
//!
//! A token's text is shown once, like a key's, and only its SHA-256 is kept. A token belongs to no
//! firm, so it has no events.

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use domain::context::Actor;
use domain::time::Timestamp;
use projector::tokens::{self, ActiveToken, NewToken, TokenRow};
use serde::Serialize;
use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::error::Error;
use crate::service::Service;

/// Prefix of every token's text.
pub const TOKEN_PREFIX: &str = "fft_";

/// Characters after the prefix: 32 bytes in base64url without padding.
const SECRET_CHARS: usize = 43;

/// Role of a token's holder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum HolderRole {
    /// May report activity, manage keys and show secrets: the product's screens and back end.
    Product,
    /// May do everything: the people who run the service.
    Operator,
    /// May read deliveries and the audit log.
    Auditor,
}

/// A text that names no role.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a role is product, operator or auditor")]
pub struct NotARole;

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

/// The holder of an active token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TokenHolder {
    /// The token.
    pub token_id: Uuid,
    /// The holder's role.
    pub role: HolderRole,
}

impl TokenHolder {
    pub(crate) fn of(token: &ActiveToken) -> Result<Self, Error> {
        let role = token.role.parse();
        let role = role.map_err(|error: NotARole| Error::Internal(error.to_string()))?;
        Ok(Self { token_id: token.token_id, role })
    }

    /// The holder as an actor in the log.
    #[must_use]
    pub const fn actor(self) -> Actor {
        match self.role {
            HolderRole::Product => Actor::Product(self.token_id),
            HolderRole::Operator => Actor::Operator(self.token_id),
            HolderRole::Auditor => Actor::Auditor(self.token_id),
        }
    }
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

pub(crate) fn is_token(text: &str) -> bool {
    text.strip_prefix(TOKEN_PREFIX)
        .filter(|rest| rest.len() == SECRET_CHARS)
        .is_some_and(|rest| URL_SAFE_NO_PAD.decode(rest).is_ok())
}

pub(crate) fn hash(token: &str) -> [u8; 32] {
    Sha256::digest(token.as_bytes()).into()
}

impl HolderRole {
    /// Every role.
    pub const ALL: [Self; 3] = [Self::Product, Self::Operator, Self::Auditor];

    /// Its name, in the database and on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Product => "product",
            Self::Operator => "operator",
            Self::Auditor => "auditor",
        }
    }
}

impl FromStr for HolderRole {
    type Err = NotARole;

    fn from_str(name: &str) -> Result<Self, NotARole> {
        Self::ALL.into_iter().find(|role| role.name() == name).ok_or(NotARole)
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
    fn a_token_is_its_prefix_and_43_characters() {
        let token = format!("{TOKEN_PREFIX}{}", URL_SAFE_NO_PAD.encode([0xfb; 32]));
        assert_eq!(token.len(), 47);
        assert!(is_token(&token));
        for other in
            ["", "fft_", &token[..46], &format!("{token}A"), &token.replace("fft_", "ffk_")]
        {
            assert!(!is_token(other), "{other}");
        }
    }

    #[test]
    fn roles_read_back_as_themselves_and_act_under_their_token() {
        for role in HolderRole::ALL {
            assert_eq!(role.name().parse(), Ok(role));
        }
        assert_eq!("root".parse::<HolderRole>(), Err(NotARole));
        let token_id = Uuid::from_u128(1);
        let actor = |role| TokenHolder { token_id, role }.actor();
        assert_eq!(actor(HolderRole::Product), Actor::Product(token_id));
        assert_eq!(actor(HolderRole::Operator), Actor::Operator(token_id));
        assert_eq!(actor(HolderRole::Auditor), Actor::Auditor(token_id));
    }

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
