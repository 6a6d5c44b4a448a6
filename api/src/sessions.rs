//! Sessions of operators and auditors who come with a browser. A token, or a sign-in by the
//! provider, is exchanged for a cookie. A session ends 8 hours after its start, and 30 minutes
//! after its last use (ruling 62).
//!
//! No table holds sessions of tokens. A cookie holds the SHA-256 of its token, the start and the
//! last use, signed with a key that the keyring keeps. Each use makes a new text of the cookie. The
//! token is looked up at each call, so a session ends with its token: by expiry or by revocation.
//!
//! A table holds the sessions of users of the provider, with their last use. A sign-out therefore
//! ends all copies of the cookie.

use std::net::IpAddr;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chrono::DateTime;
use domain::access::sign_in::{
    SESSION_IDLE_MAX, SESSION_TIME, SignIn, SignInCommand, SignInScope, is_fresh_proof,
};
use domain::delivery::INSTALLATION_FIRM_ID;
use domain::event::Actor;
use domain::values::Timestamp;
use eventstore::{AppendTransaction, NewEvent, load_aggregate};
use projector::sign_ins::{self, NewSignIn, OpenSignIn, SignInRow};
use uuid::Uuid;

use crate::batching::token_cache::TokenHash;
use crate::batching::token_lookup;
use crate::commands;
use crate::error::Error;
use crate::form_token::{is_signed_form, sign_form};
use crate::service::Service;
use crate::token_holder::{HolderRole, NotARole, TokenHolder, hash_token};

/// Bytes of random, SHA-256 and start.
const NAME_BYTES: usize = 32 + 32 + 8;

/// Bytes of the signed part of a cookie: the name and the last use.
const SIGNED_BYTES: usize = NAME_BYTES + 8;

/// Characters of the cookie of a user: 32 bytes in base64url.
const USER_COOKIE_CHARS: usize = 43;

/// A session that was open when the call began.
#[derive(Clone)]
pub struct Session {
    holder: TokenHolder,
    kind: SessionKind,
    /// When the person last proved who it is; `None` if the provider did not tell.
    proven_at: Option<Timestamp>,
}

#[derive(Clone)]
enum SessionKind {
    /// It goes on while its token is active.
    OfToken(SessionName),
    /// It goes on while its row is there.
    OfUser { cookie_sha256: [u8; 32], name: String },
}

/// The session of a token.
#[derive(Clone, Copy, PartialEq, Eq)]
struct SessionName {
    /// Tells apart the sessions of one token, so that each has forms of its own.
    random: [u8; 32],
    token: TokenHash,
    /// The start, which is the proof of the person.
    begun_at: Timestamp,
}

/// A session of a token with its last use: the content of a cookie.
#[derive(Clone, Copy, PartialEq, Eq)]
struct UsedSession {
    name: SessionName,
    used_at: Timestamp,
}

/// Whether a call of a session is a use of its token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenUse {
    /// A person asked.
    Noted,
    /// A page asked by itself.
    Unnoted,
}

/// Exchanges a token for a session. After 20 wrong tokens within a minute their address waits; a
/// right token is served even then, as keys are (ruling 1).
///
/// # Errors
/// `unauthorized` for an unknown, expired or revoked token; `rate_limited` for too many of them;
/// `forbidden` for a token of the product.
pub async fn begin(service: &Service, token: &str, address: IpAddr) -> Result<Session, Error> {
    let now = service.clock.now();
    let Some(holder) = token_lookup::authenticate(service, token).await? else {
        let wrong =
            service.admission.token_rates.begin_try(address, now).map_err(Error::RateLimited)?;
        wrong.count_failure(now);
        return Err(Error::NoToken);
    };
    if !may_look(holder.role) {
        return Err(Error::Forbidden);
    }
    let name = SessionName {
        random: service.entropy.new_secret(),
        token: hash_token(token),
        begun_at: now,
    };
    Ok(Session { holder, kind: SessionKind::OfToken(name), proven_at: Some(now) })
}

/// The session of a cookie, unless it has ended.
pub async fn resume(
    service: &Service,
    cookie: &str,
    token_use: TokenUse,
) -> Result<Option<Session>, Error> {
    if cookie.len() == USER_COOKIE_CHARS {
        return resume_for_user(service, cookie, token_use).await;
    }
    let Some(used) = UsedSession::read(service, cookie) else { return Ok(None) };
    if used.is_over(service.clock.now()) {
        return Ok(None);
    }
    let name = used.name;
    let holder = match token_use {
        TokenUse::Noted => token_lookup::authenticate_hash(service, name.token).await?,
        TokenUse::Unnoted => token_lookup::look_up(service, name.token).await?,
    };
    let kind = SessionKind::OfToken(name);
    let proven_at = Some(name.begun_at);
    let holder = holder.filter(|holder| may_look(holder.role));
    Ok(holder.map(|holder| Session { holder, kind, proven_at }))
}

