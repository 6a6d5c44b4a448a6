//! Sessions of the portal. The table has them, so a session ends for all copies of its cookie.
//!
//! Codes and cookies are secrets of 43 characters. A text of another form is refused without the
//! database, and wrong ones count per address like wrong keys.

use axum::http::request::Parts;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
pub use domain::access::portal::SESSION_TIME;
use domain::access::portal::reading_id;
use domain::event::Actor;
use domain::firm::FirmBrand;
use domain::operations::{ReadAs, ReadingDetails, ReadingEvent, ReadingSubject};
use domain::values::Lang;
use domain::values::{Timestamp, is_bare_secret};
use eventstore::{AppendError, AppendTransaction, NewEvent};
use projector::portal_sessions::{self, PortalSessionRow, SpentLinkRow, UsedLink};
use uuid::Uuid;

use super::links::secret_sha256;
use crate::commands::readings;
use crate::error::Error;
use crate::form_token::{is_signed_form, sign_form};
use crate::public::client_behind_proxies;
use crate::service::Service;

/// Most cookies of a request that are looked up. A neighbour in the domain may have set one.
const COOKIES_MAX: usize = 3;

/// A session of a member who manages the firm right now.
#[derive(Debug, Clone)]
pub struct PortalSession {
    firm_id: Uuid,
    firm_name: String,
    brand: FirmBrand,
    member_id: Uuid,
    lang: Option<Lang>,
    frame_origin: Option<String>,
    ends_at: Timestamp,
    cookie_sha256: [u8; 32],
}

/// The standing of a cookie.
#[derive(Debug, Clone)]
pub enum PortalStanding {
    /// The session goes on.
    Open(PortalSession),
    /// The session has ended, or the member manages the firm no more.
    Over {
        /// Why the request is refused. The rate holds for an ended session, too.
        why: Error,
        /// The origin that may show the refusal in a frame.
        frame_origin: Option<String>,
    },
    /// No session has this cookie.
    Unknown,
}

/// The way in by a link.
#[derive(Debug, Clone)]
pub enum PortalEntry {
    /// A session begins. The beginning is an entry of the audit log.
    Begun {
        /// The cookie of the session.
        cookie: String,
        /// The session.
        session: Box<PortalSession>,
    },
    /// The link is spent, and a session of its member goes on.
    GoesOn(Box<PortalSession>),
    /// There is no session.
    Refused {
        /// Why.
        why: Error,
        /// The origin that may show the refusal in a frame.
        frame_origin: Option<String>,
    },
}

/// Takes the code of a link.
pub async fn enter_by_link(
    service: &Service,
    parts: &Parts,
    code: &str,
    cookies: &[&str],
) -> Entered {
    if !is_bare_secret(code) {
        let why = count_wrong(service, parts, WrongSecret::Malformed).await?;
        return Ok(PortalEntry::Refused { why, frame_origin: None });
    }
    let cookie = URL_SAFE_NO_PAD.encode(service.routed_secret());
    let now = service.clock.now().get();
    let used = UsedLink {
        link_sha256: secret_sha256(code),
        cookie_sha256: secret_sha256(&cookie),
        now,
        ends_at: now + SESSION_TIME,
    };
    let mut appending = service.store.begin().await?;
    if let Some(link) = portal_sessions::begin(appending.connection(), used).await? {
        return match record_beginning(service, appending, used, &link).await {
            Ok(()) => begun_entry(service, cookie).await,
            // The member manages the firm no more, and the link stays unused until its end.
            Err(AppendError::ActorInactive) => Ok(PortalEntry::Refused {
                why: Error::Unauthorized,
                frame_origin: link.frame_origin,
            }),
            Err(error) => Err(error.into()),
        };
    }
    appending.rollback().await?;
    let pool = service.store.pool();
    let spent = portal_sessions::find_link(pool, used.link_sha256).await?;
    if let Some(spent) = &spent
        && let PortalStanding::Open(session) = find_standing(service, cookies).await?
        && session.firm_id == spent.firm_id
        && session.member_id == spent.member_id
    {
        session.admit_request(service)?;
        return Ok(PortalEntry::GoesOn(Box::new(session)));
    }
    let why = count_wrong(service, parts, WrongSecret::Unknown).await?;
    Ok(PortalEntry::Refused { why, frame_origin: spent.and_then(|spent| spent.frame_origin) })
}

