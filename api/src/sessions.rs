//! Sessions of operators and auditors who come with a browser. A token, or a sign-in by the
//! provider, is exchanged for a cookie of eight hours.
//!
//! No table holds sessions of tokens. A cookie holds the SHA-256 of its token and its own end,
//! signed with a key that the keyring keeps. The token is looked up at each call, so a session ends
//! with its token: by expiry or by revocation.
//!
//! A table holds the sessions of users of the provider. A sign-out therefore ends all copies of the
//! cookie.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chrono::TimeDelta;
use domain::context::Actor;
use domain::pause::INSTALLATION_FIRM_ID;
use domain::sign_in::{SignIn, SignInCommand, SignInScope};
use eventstore::{AppendTransaction, NewEvent, load};
use projector::sign_ins::{self, NewSignIn, OpenSignIn, SignInRow};
use uuid::Uuid;

use crate::batching::token_cache::{self, TokenHash};
use crate::commands;
use crate::error::Error;
use crate::service::Service;
use crate::token_holder::{HolderRole, NotARole, TokenHolder, hash};

/// The longest time of a session.
pub const SESSION_TIME: TimeDelta = TimeDelta::hours(8);

/// Bytes of random, SHA-256 and end.
const NAME_BYTES: usize = 32 + 32 + 8;

/// Characters of the cookie of a user: 32 bytes in base64url.
const USER_COOKIE_CHARS: usize = 43;

/// A session that was open when the call began.
#[derive(Clone)]
pub struct Session {
    holder: TokenHolder,
    kind: SessionKind,
}

#[derive(Clone)]
enum SessionKind {
    /// It goes on while its token is active.
    OfToken(SessionName),
    /// It goes on while its row is there.
    OfUser { cookie_sha256: [u8; 32], name: String },
}

/// The signed part of a cookie.
#[derive(Clone, Copy)]
struct SessionName {
    /// Tells apart the sessions of one token, so that each has forms of its own.
    random: [u8; 32],
    token: TokenHash,
    ends_at: i64,
}

/// Whether a call of a session is a use of its token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenUse {
    /// A person asked.
    Noted,
    /// A page asked by itself.
    Unnoted,
}

/// Exchanges a token for the text of a cookie.
///
/// # Errors
/// `unauthorized` for an unknown, expired or revoked token; `forbidden` for one of the product.
pub async fn begin(service: &Service, token: &str) -> Result<String, Error> {
    let holder = token_cache::authenticate(service, token).await?.ok_or(Error::NoToken)?;
    if !may_look(holder.role) {
        return Err(Error::Forbidden);
    }
    let ends_at = service.clock.now().get() + SESSION_TIME;
    let random = service.entropy.secret();
    let name = SessionName { random, token: hash(token), ends_at: ends_at.timestamp_millis() };
    Ok(name.signed(service))
}

/// The session of a cookie, unless it has ended.
///
/// # Errors
/// If the database does not answer.
pub async fn resume(
    service: &Service,
    cookie: &str,
    token_use: TokenUse,
) -> Result<Option<Session>, Error> {
    if cookie.len() == USER_COOKIE_CHARS {
        return resume_for_user(service, cookie).await;
    }
    let Some(name) = SessionName::read(service, cookie) else { return Ok(None) };
    if service.clock.now().get().timestamp_millis() >= name.ends_at {
        return Ok(None);
    }
    let holder = match token_use {
        TokenUse::Noted => token_cache::authenticate_hash(service, name.token).await?,
        TokenUse::Unnoted => token_cache::look_up(service, name.token).await?,
    };
    let kind = SessionKind::OfToken(name);
    Ok(holder.filter(|holder| may_look(holder.role)).map(|holder| Session { holder, kind }))
}