/// Begins the session of a user, with its entry in the audit log, and ends the session of the
/// replaced cookie. Returns the text of a new cookie, or `None` if this way to the provider has led
/// to a session before.
pub(crate) async fn begin_for_user(
    service: &Service,
    flow_sha256: [u8; 32],
    replaced: Option<[u8; 32]>,
    scope: &SignInScope,
    proven_at: Option<Timestamp>,
) -> Result<Option<String>, Error> {
    let Some(provider) = &service.settings.provider else { return Ok(None) };
    let cookie = URL_SAFE_NO_PAD.encode(service.entropy.new_secret());
    let sign_in_id = service.entropy.new_id();
    let holder = TokenHolder {
        token_id: scope.user_id,
        role: scope.role,
        firm_ids: scope.firm_ids.as_deref().map(Into::into),
    };
    let new = NewSignIn {
        cookie_sha256: hash_token(&cookie),
        flow_sha256,
        sign_in_id,
        grants_sha256: provider.grants_sha256(),
        scope,
        proven_at,
    };
    let mut appending = service.store.begin().await?;
    if !sign_ins::begin(appending.connection(), new, service.clock.now().get()).await? {
        return Ok(None);
    }
    sign_ins::name_user(appending.connection(), new).await?;
    if let Some(replaced) = replaced {
        let now = service.clock.now().get();
        let ended = sign_ins::end(appending.connection(), replaced, now).await?;
        append_ends(service, &mut appending, &ended, holder.actor(), None).await?;
    }
    let command = SignInCommand::Begin(scope.clone());
    let events = SignIn::default().decide(&command);
    let events = events.map_err(|error| Error::Internal(error.to_string()))?;
    let context = service.context(INSTALLATION_FIRM_ID, holder.actor());
    appending.append(NewEvent::number_after(0, &sign_in_id.to_string(), &context, events)).await?;
    appending.commit().await?;
    Ok(Some(cookie))
}

/// Without a provider in the settings, or with other grants of roles, no session of its users goes
/// on.
async fn resume_for_user(
    service: &Service,
    cookie: &str,
    token_use: TokenUse,
) -> Result<Option<Session>, Error> {
    let Some(provider) = &service.settings.provider else { return Ok(None) };
    let cookie_sha256 = hash_token(cookie);
    let now = service.clock.now().get();
    let grants = provider.grants_sha256();
    let pool = service.store.pool();
    let found = sign_ins::find(pool, cookie_sha256, grants, now).await?;
    let Some(SignInRow { user_id, name, role, firm_ids, proven_at }) = found else {
        return Ok(None);
    };
    if token_use == TokenUse::Noted {
        sign_ins::note_use(pool, cookie_sha256, now).await?;
    }
    let role = role.parse().map_err(|error: NotARole| Error::Internal(error.to_string()))?;
    let firm_ids = firm_ids.as_deref().map(Into::into);
    let holder = TokenHolder { token_id: user_id, role, firm_ids };
    let kind = SessionKind::OfUser { cookie_sha256, name };
    Ok(Some(Session { holder, kind, proven_at: proven_at.map(Timestamp::from) }))
}

/// The sessions of users that have not ended, the last one first.
pub async fn of_users(service: &Service) -> Result<Vec<OpenSignIn>, Error> {
    Ok(sign_ins::list_open(service.store.pool(), service.clock.now().get()).await?)
}

/// Ends all sessions of a user, by the operator at the terminal. Returns their number.
///
/// # Errors
/// `not_found` if none is open; `invalid_request` for a reason that is empty or too long.
pub async fn end_of_user(service: &Service, user_id: Uuid, reason: &str) -> Result<usize, Error> {
    let reason = Some(commands::parse_reason(reason)?);
    let mut appending = service.store.begin().await?;
    let now = service.clock.now().get();
    let ended = sign_ins::end_of_user(appending.connection(), user_id, now).await?;
    if ended.is_empty() {
        return Err(Error::NotFound);
    }
    append_ends(service, &mut appending, &ended, service.operator(), reason).await?;
    appending.commit().await?;
    Ok(ended.len())
}

