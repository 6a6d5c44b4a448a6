//! Makes, lists and revokes API keys (contract, section Authentication 2–6).

use domain::access::{ApiKey, Key, KeyCommand, KeyEvent, KeyRejection, RevocationReason};
use domain::event::{Actor, EventContext};
use domain::operations::{ReadAs, ReadingDetails, ReadingSubject};
use domain::subscription::{RemovalReason, SubscriptionEvent};
use domain::values::{Timestamp, trimmed_label};
use eventstore::{AppendError, CommandError, NewEvent, retry_conflicts};
use projector::hooks::{self, LiveHook};
use projector::keys::{self, KeyRow};
use projector::{firms, members};
use uuid::Uuid;

use super::{parse_reason, readings};
use crate::error::Error;
use crate::service::Service;

/// Longest label of a key, in characters.
const LABEL_MAX: usize = 100;

/// Sequence of a key's revocation in its stream. An active key has one event, its making.
const REVOCATION_SEQUENCE: i64 = 2;

/// A new key with its text. No later answer shows the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreatedKey {
    /// The key's id.
    pub id: Uuid,
    /// The key's text.
    pub key: ApiKey,
    /// The key's label.
    pub name: String,
    /// The member that the key acts for.
    pub member_id: Uuid,
    /// Time of its making.
    pub created_at: Timestamp,
}

/// Makes a key of a member who manages the firm and asks for the key.
///
/// # Errors
/// `invalid_request`, `firm_not_found`, `firm_inactive`, `not_a_manager`, `too_many_keys`.
pub async fn create(
    service: &Service,
    firm_id: Uuid,
    member_id: Uuid,
    name: &str,
) -> Result<CreatedKey, Error> {
    create_by(service, firm_id, member_id, Actor::Member(member_id), name).await
}

/// Makes a key of a member who manages the firm, on behalf of any actor.
///
/// # Errors
/// As [`create`].
pub async fn create_by(
    service: &Service,
    firm_id: Uuid,
    member_id: Uuid,
    actor: Actor,
    name: &str,
) -> Result<CreatedKey, Error> {
    let context = service.context(firm_id, actor);
    make_key(service, &context, KeyOwner { member_id, key_id: service.entropy.new_id() }, name)
        .await
}

/// Makes a key with this id for a member who manages the firm and asks for the key.
///
/// # Errors
/// As [`create`]; `internal_error` if the id is taken.
pub(crate) async fn create_with_id(
    service: &Service,
    firm_id: Uuid,
    member_id: Uuid,
    key_id: Uuid,
    name: &str,
) -> Result<CreatedKey, Error> {
    let context = service.context(firm_id, Actor::Member(member_id));
    make_key(service, &context, KeyOwner { member_id, key_id }, name).await
}

/// The id of a new key, and the member for whom it acts.
#[derive(Debug, Clone, Copy)]
struct KeyOwner {
    member_id: Uuid,
    key_id: Uuid,
}

async fn make_key(
    service: &Service,
    context: &EventContext,
    owner: KeyOwner,
    name: &str,
) -> Result<CreatedKey, Error> {
    let KeyOwner { member_id, key_id: id } = owner;
    let name = parse_label(name)?;
    let firm_id = context.firm_id;
    require_active(service, firm_id).await?;
    let key = ApiKey::from_bytes(service.routed_secret());
    let created_at = context.recorded_at;
    let made = CreatedKey { id, key, name, member_id, created_at };
    let command = made.create_command();
    match service.store.execute::<Key>(&id.to_string(), command, context).await {
        Ok(()) => Ok(made),
        Err(error) => Err(not_created(service, firm_id, member_id, error).await),
    }
}

impl CreatedKey {
    /// The command for the log, without the text.
    fn create_command(&self) -> KeyCommand {
        KeyCommand::Create {
            member_id: self.member_id,
            name: self.name.clone(),
            prefix: self.key.prefix().to_owned(),
            sha256: hex::encode(self.key.hash()),
        }
    }
}

/// The keys of a firm, revoked ones too, newest first.
///
/// # Errors
/// `firm_not_found`.
pub async fn list(service: &Service, firm_id: Uuid) -> Result<Vec<KeyRow>, Error> {
    let pool = service.store.pool();
    firms::is_active(pool, firm_id).await?.ok_or(Error::FirmNotFound)?;
    Ok(keys::list(pool, firm_id).await?)
}

/// Revokes a key for good, and removes the subscriptions made with it. Returns their number.
///
/// # Errors
/// `not_found`, also for a key that is revoked already.
pub async fn revoke(
    service: &Service,
    firm_id: Uuid,
    key_id: Uuid,
    actor: Actor,
) -> Result<usize, Error> {
    let context = service.context(firm_id, actor);
    let seed = context.correlation_id;
    let revoked = retry_conflicts(seed, || try_revoke(service, key_id, &context)).await?;
    revoked.ok_or(Error::NotFound)
}

/// Records why a key is revoked, with a look at the key. The revocation's event has no place for a
/// reason.
///
/// # Errors
/// `firm_not_found`; `invalid_request` for a reason that is no label.
pub async fn note_reason(
    service: &Service,
    firm_id: Uuid,
    key_id: Uuid,
    actor: Actor,
    why: &str,
) -> Result<(), Error> {
    let look = ReadingDetails {
        key_id: Some(key_id),
        reason: Some(parse_reason(why)?),
        ..ReadingDetails::at(ReadingSubject::Key, ReadAs::Page)
    };
    readings::record(service, firm_id, actor, look).await
}

