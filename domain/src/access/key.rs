//! The life of an API key. A manager of the firm creates the key, and it is revoked once and for
//! good (contract, section Authentication).

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::aggregate::{aggregate, domain_event};

/// Aggregate of one key. Each key has a stream of its own.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Key {
    life: KeyState,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum KeyState {
    #[default]
    Unknown,
    Active,
    Revoked,
}

/// Command on a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyCommand {
    /// Creates the key.
    Create {
        /// The member for whom the key acts.
        member_id: Uuid,
        /// Label of the key.
        name: String,
        /// First characters of the key, to tell keys apart.
        prefix: String,
        /// SHA-256 of the key's text, lower-case hex. The text itself is never kept.
        sha256: String,
    },
    /// Revokes the key.
    Revoke {
        /// The reason.
        reason: RevocationReason,
    },
}

/// Why a key was revoked (contract, Authentication 5 and 6).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RevocationReason {
    /// A manager asked for it.
    Requested,
    /// The member left the firm, was disabled or lost the right to manage.
    MemberNotManager,
}

impl RevocationReason {
    /// The reason's word in events.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Requested => "requested",
            Self::MemberNotManager => "member_not_manager",
        }
    }
}

/// Event of a key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum KeyEvent {
    /// The key was created.
    KeyCreated {
        /// The member for whom the key acts.
        member_id: Uuid,
        /// Label of the key.
        name: String,
        /// First characters of the key.
        prefix: String,
        /// SHA-256 of the key's text, lower-case hex.
        sha256: String,
    },
    /// The key was revoked.
    KeyRevoked {
        /// The reason.
        reason: RevocationReason,
    },
}

domain_event!(KeyEvent { KeyCreated, KeyRevoked });
aggregate!(Key, KeyCommand, KeyEvent, KeyRejection);

/// Why a command on a key was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum KeyRejection {
    /// The id is taken.
    #[error("a key with this id exists")]
    Exists,
    /// No such key exists, or the key is revoked.
    #[error("there is no active key with this id")]
    NotActive,
}

impl Key {
    /// Decides on the events that follow from a command.
    ///
    /// # Errors
    /// [`KeyRejection`] says why the command is refused.
    pub fn decide(&self, command: &KeyCommand) -> Result<Vec<KeyEvent>, KeyRejection> {
        match (command, self.life) {
            (KeyCommand::Create { member_id, name, prefix, sha256 }, KeyState::Unknown) => {
                Ok(vec![KeyEvent::KeyCreated {
                    member_id: *member_id,
                    name: name.clone(),
                    prefix: prefix.clone(),
                    sha256: sha256.clone(),
                }])
            }
            (KeyCommand::Create { .. }, KeyState::Active | KeyState::Revoked) => {
                Err(KeyRejection::Exists)
            }
            (KeyCommand::Revoke { reason }, KeyState::Active) => {
                Ok(vec![KeyEvent::KeyRevoked { reason: *reason }])
            }
            (KeyCommand::Revoke { .. }, KeyState::Unknown | KeyState::Revoked) => {
                Err(KeyRejection::NotActive)
            }
        }
    }

    fn absorb(&mut self, event: &KeyEvent) {
        self.life = match event {
            KeyEvent::KeyCreated { .. } => KeyState::Active,
            KeyEvent::KeyRevoked { .. } => KeyState::Revoked,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cqrs_es::test::TestFramework;

    fn create() -> KeyCommand {
        KeyCommand::Create {
            member_id: Uuid::from_u128(1),
            name: "Zapier".into(),
            prefix: "ffk_abcdefgh".into(),
            sha256: "00".repeat(32),
        }
    }

    fn created() -> KeyEvent {
        Key::default().decide(&create()).unwrap().remove(0)
    }

    const REVOKE: KeyCommand = KeyCommand::Revoke { reason: RevocationReason::Requested };
    const REVOKED: KeyEvent = KeyEvent::KeyRevoked { reason: RevocationReason::Requested };

    #[test]
    fn a_new_key_is_created() {
        TestFramework::<Key>::with(())
            .given_no_previous_events()
            .when(create())
            .then_expect_events(vec![created()]);
    }

    #[test]
    fn an_active_key_is_revoked_once() {
        TestFramework::<Key>::with(())
            .given(vec![created()])
            .when(REVOKE)
            .then_expect_events(vec![REVOKED]);
        TestFramework::<Key>::with(())
            .given(vec![created(), REVOKED])
            .when(REVOKE)
            .then_expect_error(KeyRejection::NotActive);
    }

    /// An unknown key cannot be revoked, and a known key cannot be made again.
    #[test]
    fn a_key_is_made_once_before_revocation() {
        TestFramework::<Key>::with(())
            .given_no_previous_events()
            .when(REVOKE)
            .then_expect_error(KeyRejection::NotActive);
        TestFramework::<Key>::with(())
            .given(vec![created(), REVOKED])
            .when(create())
            .then_expect_error(KeyRejection::Exists);
    }
}