/// The outcome of [`enter_by_link`].
type Entered = Result<PortalEntry, Error>;

/// Records the beginning of a session in the transaction that begins it. So no row of a session is
/// without its event.
async fn record_beginning(
    service: &Service,
    mut appending: AppendTransaction<'_>,
    used: UsedLink,
    link: &SpentLinkRow,
) -> Result<(), AppendError> {
    let beginning = ReadingDetails::at(ReadingSubject::Portal, ReadAs::Page);
    let context = service.context(link.firm_id, Actor::Member(link.member_id));
    let stream = reading_id(&used.cookie_sha256).to_string();
    let event = ReadingEvent::AuditRead(beginning);
    match appending.append(NewEvent::number_after(0, &stream, &context, [event])).await {
        Ok(_) => appending.commit().await,
        Err(error) => {
            appending.rollback().await?;
            Err(error)
        }
    }
}

async fn begun_entry(service: &Service, cookie: String) -> Entered {
    match find_standing(service, &[&cookie]).await? {
        PortalStanding::Open(session) => {
            Ok(PortalEntry::Begun { cookie, session: Box::new(session) })
        }
        PortalStanding::Over { why, frame_origin } => {
            Ok(PortalEntry::Refused { why, frame_origin })
        }
        PortalStanding::Unknown => {
            Ok(PortalEntry::Refused { why: Error::Unauthorized, frame_origin: None })
        }
    }
}

/// The standing of the first of these cookies that is a session, with the firm and the member as
/// they are now.
///
/// # Errors
/// `rate_limited` after many wrong cookies.
pub async fn find(
    service: &Service,
    parts: &Parts,
    cookies: &[&str],
) -> Result<PortalStanding, Error> {
    let found = find_standing(service, cookies).await?;
    if matches!(found, PortalStanding::Unknown) && !cookies.is_empty() {
        let is_known_form = cookies.iter().any(|cookie| is_bare_secret(cookie));
        let kind = if is_known_form { WrongSecret::Unknown } else { WrongSecret::Malformed };
        let why = count_wrong(service, parts, kind).await?;
        return if why == Error::Unauthorized { Ok(found) } else { Err(why) };
    }
    Ok(found)
}

/// A text that is no session.
#[derive(Debug, Clone, Copy)]
enum WrongSecret {
    /// It has another form.
    Malformed,
    /// The table does not have it.
    Unknown,
}

/// Counts a wrong code or cookie. Returns its refusal.
async fn count_wrong(service: &Service, parts: &Parts, kind: WrongSecret) -> Result<Error, Error> {
    let address = client_behind_proxies(parts, &service.settings.trusted_proxies);
    let now = service.clock.now();
    Ok(match kind {
        WrongSecret::Malformed => service.admission.wrong_keys.count_malformed(address, now),
        WrongSecret::Unknown => {
            service.admission.wrong_keys.count_unknown(service.store.pool(), address, now).await?
        }
    })
}

async fn find_standing(service: &Service, cookies: &[&str]) -> Result<PortalStanding, Error> {
    let mut hashes = Vec::new();
    for cookie in cookies.iter().filter(|cookie| is_bare_secret(cookie)) {
        let hash = secret_sha256(cookie);
        if hashes.len() < COOKIES_MAX && !hashes.contains(&hash) {
            hashes.push(hash);
        }
    }
    if hashes.is_empty() {
        return Ok(PortalStanding::Unknown);
    }
    let now = service.clock.now();
    let mut last = PortalStanding::Unknown;
    for row in portal_sessions::find(service.store.pool(), &hashes).await? {
        if row.manages && row.ends_at > now.get() {
            return Ok(PortalStanding::Open(PortalSession::new(row)));
        }
        let why = service.admission.portal_rates.admit_session(row.cookie_sha256, now).err();
        let why = why.unwrap_or(Error::Unauthorized);
        last = PortalStanding::Over { why, frame_origin: row.frame_origin };
    }
    Ok(last)
}

