//! Members and keys of a firm at a moment, and the tokens and users of the provider that reach it.
//! They are folded from their events.

use std::collections::BTreeMap;

use domain::access::sign_in::{SignInEvent, SignInScope};
use domain::access::{AccessTokenEvent, HolderRole, KeyEvent, RevocationReason, TokenScope};
use domain::event::{Event, EventContext};
use domain::firm::{FirmEvent, MemberRole};
use domain::values::Timestamp;
use serde::Serialize;
use uuid::Uuid;

/// A member at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(super) struct MemberThen {
    /// The member.
    pub id: Uuid,
    /// The role. `None` for a member that has left, or whose role was not reported.
    pub role: Option<MemberRole>,
    /// Whether the member may sign in.
    pub active: bool,
    /// Whether the member may make keys and see the signing secret.
    pub manages: bool,
    /// The last change, as it was recorded.
    pub since: Timestamp,
}

/// The members that a firm had had by the end of these events.
pub(super) fn members<'a>(
    events: impl IntoIterator<Item = (&'a FirmEvent, &'a EventContext)>,
) -> Vec<MemberThen> {
    let mut members: BTreeMap<Uuid, MemberThen> = BTreeMap::new();
    for (event, context) in events {
        let Some(id) = member_in(event) else { continue };
        let since = context.recorded_at;
        let new = MemberThen { id, role: None, active: true, manages: false, since };
        let member = members.entry(id).or_insert(new);
        member.since = since;
        member.apply_event(event);
    }
    members.into_values().collect()
}

const fn member_in(event: &FirmEvent) -> Option<Uuid> {
    match event {
        FirmEvent::MemberJoined { member_id, .. }
        | FirmEvent::MemberRoleChanged { member_id, .. }
        | FirmEvent::MemberDisabled { member_id, .. }
        | FirmEvent::MemberEnabled { member_id, .. }
        | FirmEvent::MemberLeft { member_id, .. } => Some(*member_id),
        _ => None,
    }
}

impl MemberThen {
    fn apply_event(&mut self, event: &FirmEvent) {
        match event {
            FirmEvent::MemberJoined { role, .. } => {
                (self.role, self.active) = (Some(*role), true);
            }
            FirmEvent::MemberRoleChanged { role, .. } => self.role = Some(*role),
            FirmEvent::MemberDisabled { .. } => self.active = false,
            FirmEvent::MemberEnabled { .. } => self.active = true,
            FirmEvent::MemberLeft { .. } => (self.role, self.active) = (None, false),
            _ => {}
        }
        let manager = matches!(self.role, Some(MemberRole::Owner | MemberRole::Admin));
        self.manages = self.active && manager;
    }
}

/// A key at a moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct KeyThen {
    /// The key.
    pub id: Uuid,
    /// The label.
    pub name: String,
    /// The first characters.
    pub prefix: String,
    /// The member that the key acts for.
    pub member_id: Uuid,
    /// The time of its making.
    pub created_at: Timestamp,
    /// The actor that made it, in the notation of the log.
    pub created_by: String,
    /// The time of its revocation, if it was revoked by then.
    pub revoked_at: Option<Timestamp>,
    /// The reason of its revocation.
    pub reason: Option<RevocationReason>,
}

/// The key of a stream, or of the beginning of one.
pub(super) fn key<'a>(
    id: Uuid,
    stream: impl IntoIterator<Item = (&'a Event, &'a EventContext)>,
) -> Option<KeyThen> {
    let mut key = None;
    for (event, context) in stream {
        let at = context.recorded_at;
        match event {
            Event::Key(KeyEvent::KeyCreated { member_id, name, prefix, .. }) => {
                key = Some(KeyThen {
                    id,
                    name: name.clone(),
                    prefix: prefix.clone(),
                    member_id: *member_id,
                    created_at: at,
                    created_by: context.actor.to_string(),
                    revoked_at: None,
                    reason: None,
                });
            }
            Event::Key(KeyEvent::KeyRevoked { reason }) => {
                if let Some(key) = &mut key {
                    (key.revoked_at, key.reason) = (Some(at), Some(*reason));
                }
            }
            _ => {}
        }
    }
    key
}

/// A token of the internal API at a moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct TokenThen {
    /// The token.
    pub id: Uuid,
    /// Its label, role, expiry and firms.
    #[serde(flatten)]
    pub scope: TokenScope,
    /// The time of its making.
    pub created_at: Timestamp,
    /// The actor that made it, in the notation of the log.
    pub created_by: String,
}

/// The token of a stream, or of the beginning of one, if it was valid at a moment.
pub(super) fn token<'a>(
    id: Uuid,
    stream: impl IntoIterator<Item = (&'a Event, &'a EventContext)>,
    at: Timestamp,
) -> Option<TokenThen> {
    let mut token = None;
    for (event, context) in stream {
        match event {
            Event::AccessToken(AccessTokenEvent::TokenCreated(scope)) => {
                token = Some(TokenThen {
                    id,
                    scope: scope.clone(),
                    created_at: context.recorded_at,
                    created_by: context.actor.to_string(),
                });
            }
            Event::AccessToken(AccessTokenEvent::TokenRevoked {}) => token = None,
            _ => {}
        }
    }
    token.filter(|token| token.scope.expires_at.is_none_or(|expires_at| expires_at > at))
}

impl TokenThen {
    /// Whether the token reaches this firm.
    #[must_use]
    pub(super) fn reaches(&self, firm_id: Uuid) -> bool {
        self.scope.firm_ids.as_ref().is_none_or(|firms| firms.contains(&firm_id))
    }
}