/// Begins the session of a user, with its entry in the audit log. Returns the text of a new cookie,
/// or `None` if this way to the provider has led to a session before.
pub(crate) async fn begin_for_user(
    service: &Service,
    flow_sha256: [u8; 32],
    scope: &SignInScope,
) -> Result<Option<String>, Error> {
    let Some(provider) = &service.provider else { return Ok(None) };
    let cookie = URL_SAFE_NO_PAD.encode(service.entropy.secret());
    let sign_in_id = service.entropy.id();
    let holder = TokenHolder {
        token_id: scope.user_id,
        role: scope.role,
        firm_ids: scope.firm_ids.as_deref().map(Into::into),
    };
    let new = NewSignIn {
        cookie_sha256: hash(&cookie),
        flow_sha256,
        sign_in_id,
        grants_sha256: provider.grants_sha256(),
        scope,
    };
    let mut appending = service.store.begin().await?;
    if !sign_ins::begin(appending.connection(), new).await? {
        return Ok(None);
    }
    sign_ins::name_user(appending.connection(), new).await?;
    let command = SignInCommand::Begin(scope.clone());
    let events = SignIn::default().decide(&command);
    let events = events.map_err(|error| Error::Internal(error.to_string()))?;
    let context = service.context(INSTALLATION_FIRM_ID, holder.actor());
    appending.append(NewEvent::after(0, &sign_in_id.to_string(), &context, events)).await?;
    appending.commit().await?;
    Ok(Some(cookie))
}

/// Without a provider in the settings, or with other grants of roles, no session of its users goes
/// on.
async fn resume_for_user(service: &Service, cookie: &str) -> Result<Option<Session>, Error> {
    let Some(provider) = &service.provider else { return Ok(None) };
    let cookie_sha256 = hash(cookie);
    let now = service.clock.now().get();
    let grants = provider.grants_sha256();
    let found = sign_ins::find(service.store.pool(), cookie_sha256, grants, now).await?;
    let Some(SignInRow { user_id, name, role, firm_ids }) = found else { return Ok(None) };
    let role = role.parse().map_err(|error: NotARole| Error::Internal(error.to_string()))?;
    let firm_ids = firm_ids.as_deref().map(Into::into);
    let holder = TokenHolder { token_id: user_id, role, firm_ids };
    let kind = SessionKind::OfUser { cookie_sha256, name };
    Ok(Some(Session { holder, kind }))
}

/// The sessions of users that have not ended, the last one first.
///
/// # Errors
/// If the database does not answer.
pub async fn of_users(service: &Service) -> Result<Vec<OpenSignIn>, Error> {
    Ok(sign_ins::open(service.store.pool(), service.clock.now().get()).await?)
}

/// Ends all sessions of a user, by the operator at the terminal. Returns their number.
///
/// # Errors
/// `not_found` if none is open; `invalid_request` for a reason that is empty or too long.
pub async fn end_of_user(service: &Service, user_id: Uuid, reason: &str) -> Result<usize, Error> {
    let reason = Some(commands::reason(reason)?);
    let mut appending = service.store.begin().await?;
    let now = service.clock.now().get();
    let ended = sign_ins::end_of_user(appending.connection(), user_id, now).await?;
    if ended.is_empty() {
        return Err(Error::NotFound);
    }
    record_ends(service, appending, &ended, service.operator(), reason).await?;
    Ok(ended.len())
}

