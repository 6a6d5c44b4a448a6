//! Writes an invite (contract, section POST /forms/{id}/send): the same bytes for the same invite,
//! whatever its texts.
//!
//! - `words` holds all sentences in each language, and `letter` the content of one invite.
//! - `plain` and `html` lay the content out.
//! - `accent` makes the firm's colour readable.
//! - `headers` keeps foreign text inside its header.
//!
//! Writing is a pure function. It never asks for the time, a name or randomness, and never fails.

pub(crate) mod accent;
pub(crate) mod headers;
pub(crate) mod html;
mod letter;
mod plain;
mod words;

use lettre::message::header::{ContentTransferEncoding, ContentType};
use lettre::message::{MultiPart, SinglePart};
use uuid::Uuid;

use crate::mail::{InviteContent, Mail};
use headers::HeaderSection;
use letter::Letter;

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