impl PortalSession {
    fn new(row: PortalSessionRow) -> Self {
        Self {
            firm_id: row.firm_id,
            firm_name: row.firm_name,
            brand: row.brand.0,
            member_id: row.member_id,
            lang: row.lang.as_deref().and_then(Lang::read),
            frame_origin: row.frame_origin,
            ends_at: row.ends_at.into(),
            cookie_sha256: row.cookie_sha256,
        }
    }

    /// The firm.
    #[must_use]
    pub const fn firm_id(&self) -> Uuid {
        self.firm_id
    }

    /// The name of the firm.
    #[must_use]
    pub fn firm_name(&self) -> &str {
        &self.firm_name
    }

    /// The brand of the firm.
    #[must_use]
    pub const fn brand(&self) -> &FirmBrand {
        &self.brand
    }

    /// The member.
    #[must_use]
    pub const fn member_id(&self) -> Uuid {
        self.member_id
    }

    /// The member in the log.
    #[must_use]
    pub const fn actor(&self) -> Actor {
        Actor::Member(self.member_id)
    }

    /// The chosen language.
    #[must_use]
    pub const fn lang(&self) -> Option<Lang> {
        self.lang
    }

    /// The one origin that may show the portal in a frame.
    #[must_use]
    pub fn frame_origin(&self) -> Option<&str> {
        self.frame_origin.as_deref()
    }

    /// The end of the session.
    #[must_use]
    pub const fn ends_at(&self) -> Timestamp {
        self.ends_at
    }

    /// Admits a request of this session, or refuses it.
    ///
    /// # Errors
    /// `rate_limited`.
    pub fn admit_request(&self, service: &Service) -> Result<(), Error> {
        service.admission.portal_rates.admit_session(self.cookie_sha256, service.clock.now())
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

    /// Of another length than all names of the console, so that no signature serves for both.
    fn form_name(&self) -> Vec<u8> {
        [b"portal form".as_slice(), &self.cookie_sha256].concat()
    }

    /// Sets the language.
    pub async fn set_lang(&self, service: &Service, lang: Lang) -> Result<(), Error> {
        let pool = service.store.pool();
        Ok(portal_sessions::set_lang(pool, self.cookie_sha256, lang.code()).await?)
    }

    /// Ends the session.
    pub async fn end(&self, service: &Service) -> Result<(), Error> {
        Ok(portal_sessions::end(service.store.pool(), self.cookie_sha256).await?)
    }

    /// Records a look of the member.
    pub(super) async fn record_look(
        &self,
        service: &Service,
        look: ReadingDetails,
    ) -> Result<(), Error> {
        readings::record(service, self.firm_id, self.actor(), look).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::tests::nowhere;

    fn session(cookie: &str) -> PortalSession {
        PortalSession {
            firm_id: Uuid::from_u128(1),
            firm_name: "Harrow Lane".into(),
            brand: FirmBrand::default(),
            member_id: Uuid::from_u128(2),
            lang: None,
            frame_origin: None,
            ends_at: "2026-11-01T12:30:00Z".parse().unwrap(),
            cookie_sha256: secret_sha256(cookie),
        }
    }

    /// A text that is no secret was looked up.
    #[test]
    fn only_a_secrets_shape_is_looked_up() {
        assert!(is_bare_secret(&URL_SAFE_NO_PAD.encode([255; 32])));
        for wrong in ["", "AAAA", &"a".repeat(44), &"+".repeat(43), &"é".repeat(43)] {
            assert!(!is_bare_secret(wrong), "{wrong}");
        }
    }

    #[tokio::test]
    async fn a_form_belongs_to_one_session() {
        let service = nowhere();
        let form = session("a").form_token(&service);
        assert!(session("a").has_form_token(&service, &form));
        for other in ["", "A", "é", &form[1..], &session("b").form_token(&service)] {
            assert!(!session("a").has_form_token(&service, other), "{other}");
        }
    }
}