/// Locks the key before its subscriptions are listed, so that no subscription is added in between.
/// Returns `None` for a key that is not active.
async fn try_revoke(
    service: &Service,
    key_id: Uuid,
    context: &EventContext,
) -> Result<Option<usize>, AppendError> {
    let mut appending = service.store.begin().await?;
    let connection = appending.connection();
    if !keys::lock_active(connection, context.firm_id, key_id).await? {
        return Ok(None);
    }
    let hooks = hooks::live_of_keys(connection, &[key_id]).await?;
    let events = revocation_events(context, key_id, RevocationReason::Requested, &hooks);
    appending.append(events).await?;
    appending.commit().await?;
    Ok(Some(hooks.len()))
}

/// Events of a locked key's revocation and of the removals that it causes.
pub(crate) fn revocation_events(
    context: &EventContext,
    key_id: Uuid,
    reason: RevocationReason,
    hooks: &[LiveHook],
) -> Vec<NewEvent> {
    let revoked = NewEvent {
        aggregate_id: key_id.to_string(),
        sequence: REVOCATION_SEQUENCE,
        event: KeyEvent::KeyRevoked { reason }.into(),
        context: context.clone(),
    };
    let caused = context.caused_by(revoked.id());
    let removed = hooks.iter().map(|hook| removal_event(&caused, hook, RemovalReason::KeyRevoked));
    std::iter::once(revoked).chain(removed).collect()
}

/// A live subscription's removal for a reason other than its target.
pub(crate) fn removal_event(
    context: &EventContext,
    hook: &LiveHook,
    reason: RemovalReason,
) -> NewEvent {
    NewEvent {
        aggregate_id: hook.hook_id.to_string(),
        sequence: hook.sequence + 1,
        event: SubscriptionEvent::SubscriptionRemoved { reason, evidence: Vec::new() }.into(),
        context: context.clone(),
    }
}

/// The label of a key or token, without the space around it.
pub(super) fn parse_label(name: &str) -> Result<String, Error> {
    match trimmed_label(name, LABEL_MAX) {
        Some(name) => Ok(name.to_owned()),
        None => {
            Err(Error::invalid("`name` must have 1 to 100 characters, none a control character"))
        }
    }
}

async fn require_active(service: &Service, firm_id: Uuid) -> Result<(), Error> {
    match firms::is_active(service.store.pool(), firm_id).await? {
        None => Err(Error::FirmNotFound),
        Some(false) => Err(Error::FirmInactive),
        Some(true) => Ok(()),
    }
}

/// Tells an unknown member from one who does not manage.
///
/// # Errors
/// `firm_inactive`, or the database's.
async fn why_inactive(service: &Service, firm_id: Uuid, member_id: Uuid) -> Result<Error, Error> {
    require_active(service, firm_id).await?;
    let is_member = members::is_known(service.store.pool(), firm_id, member_id).await?;
    Ok(if is_member { Error::NotAManager } else { Error::NoSuchMember })
}

/// Finds the reason of a refused append. The store answers alike for a suspended firm, a member who
/// does not manage and an unknown member.
async fn not_created(
    service: &Service,
    firm_id: Uuid,
    member_id: Uuid,
    error: CommandError<KeyRejection>,
) -> Error {
    match error {
        CommandError::Append(AppendError::ActorInactive) => {
            why_inactive(service, firm_id, member_id).await.unwrap_or_else(|error| error)
        }
        CommandError::Append(error) => error.into(),
        // Two random ids are never the same, and the portal looks for the key of a repeated form.
        CommandError::Rejected(KeyRejection::Exists | KeyRejection::NotActive) => {
            Error::Internal(error.to_string())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::event::Event;

    fn context() -> EventContext {
        EventContext {
            firm_id: Uuid::from_u128(1),
            recorded_at: "2026-11-01T00:00:00.000Z".parse().unwrap(),
            actor: Actor::Operator(Uuid::nil()),
            correlation_id: Uuid::from_u128(2),
            causation_id: None,
            traceparent: None,
            terminal: None,
        }
    }

    fn hook(n: u128, sequence: i64) -> LiveHook {
        let (firm_id, key_id) = (Uuid::from_u128(1), Uuid::from_u128(3));
        LiveHook { hook_id: Uuid::from_u128(n), firm_id, key_id, sequence }
    }

    /// The space around a label is cut. A label is not empty.
    #[test]
    fn a_label_has_100_characters_at_most() {
        assert_eq!(parse_label(" Zapier\n"), Ok("Zapier".to_owned()));
        assert!(parse_label(&"é".repeat(100)).is_ok());
        assert!(parse_label(&"é".repeat(101)).is_err());
        assert!(parse_label("").is_err());
        assert!(parse_label(" \t ").is_err());
        assert!(parse_label("a\u{1b}[31mX\nfake-row").is_err());
    }

    #[test]
    fn b4_a_revoked_keys_subscriptions_go_too() {
        let key_id = Uuid::from_u128(3);
        let reason = RevocationReason::Requested;
        let events = revocation_events(&context(), key_id, reason, &[hook(4, 1), hook(5, 3)]);
        let [revoked, first, second] = &events[..] else { panic!("three events") };
        assert_eq!(revoked.event, Event::from(KeyEvent::KeyRevoked { reason }));
        assert_eq!((revoked.aggregate_id.as_str(), revoked.sequence), (&*key_id.to_string(), 2));
        assert_eq!(revoked.context, context());
        assert_eq!((first.sequence, second.sequence), (2, 4));
        for removed in [first, second] {
            assert_eq!(removed.context.causation_id, Some(revoked.id()));
            let reason = RemovalReason::KeyRevoked;
            let expected = SubscriptionEvent::SubscriptionRemoved { reason, evidence: vec![] };
            assert_eq!(removed.event, Event::from(expected));
        }
    }
}