/// Appends the ends of these sign-ins, whose rows the transaction has changed.
async fn append_ends(
    service: &Service,
    appending: &mut AppendTransaction<'_>,
    sign_ins: &[Uuid],
    actor: Actor,
    reason: Option<String>,
) -> Result<(), Error> {
    let command = SignInCommand::End { reason };
    let context = service.context(INSTALLATION_FIRM_ID, actor);
    let upcasters = service.store.upcasters();
    for sign_in_id in sign_ins {
        let stream = sign_in_id.to_string();
        let (sign_in, last) =
            load_aggregate::<SignIn>(appending.connection(), &upcasters, &stream).await?;
        let events = sign_in.decide(&command);
        let events = events.map_err(|error| Error::Internal(error.to_string()))?;
        appending.append(NewEvent::number_after(last, &stream, &context, events)).await?;
    }
    Ok(())
}

const fn may_look(role: HolderRole) -> bool {
    matches!(role, HolderRole::Operator | HolderRole::Auditor)
}

impl Session {
    /// The holder of the token.
    #[must_use]
    pub const fn holder(&self) -> &TokenHolder {
        &self.holder
    }

    /// The holder in the log.
    #[must_use]
    pub const fn actor(&self) -> Actor {
        self.holder.actor()
    }

    /// The name of the user, if the session is one of a user of the provider.
    #[must_use]
    pub fn user(&self) -> Option<&str> {
        match &self.kind {
            SessionKind::OfToken(_) => None,
            SessionKind::OfUser { name, .. } => Some(name),
        }
    }

    /// Whether the person proved who it is a short time ago, as acts that cut off ask (ruling 62).
    #[must_use]
    pub fn is_proven(&self, now: Timestamp) -> bool {
        is_fresh_proof(self.proven_at, now)
    }

    /// Whether both are sessions of one token.
    #[must_use]
    pub fn has_token_of(&self, other: &Self) -> bool {
        match (&self.kind, &other.kind) {
            (SessionKind::OfToken(name), SessionKind::OfToken(other)) => name.token == other.token,
            _ => false,
        }
    }

    /// The text of the cookie after this use, and the seconds until the session ends in any case.
    /// `None` for the session of a user, whose cookie stays.
    #[must_use]
    pub fn used_cookie(&self, service: &Service) -> Option<(String, i64)> {
        let SessionKind::OfToken(name) = self.kind else { return None };
        let used_at = service.clock.now();
        let left = SESSION_TIME - (used_at.get() - name.begun_at.get());
        Some((UsedSession { name, used_at }.signed_cookie(service), left.num_seconds()))
    }

    /// Ends the session of a user, for all copies of its cookie. A token's session goes on with its
    /// token.
    pub async fn end(&self, service: &Service) -> Result<(), Error> {
        let SessionKind::OfUser { cookie_sha256, .. } = self.kind else {
            return Ok(());
        };
        let mut appending = service.store.begin().await?;
        // The row is changed first, so one of two calls ends the session.
        let now = service.clock.now().get();
        let ended = sign_ins::end(appending.connection(), cookie_sha256, now).await?;
        append_ends(service, &mut appending, &ended, self.actor(), None).await?;
        Ok(appending.commit().await?)
    }

    /// SHA-256 of the cookie of a user's session.
    #[must_use]
    pub const fn user_cookie(&self) -> Option<[u8; 32]> {
        match self.kind {
            SessionKind::OfToken(_) => None,
            SessionKind::OfUser { cookie_sha256, .. } => Some(cookie_sha256),
        }
    }

    /// Whether the holder may act.
    #[must_use]
    pub fn may_act(&self) -> bool {
        self.holder.role == HolderRole::Operator
    }

    /// The text that each form of this session must carry.
    #[must_use]
    pub fn form_token(&self, service: &Service) -> String {
        sign_form(&service.inviter.identity, &self.form_name())
    }

    /// Whether this text came out of a form of this session.
    #[must_use]
    pub fn has_form_token(&self, service: &Service, text: &str) -> bool {
        is_signed_form(&service.inviter.identity, &self.form_name(), text)
    }

    /// Of another length than the name of a session, so that neither signature serves as the other.
    fn form_name(&self) -> Vec<u8> {
        match &self.kind {
            SessionKind::OfToken(name) => [b"form".as_slice(), &name.bytes()].concat(),
            SessionKind::OfUser { cookie_sha256, .. } => {
                [b"sign-in form".as_slice(), cookie_sha256].concat()
            }
        }
    }
}

impl SessionName {
    fn bytes(self) -> [u8; NAME_BYTES] {
        let mut bytes = [0; NAME_BYTES];
        bytes[..32].copy_from_slice(&self.random);
        bytes[32..64].copy_from_slice(&self.token);
        bytes[64..].copy_from_slice(&millis_bytes(self.begun_at));
        bytes
    }
}

