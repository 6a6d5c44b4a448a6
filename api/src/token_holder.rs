//! The holder of a token of the internal API: how a token is written, and its holder's role.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
pub use domain::access::{HolderRole, NotARole, TOKEN_PREFIX};
use domain::event::Actor;
use projector::tokens::ActiveToken;
use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::error::Error;

/// Characters after the prefix: 32 bytes in base64url without padding.
const SECRET_CHARS: usize = 43;

/// The holder of an active token, or a user of the provider with an open session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenHolder {
    /// The token; the user, in a session by the provider.
    pub token_id: Uuid,
    /// The holder's role.
    pub role: HolderRole,
    /// The firms that the token may reach; `None` for all.
    pub firm_ids: Option<Arc<[Uuid]>>,
}

impl TokenHolder {
    pub(crate) fn new(token: &ActiveToken) -> Result<Self, Error> {
        let role = token.role.parse();
        let role = role.map_err(|error: NotARole| Error::Internal(error.to_string()))?;
        let firm_ids = token.firm_ids.as_deref().map(Arc::from);
        Ok(Self { token_id: token.token_id, role, firm_ids })
    }

    /// The holder as an actor in the log.
    #[must_use]
    pub const fn actor(&self) -> Actor {
        match self.role {
            HolderRole::Product => Actor::Product(self.token_id),
            HolderRole::Operator => Actor::Operator(self.token_id),
            HolderRole::Auditor => Actor::Auditor(self.token_id),
        }
    }

    /// Whether the token may reach this firm. Another firm looks like a missing one.
    #[must_use]
    pub fn reaches(&self, firm_id: Uuid) -> bool {
        self.firm_ids.as_ref().is_none_or(|firms| firms.contains(&firm_id))
    }

    /// The firms that the token may reach; `None` for all.
    #[must_use]
    pub fn reached_firms(&self) -> Option<&[Uuid]> {
        self.firm_ids.as_deref()
    }

    /// Whether the token may reach all firms.
    #[must_use]
    pub const fn reaches_all(&self) -> bool {
        self.firm_ids.is_none()
    }
}

pub(crate) fn is_token(text: &str) -> bool {
    text.strip_prefix(TOKEN_PREFIX)
        .filter(|rest| rest.len() == SECRET_CHARS)
        .is_some_and(|rest| URL_SAFE_NO_PAD.decode(rest).is_ok())
}

pub(crate) fn hash_token(token: &str) -> [u8; 32] {
    Sha256::digest(token.as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_prefix_and_43_characters() {
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
    fn holders_act_under_their_token() {
        let token_id = Uuid::from_u128(1);
        let actor = |role| TokenHolder { token_id, role, firm_ids: None }.actor();
        assert_eq!(actor(HolderRole::Product), Actor::Product(token_id));
        assert_eq!(actor(HolderRole::Operator), Actor::Operator(token_id));
        assert_eq!(actor(HolderRole::Auditor), Actor::Auditor(token_id));
    }

    #[test]
    fn a_limited_token_reaches_its_firms_only() {
        let holder = |firm_ids: Option<Vec<Uuid>>| TokenHolder {
            token_id: Uuid::from_u128(1),
            role: HolderRole::Operator,
            firm_ids: firm_ids.map(Arc::from),
        };
        let limited = holder(Some(vec![Uuid::from_u128(2)]));
        assert!(limited.reaches(Uuid::from_u128(2)) && !limited.reaches_all());
        assert!(!limited.reaches(Uuid::from_u128(3)) && !limited.reaches(Uuid::nil()));
        assert!(holder(None).reaches(Uuid::from_u128(3)) && holder(None).reaches_all());
    }
}
