//! The content of an invite, before it is laid out.

use url::Url;

use super::accent::AccentColor;
use super::words::{LetterNames, LetterWords};
use crate::mail::InviteContent;
use crate::names::{clean_link, clean_note, one_line};

/// The longest address of a logo. A longer one is not used.
const LOGO_URL_MAX: usize = 2_000;

/// The content of both versions of the mail. No text here breaks a line or turns its direction.
pub(super) struct Letter {
    pub(super) firm: String,
    pub(super) words: LetterWords,
    pub(super) note: Option<String>,
    pub(super) accent: AccentColor,
    pub(super) logo_url: Option<String>,
    pub(super) form_url: String,
    pub(super) unsubscribe_url: String,
}

impl Letter {
    /// The letter. A firm without a visible name is called by the sender's domain.
    pub(super) fn new(invite: &InviteContent<'_>) -> Self {
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
