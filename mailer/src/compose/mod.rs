//! Writes an invite (contract, section POST /forms/{id}/send): the same bytes for the same invite,
//! whatever its texts.
//!
//! - `words` holds all sentences in each language.
//! - `plain` and `html` lay the sentences out.
//! - `accent` makes the firm's colour readable.
//! - `headers` keeps foreign text inside its header.
//!
//! Writing is a pure function. It never asks for the time, a name or randomness, and never fails.

pub(crate) mod accent;
pub(crate) mod headers;
pub(crate) mod html;
mod plain;
mod words;

use lettre::message::header::{ContentTransferEncoding, ContentType};
use lettre::message::{MultiPart, SinglePart};
use url::Url;
use uuid::Uuid;

use crate::mail::{InviteContent, Mail};
use crate::names::{clean_link, clean_note, one_line};
use accent::AccentColor;
use headers::HeaderSection;
use words::{LetterNames, LetterWords};

/// The longest address of a logo. A longer one is not used.
const LOGO_URL_MAX: usize = 2_000;

/// Writes the mail that invites one person to one form.
#[must_use]
pub fn compose_invite(invite: &InviteContent<'_>) -> Mail {
    let letter = Letter::new(invite);
    let mut bytes = HeaderSection::new(invite, &letter).into_bytes();
    bytes.extend(mail_body(invite.email_id, plain::write(&letter), html::write(&letter)));
    Mail {
        email_id: invite.email_id,
        from: invite.from.address().to_string(),
        to: invite.to.to_string(),
        bytes,
    }
}

/// The content of both versions of the mail. No text here breaks a line or turns its direction.
struct Letter {
    firm: String,
    words: LetterWords,
    note: Option<String>,
    accent: AccentColor,
    logo_url: Option<String>,
    form_url: String,
    unsubscribe_url: String,
}

impl Letter {
    /// The letter. A firm without a visible name is called by the sender's domain.
    fn new(invite: &InviteContent<'_>) -> Self {
        let firm =
            one_line(invite.firm_name).unwrap_or_else(|| invite.from.address().domain().to_owned());
        let words = LetterWords::new(
            invite.lang,
            &LetterNames {
                firm: &firm,
                title: one_line(invite.form_title).as_deref(),
                name: invite.greeting.and_then(one_line).as_deref(),
                to: &invite.to.to_string(),
            },
        );
        Self {
            words,
            note: invite.message.and_then(clean_note),
            accent: invite.color.and_then(AccentColor::parse_hex).unwrap_or_default(),
            logo_url: invite.logo_url.and_then(https_logo),
            form_url: clean_link(invite.form_url),
            unsubscribe_url: clean_link(invite.unsubscribe_url),
            firm,
        }
    }
}

/// Accepts only a picture that a mail reader fetches over https.
fn https_logo(text: &str) -> Option<String> {
    let url = Url::parse(text).ok()?;
    let plain = url.scheme() == "https" && url.username().is_empty() && url.password().is_none();
    Some(url.to_string()).filter(|url| plain && url.len() <= LOGO_URL_MAX)
}

/// Both versions, the better one last (RFC 2046, section 5.1.4). No line of quoted-printable begins
/// like this boundary (RFC 2045, section 6.7).
pub(crate) fn mail_body(email_id: Uuid, plain: String, html: String) -> Vec<u8> {
    let part = |content_type, text| {
        SinglePart::builder()
            .header(content_type)
            .header(ContentTransferEncoding::QuotedPrintable)
            .body::<String>(text)
    };
    MultiPart::alternative()
        .boundary(format!("=_{}", email_id.simple()))
        .singlepart(part(ContentType::TEXT_PLAIN, plain))
        .singlepart(part(ContentType::TEXT_HTML, html))
        .formatted()
}
