//! Links to the portal: made for a member, and used once.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chrono::TimeDelta;
use domain::access::FrameOrigin;
use domain::values::{Lang, Timestamp};
use projector::portal_sessions::{self, NewLinkRow};
use projector::{firms, members};
use sha2::{Digest, Sha256};
use url::Url;
use uuid::Uuid;

use crate::error::Error;
use crate::service::Service;

/// The time in which a link can be used (ruling 48).
pub const LINK_TIME: TimeDelta = TimeDelta::seconds(60);

/// An order for a link.
#[derive(Debug, Clone)]
pub struct NewPortalLink {
    /// The firm.
    pub firm_id: Uuid,
    /// The member for whom the link is.
    pub member_id: Uuid,
    /// The language; that of the browser if none is chosen.
    pub lang: Option<Lang>,
    /// The one origin that may show the portal in a frame.
    pub frame_origin: Option<FrameOrigin>,
}

/// A link. Only this answer has its code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortalLink {
    /// The address to which the product leads the member's browser.
    pub url: String,
    /// The end of the link.
    pub expires_at: Timestamp,
}

/// Whether the portal is served. Its addresses begin at the root of the host, so it is not if the
/// base URL has a path before `/api/v1`.
#[must_use]
pub fn is_served(service: &Service) -> bool {
    let url: Option<Url> = service.inviter.public_url.parse().ok();
    url.is_some_and(|url| url.path() == "/")
}

/// Makes a link for a member who manages the firm.
///
/// # Errors
/// `invalid_request` where no portal is served; `firm_not_found`, `firm_inactive`, `not_a_manager`.
pub async fn make(service: &Service, new: &NewPortalLink) -> Result<PortalLink, Error> {
    if !is_served(service) {
        return Err(Error::invalid(
            "there is no portal, because `--base-url` has a path before /api/v1",
        ));
    }
    let pool = service.store.pool();
    if !firms::is_active(pool, new.firm_id).await?.ok_or(Error::FirmNotFound)? {
        return Err(Error::FirmInactive);
    }
    match members::manages(pool, new.firm_id, new.member_id).await? {
        Some(true) => {}
        Some(false) => return Err(Error::NotAManager),
        None => return Err(Error::NoSuchMember),
    }
    let code = URL_SAFE_NO_PAD.encode(service.routed_secret());
    let ends_at = service.clock.now().get() + LINK_TIME;
    let row = NewLinkRow {
        link_sha256: secret_sha256(&code),
        firm_id: new.firm_id,
        member_id: new.member_id,
        lang: new.lang.map(Lang::code),
        frame_origin: new.frame_origin.as_ref().map(FrameOrigin::as_str),
        ends_at,
    };
    portal_sessions::insert_link(pool, &row).await?;
    let url = format!("{}/portal/enter?code={code}", service.inviter.public_url);
    Ok(PortalLink { url, expires_at: ends_at.into() })
}

/// The SHA-256 of a code or a cookie. Both have 256 random bits, so no guess can be tried out.
pub(super) fn secret_sha256(text: &str) -> [u8; 32] {
    Sha256::digest(text.as_bytes()).into()
}