/// A user of the provider with an open session at a moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct UserThen {
    /// The user.
    pub user_id: Uuid,
    /// The name that the provider told.
    pub name: String,
    /// The role.
    pub role: HolderRole,
    /// The firms that the user could reach. `None` for all.
    pub firm_ids: Option<Vec<Uuid>>,
    /// The time of the sign-in.
    pub signed_in_at: Timestamp,
    /// The end of the session.
    pub ends_at: Timestamp,
}

/// The user of a sign-in's stream, or of the beginning of one, if the session was open at a moment.
pub(super) fn user<'a>(
    stream: impl IntoIterator<Item = (&'a Event, &'a EventContext)>,
    at: Timestamp,
) -> Option<UserThen> {
    let mut user = None;
    for (event, context) in stream {
        match event {
            Event::SignIn(SignInEvent::UserSignedIn(scope)) => {
                let SignInScope { user_id, name, role, firm_ids, ends_at, .. } = scope.clone();
                let signed_in_at = context.recorded_at;
                user = Some(UserThen { user_id, name, role, firm_ids, signed_in_at, ends_at });
            }
            Event::SignIn(SignInEvent::UserSignedOut { .. }) => user = None,
            _ => {}
        }
    }
    user.filter(|user| user.ends_at > at)
}

impl UserThen {
    /// Whether the user reached this firm.
    #[must_use]
    pub(super) fn reaches(&self, firm_id: Uuid) -> bool {
        self.firm_ids.as_ref().is_none_or(|firms| firms.contains(&firm_id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::event::Actor;

    fn at(second: u32) -> Timestamp {
        format!("2026-03-14T12:00:{second:02}.000Z").parse().unwrap()
    }

    fn context(second: u32) -> EventContext {
        EventContext {
            firm_id: Uuid::from_u128(1),
            recorded_at: at(second),
            actor: Actor::System,
            correlation_id: Uuid::nil(),
            causation_id: None,
            traceparent: None,
            terminal: None,
        }
    }

    #[test]
    fn only_active_owners_and_admins_manage() {
        let member_id = Uuid::from_u128(2);
        let time = at(0);
        let story = [
            (FirmEvent::MemberJoined { member_id, role: MemberRole::Admin, time }, true),
            (FirmEvent::MemberDisabled { member_id, time }, false),
            (FirmEvent::MemberEnabled { member_id, time }, true),
            (FirmEvent::MemberRoleChanged { member_id, role: MemberRole::Member, time }, false),
            (FirmEvent::MemberLeft { member_id, time }, false),
        ];
        let contexts: Vec<EventContext> = (0..5).map(context).collect();
        let events: Vec<_> = story.iter().map(|(event, _)| event).zip(&contexts).collect();
        for (place, (_, manages)) in story.iter().enumerate() {
            let then = members(events[..=place].iter().copied());
            assert_eq!(then[0].manages, *manages, "{place}");
            assert_eq!(then[0].since, at(u32::try_from(place).unwrap()));
        }
        assert_eq!(members(events)[0].role, None);
    }

    #[test]
    fn a_users_access_ends_with_the_session() {
        let scope = SignInScope {
            user_id: Uuid::from_u128(4),
            issuer: "https://id.example".into(),
            subject: "ann".into(),
            name: "Ann".into(),
            role: HolderRole::Auditor,
            firm_ids: Some(vec![Uuid::from_u128(1)]),
            ends_at: at(9),
        };
        let begun = Event::from(SignInEvent::UserSignedIn(scope));
        let ended = Event::from(SignInEvent::UserSignedOut { reason: None });
        let (first, second) = (context(1), context(5));
        let open = user([(&begun, &first)], at(8)).unwrap();
        assert_eq!((&*open.name, open.role), ("Ann", HolderRole::Auditor));
        assert_eq!((open.signed_in_at, open.ends_at), (at(1), at(9)));
        assert!(open.reaches(Uuid::from_u128(1)) && !open.reaches(Uuid::from_u128(2)));
        assert_eq!(user([(&begun, &first)], at(9)), None);
        assert_eq!(user([(&begun, &first), (&ended, &second)], at(8)), None);
    }

    #[test]
    fn a_keys_revocation_shows_only_afterwards() {
        let created = Event::from(KeyEvent::KeyCreated {
            member_id: Uuid::from_u128(2),
            name: "zapier".into(),
            prefix: "ffk_abcdefgh".into(),
            sha256: String::new(),
        });
        let reason = RevocationReason::Requested;
        let revoked = Event::from(KeyEvent::KeyRevoked { reason });
        let (first, second) = (context(1), context(2));
        let id = Uuid::from_u128(3);
        let before = key(id, [(&created, &first)]).unwrap();
        assert_eq!((before.revoked_at, before.reason), (None, None));
        let after = key(id, [(&created, &first), (&revoked, &second)]).unwrap();
        assert_eq!((after.revoked_at, after.reason), (Some(at(2)), Some(reason)));
        assert_eq!(key(id, []), None);
    }

    #[test]
    fn a_token_ends_by_expiry_or_revocation() {
        let firm = Uuid::from_u128(1);
        let scope = TokenScope {
            name: "on call".into(),
            role: HolderRole::Operator,
            expires_at: Some(at(9)),
            firm_ids: Some(vec![firm]),
        };
        let created = Event::from(AccessTokenEvent::TokenCreated(scope));
        let revoked = Event::from(AccessTokenEvent::TokenRevoked {});
        let (first, second) = (context(1), context(2));
        let id = Uuid::from_u128(3);
        let valid = token(id, [(&created, &first)], at(8)).unwrap();
        assert!(valid.reaches(firm) && !valid.reaches(id));
        assert_eq!(token(id, [(&created, &first)], at(9)), None);
        assert_eq!(token(id, [(&created, &first), (&revoked, &second)], at(3)), None);
    }
}
