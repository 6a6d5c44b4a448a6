//! Sessions of the portal. The table has them, so a session ends for all copies of its cookie.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chrono::TimeDelta;
use domain::context::Actor;
use domain::firm::FirmBrand;
use domain::lang::Lang;
use domain::reading::{ReadAs, ReadingDetails, ReadingSubject};
use domain::text::is_bare_secret;
use domain::time::Timestamp;
use projector::portal_sessions::{self, PortalSessionRow, UsedLink};
use uuid::Uuid;

use super::links::sha256;
use crate::commands::readings;
use crate::error::Error;
use crate::service::Service;

/// The time of a session (ruling 48).
pub const SESSION_TIME: TimeDelta = TimeDelta::minutes(30);

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
        /// The origin that may show the refusal in a frame.
        frame_origin: Option<String>,
    },
    /// No session has this cookie.
    Unknown,
}

/// Begins a session with a link; returns its cookie. The beginning is an entry of the audit log.
///
/// # Errors
/// `unauthorized` for a link that is unknown, used or over, and for a member who manages the firm
/// no more.
pub async fn begin(service: &Service, code: &str) -> Result<String, Error> {
    if !is_bare_secret(code) {
        return Err(Error::Unauthorized);
    }
    let cookie = URL_SAFE_NO_PAD.encode(service.routed_secret());
    let now = service.clock.now().get();
    let used = UsedLink {
        link_sha256: sha256(code),
        cookie_sha256: sha256(&cookie),
        now,
        ends_at: now + SESSION_TIME,
    };
    if !portal_sessions::begin(service.store.pool(), used).await? {
        return Err(Error::Unauthorized);
    }
    let PortalStanding::Open(session) = find(service, &cookie).await? else {
        return Err(Error::Unauthorized);
    };
    session.record(service, ReadingDetails::at(ReadingSubject::Portal, ReadAs::Page)).await?;
    Ok(cookie)
}

/// The standing of a cookie, with the firm and the member as they are now.
///
/// # Errors
/// If the database does not answer.
pub async fn find(service: &Service, cookie: &str) -> Result<PortalStanding, Error> {
    if !is_bare_secret(cookie) {
        return Ok(PortalStanding::Unknown);
    }
    let cookie_sha256 = sha256(cookie);
    let found = portal_sessions::find(service.store.pool(), cookie_sha256).await?;
    let Some(row) = found else { return Ok(PortalStanding::Unknown) };
    if !row.manages || row.ends_at <= service.clock.now().get() {
        return Ok(PortalStanding::Over { frame_origin: row.frame_origin });
    }
    Ok(PortalStanding::Open(PortalSession::of(row, cookie_sha256)))
}

impl PortalSession {
    fn of(row: PortalSessionRow, cookie_sha256: [u8; 32]) -> Self {
        Self {
            firm_id: row.firm_id,
            firm_name: row.firm_name,
            brand: row.brand.0,
            member_id: row.member_id,
            lang: row.lang.as_deref().and_then(Lang::read),
            frame_origin: row.frame_origin,
            ends_at: row.ends_at.into(),
            cookie_sha256,
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

    /// Of another length than all names of the console, so that no signature serves for both.
    fn form_name(&self) -> Vec<u8> {
        [b"portal form".as_slice(), &self.cookie_sha256].concat()
    }

    /// Sets the language.
    ///
    /// # Errors
    /// If the database does not answer.
    pub async fn set_lang(&self, service: &Service, lang: Lang) -> Result<(), Error> {
        let pool = service.store.pool();
        Ok(portal_sessions::set_lang(pool, self.cookie_sha256, lang.code()).await?)
    }

    /// Ends the session.
    ///
    /// # Errors
    /// If the database does not answer.
    pub async fn end(&self, service: &Service) -> Result<(), Error> {
        Ok(portal_sessions::end(service.store.pool(), self.cookie_sha256).await?)
    }

    /// Records a look of the member.
    pub(super) async fn record(
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
            cookie_sha256: sha256(cookie),
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
