//! Writes an invite (contract, section POST /forms/{id}/send): the same bytes for the same
//! invite, whatever its texts hold.
//!
//! The cast: `words` says everything in each language, `plain` and `html` lay it out, `accent`
//! makes the firm's colour readable, `headers` keeps foreign text inside its header.
//!
//! It must not ask for the time, a name or randomness, and must not fail.

mod accent;
mod headers;
mod html;
mod plain;
mod words;

use lettre::message::header::{ContentTransferEncoding, ContentType};
use lettre::message::{MultiPart, SinglePart};
use url::Url;

use crate::mail::{InviteContent, Mail};
use crate::names::{clean_link, clean_note, one_line};
use accent::AccentColor;
use headers::HeaderSection;
use words::{LetterNames, LetterWords};

/// The longest address of a logo; longer ones are not used.
const LOGO_URL_MAX: usize = 2_000;

/// Writes the mail that invites one person to one form.
#[must_use]
pub fn compose(invite: &InviteContent<'_>) -> Mail {
    let letter = Letter::new(invite);
    let mut bytes = HeaderSection::of(invite, &letter).into_bytes();
    bytes.extend(body(invite, &letter));
    Mail {
        email_id: invite.email_id,
        from: invite.from.address().to_string(),
        to: invite.to.to_string(),
        bytes,
    }
}

/// What both versions of the mail show. Nothing in it breaks or turns a line.
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
    /// A firm without a visible name goes by the sender's domain.
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
            accent: invite.color.and_then(AccentColor::read).unwrap_or_default(),
            logo_url: invite.logo_url.and_then(logo),
            form_url: clean_link(invite.form_url),
            unsubscribe_url: clean_link(invite.unsubscribe_url),
            firm,
        }
    }
}

/// Only a picture that a mail reader fetches over https.
fn logo(text: &str) -> Option<String> {
    let url = Url::parse(text).ok()?;
    let plain = url.scheme() == "https" && url.username().is_empty() && url.password().is_none();
    Some(url.to_string()).filter(|url| plain && url.len() <= LOGO_URL_MAX)
}

/// Both versions, the better one last (RFC 2046, section 5.1.4). Quoted-printable has no line
/// that begins like this boundary, whatever the text (RFC 2045, section 6.7).
fn body(invite: &InviteContent<'_>, letter: &Letter) -> Vec<u8> {
    let part = |content_type, text| {
        SinglePart::builder()
            .header(content_type)
            .header(ContentTransferEncoding::QuotedPrintable)
            .body::<String>(text)
    };
    MultiPart::alternative()
        .boundary(format!("=_{}", invite.email_id.simple()))
        .singlepart(part(ContentType::TEXT_PLAIN, plain::write(letter)))
        .singlepart(part(ContentType::TEXT_HTML, html::write(letter)))
        .formatted()
}