impl UsedSession {
    fn bytes(self) -> [u8; SIGNED_BYTES] {
        let mut bytes = [0; SIGNED_BYTES];
        bytes[..NAME_BYTES].copy_from_slice(&self.name.bytes());
        bytes[NAME_BYTES..].copy_from_slice(&millis_bytes(self.used_at));
        bytes
    }

    fn signed_cookie(self, service: &Service) -> String {
        let bytes = self.bytes();
        let signature = service.inviter.identity.sign_session(&bytes);
        URL_SAFE_NO_PAD.encode([bytes.as_slice(), &signature].concat())
    }

    /// A cookie of release 0.2.0 is shorter, and is no session.
    fn read(service: &Service, cookie: &str) -> Option<Self> {
        let bytes = URL_SAFE_NO_PAD.decode(cookie).ok()?;
        let (signed, signature) = bytes.split_first_chunk::<SIGNED_BYTES>()?;
        if !service.inviter.identity.has_signed_session(signed, signature) {
            return None;
        }
        let (random, rest) = signed.split_first_chunk()?;
        let (token, rest) = rest.split_first_chunk()?;
        let (begun_at, used_at) = rest.split_first_chunk()?;
        let begun_at = read_millis(*begun_at)?;
        let name = SessionName { random: *random, token: *token, begun_at };
        Some(Self { name, used_at: read_millis(*used_at.first_chunk()?)? })
    }

    fn is_over(self, now: Timestamp) -> bool {
        now.get() - self.name.begun_at.get() >= SESSION_TIME
            || now.get() - self.used_at.get() >= SESSION_IDLE_MAX
    }
}

fn millis_bytes(at: Timestamp) -> [u8; 8] {
    at.get().timestamp_millis().to_be_bytes()
}

fn read_millis(bytes: [u8; 8]) -> Option<Timestamp> {
    DateTime::from_timestamp_millis(i64::from_be_bytes(bytes)).map(Timestamp::from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::tests::nowhere;

    fn at(millis: i64) -> Timestamp {
        DateTime::from_timestamp_millis(millis).unwrap().into()
    }

    fn name() -> SessionName {
        SessionName { random: [1; 32], token: [2; 32], begun_at: at(3) }
    }

    /// A session ends after 8 hours, or after 30 idle minutes.
    #[test]
    fn a_session_ends_by_age_or_idleness() {
        let minutes = |minutes: i64| at(minutes * 60_000);
        let used = |begun, used| UsedSession {
            name: SessionName { begun_at: minutes(begun), ..name() },
            used_at: minutes(used),
        };
        assert!(!used(0, 450).is_over(minutes(479)));
        assert!(used(0, 451).is_over(minutes(480)));
        assert!(!used(0, 100).is_over(at(130 * 60_000 - 1)));
        assert!(used(0, 100).is_over(minutes(130)));
    }

    #[tokio::test]
    async fn a_changed_cookie_is_no_session() {
        let service = nowhere();
        let used = UsedSession { name: name(), used_at: at(4) };
        let cookie = used.signed_cookie(&service);
        assert!(UsedSession::read(&service, &cookie).is_some_and(|read| read == used));
        for place in 0..cookie.len() {
            let mut other = cookie.clone().into_bytes();
            other[place] = if other[place] == b'A' { b'B' } else { b'A' };
            let other = String::from_utf8(other).unwrap();
            assert!(UsedSession::read(&service, &other).is_none(), "{place}");
        }
        for other in ["", "A", "é", &cookie[4..], &format!("{cookie}AAAA")] {
            assert!(UsedSession::read(&service, other).is_none(), "{other}");
        }
    }

    /// The text of a form is no cookie.
    #[tokio::test]
    async fn a_form_belongs_to_one_session() {
        let service = nowhere();
        let role = HolderRole::Operator;
        let holder = TokenHolder { token_id: Uuid::nil(), role, firm_ids: None };
        let of = |name| SessionKind::OfToken(name);
        let session = Session { holder: holder.clone(), kind: of(name()), proven_at: None };
        let other = of(SessionName { random: [9; 32], ..name() });
        let other = Session { holder, kind: other, proven_at: None };
        let form = session.form_token(&service);
        assert!(session.has_form_token(&service, &form));
        assert!(!other.has_form_token(&service, &form));
        assert!(!session.has_form_token(&service, ""));
        assert!(UsedSession::read(&service, &form).is_none());
    }
}
