//! Tokens of the internal API, as the audit log knows them (ruling 46). A token's stream is in the
//! chain of the installation. Its text and SHA-256 are in no event.

use std::str::FromStr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::aggregate::{aggregate, domain_event};
use crate::values::Timestamp;

/// Prefix of every token's text.
pub const TOKEN_PREFIX: &str = "fft_";

/// Role of a token's holder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
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

/// Aggregate of one token.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccessToken {
    state: TokenState,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum TokenState {
    /// No event is known. A token that an older build made has no creation in the log.
    #[default]
    Unrecorded,
    Active,
    Revoked,
}

/// Command on a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AccessTokenCommand {
    /// Makes the token.
    Create(TokenScope),
    /// Revokes the token for good.
    Revoke,
}

/// Event of a token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum AccessTokenEvent {
    /// An operator made the token.
    TokenCreated(TokenScope),
    /// An operator revoked the token.
    TokenRevoked {},
}

/// Label, rights and limits of a token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenScope {
    /// The label.
    pub name: String,
    /// The role of the holder.
    pub role: HolderRole,
    /// Time from which the token is refused. `None` for never.
    pub expires_at: Option<Timestamp>,
    /// The firms that the token may reach. `None` for all.
    pub firm_ids: Option<Vec<Uuid>>,
}

/// Why a command on a token was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AccessTokenRejection {
    /// The token exists.
    #[error("the token exists")]
    Exists,
    /// The token is revoked.
    #[error("the token is revoked")]
    Revoked,
}

domain_event!(AccessTokenEvent { TokenCreated, TokenRevoked });
aggregate!(AccessToken, AccessTokenCommand, AccessTokenEvent, AccessTokenRejection);

impl AccessToken {
    /// Decides on the events that follow from a command.
    ///
    /// # Errors
    /// [`AccessTokenRejection`].
    pub fn decide(
        &self,
        command: &AccessTokenCommand,
    ) -> Result<Vec<AccessTokenEvent>, AccessTokenRejection> {
        match (command, self.state) {
            (AccessTokenCommand::Create(scope), TokenState::Unrecorded) => {
                Ok(vec![AccessTokenEvent::TokenCreated(scope.clone())])
            }
            (AccessTokenCommand::Create(_), _) => Err(AccessTokenRejection::Exists),
            (AccessTokenCommand::Revoke, TokenState::Revoked) => Err(AccessTokenRejection::Revoked),
            (AccessTokenCommand::Revoke, _) => Ok(vec![AccessTokenEvent::TokenRevoked {}]),
        }
    }

    fn absorb(&mut self, event: &AccessTokenEvent) {
        self.state = match event {
            AccessTokenEvent::TokenCreated(_) => TokenState::Active,
            AccessTokenEvent::TokenRevoked {} => TokenState::Revoked,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cqrs_es::test::TestFramework;

    fn scope() -> TokenScope {
        TokenScope {
            name: "Back end".into(),
            role: HolderRole::Product,
            expires_at: None,
            firm_ids: Some(vec![Uuid::from_u128(1)]),
        }
    }

    #[test]
    fn a_token_is_made_and_revoked_once() {
        let given = |events| TestFramework::<AccessToken>::with(()).given(events);
        let create = AccessTokenCommand::Create(scope());
        let created = AccessTokenEvent::TokenCreated(scope());
        let revoked = AccessTokenEvent::TokenRevoked {};
        given(vec![]).when(create.clone()).then_expect_events(vec![created.clone()]);
        given(vec![created.clone()])
            .when(create.clone())
            .then_expect_error(AccessTokenRejection::Exists);
        given(vec![created.clone()])
            .when(AccessTokenCommand::Revoke)
            .then_expect_events(vec![revoked.clone()]);
        given(vec![created, revoked.clone()])
            .when(AccessTokenCommand::Revoke)
            .then_expect_error(AccessTokenRejection::Revoked);
        given(vec![revoked]).when(create).then_expect_error(AccessTokenRejection::Exists);
    }

    #[test]
    fn an_older_builds_token_can_be_revoked() {
        TestFramework::<AccessToken>::with(())
            .given(vec![])
            .when(AccessTokenCommand::Revoke)
            .then_expect_events(vec![AccessTokenEvent::TokenRevoked {}]);
    }

    #[test]
    fn a_role_reads_back_as_itself() {
        for role in HolderRole::ALL {
            assert_eq!(role.name().parse(), Ok(role));
        }
        assert_eq!("root".parse::<HolderRole>(), Err(NotARole));
    }
}