/// Appends the ends of these sign-ins, whose rows the transaction has changed.
async fn record_ends(
    service: &Service,
    mut appending: AppendTransaction<'_>,
    sign_ins: &[Uuid],
    actor: Actor,
    reason: Option<String>,
) -> Result<(), Error> {
    let command = SignInCommand::End { reason };
    let context = service.context(INSTALLATION_FIRM_ID, actor);
    let upcasters = service.store.upcasters();
    for sign_in_id in sign_ins {
        let stream = sign_in_id.to_string();
        let (sign_in, last) = load::<SignIn>(appending.connection(), &upcasters, &stream).await?;
        let events = sign_in.decide(&command);
        let events = events.map_err(|error| Error::Internal(error.to_string()))?;
        appending.append(NewEvent::after(last, &stream, &context, events)).await?;
    }
    appending.commit().await?;
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

    /// Ends the session of a user, for all copies of its cookie. A token's session goes on with its
    /// token.
    ///
    /// # Errors
    /// If the database does not answer.
    pub async fn end(&self, service: &Service) -> Result<(), Error> {
        let SessionKind::OfUser { cookie_sha256, .. } = self.kind else {
            return Ok(());
        };
        let mut appending = service.store.begin().await?;
        // The row is changed first, so one of two calls ends the session.
        let now = service.clock.now().get();
        let ended = sign_ins::end(appending.connection(), cookie_sha256, now).await?;
        record_ends(service, appending, &ended, self.actor(), None).await
    }

    /// Whether the holder may act.
    #[must_use]
    pub fn may_act(&self) -> bool {
        self.holder.role == HolderRole::Operator
    }

    /// The text that each form of this session must carry.
    #[must_use]
    pub fn form_token(&self, service: &Service) -> String {
        URL_SAFE_NO_PAD.encode(service.inviter.identity.sign_session(&self.form_name()))
    }

    /// Whether this text came out of a form of this session.
    #[must_use]
    pub fn has_form_token(&self, service: &Service, text: &str) -> bool {
        let signature = URL_SAFE_NO_PAD.decode(text).unwrap_or_default();
        service.inviter.identity.has_signed_session(&self.form_name(), &signature)
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
        bytes[64..].copy_from_slice(&self.ends_at.to_be_bytes());
        bytes
    }

    fn signed(self, service: &Service) -> String {
        let name = self.bytes();
        let signature = service.inviter.identity.sign_session(&name);
        URL_SAFE_NO_PAD.encode([name.as_slice(), &signature].concat())
    }

    fn read(service: &Service, cookie: &str) -> Option<Self> {
        let bytes = URL_SAFE_NO_PAD.decode(cookie).ok()?;
        let (name, signature) = bytes.split_first_chunk::<NAME_BYTES>()?;
        if !service.inviter.identity.has_signed_session(name, signature) {
            return None;
        }
        let (random, rest) = name.split_first_chunk()?;
        let (token, ends_at) = rest.split_first_chunk()?;
        let ends_at = i64::from_be_bytes(*ends_at.first_chunk()?);
        Some(Self { random: *random, token: *token, ends_at })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::tests::nowhere;

    fn name() -> SessionName {
        SessionName { random: [1; 32], token: [2; 32], ends_at: 3 }
    }

    #[tokio::test]
    async fn a_changed_cookie_is_no_session() {
        let service = nowhere();
        let cookie = name().signed(&service);
        assert_eq!(
            SessionName::read(&service, &cookie).map(SessionName::bytes),
            Some(name().bytes())
        );
        for place in 0..cookie.len() {
            let mut other = cookie.clone().into_bytes();
            other[place] = if other[place] == b'A' { b'B' } else { b'A' };
            let other = String::from_utf8(other).unwrap();
            assert!(SessionName::read(&service, &other).is_none(), "{place}");
        }
        for other in ["", "A", "é", &cookie[4..], &format!("{cookie}AAAA")] {
            assert!(SessionName::read(&service, other).is_none(), "{other}");
        }
    }

    #[tokio::test]
    async fn a_form_belongs_to_one_session_and_its_text_is_no_cookie() {
        let service = nowhere();
        let role = HolderRole::Operator;
        let holder = TokenHolder { token_id: Uuid::nil(), role, firm_ids: None };
        let of = |name| SessionKind::OfToken(name);
        let session = Session { holder: holder.clone(), kind: of(name()) };
        let other = Session { holder, kind: of(SessionName { random: [9; 32], ..name() }) };
        let form = session.form_token(&service);
        assert!(session.has_form_token(&service, &form));
        assert!(!other.has_form_token(&service, &form));
        assert!(!session.has_form_token(&service, ""));
        assert!(SessionName::read(&service, &form).is_none());
    }
}
