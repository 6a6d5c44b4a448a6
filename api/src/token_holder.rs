//! The holder of a token of the internal API: how a token is written, and its holder's role.

use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use domain::context::Actor;
use projector::tokens::ActiveToken;
use serde::Serialize;
use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::error::Error;

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
}
