//! The header section of an invite (RFC 5322, section 2.2). A text stays in its own header and
//! keeps its meaning, whatever its characters. No line is longer than 998 bytes.
//!
//! lettre's builder is not used: it panics on line breaks and on dates before 1970. It also passes
//! text that reads like an encoded word, and does not break long words.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use domain::values::EmailAddress;

use super::letter::Letter;
use crate::mail::{InviteContent, SenderAddress};
use domain::values::Timestamp;
use uuid::Uuid;

/// The column at which lines are folded, if possible (RFC 2047, section 2).
const FOLD_COLUMN: usize = 76;

/// Bytes of text in one encoded word. In base64 they fit on a line with the header's name.
const ENCODED_WORD_BYTES: usize = 36;

/// The longest word that is not broken up.
const WORD_MAX: usize = 60;

/// The longest address that a header can hold on one line.
const LISTED_URL_MAX: usize = 900;

/// The content of the headers that every mail has.
pub(crate) struct MailHead<'a> {
    /// The mail's id, a part of the Message-ID.
    pub(crate) email_id: Uuid,
    /// The time of writing.
    pub(crate) date: Timestamp,
    /// The sender.
    pub(crate) from: &'a SenderAddress,
    /// The name beside the sender's address.
    pub(crate) from_name: &'a str,
    /// The recipient.
    pub(crate) to: &'a EmailAddress,
    /// The reply address.
    pub(crate) reply_to: Option<EmailAddress>,
    /// The subject.
    pub(crate) subject: &'a str,
    /// The language code.
    pub(crate) language: &'static str,
}

/// The headers written so far.
pub(crate) struct HeaderSection(String);

impl HeaderSection {
    /// All headers of an invite, without the headers of the body.
    pub(super) fn new(invite: &InviteContent<'_>, letter: &Letter) -> Self {
        let mut headers = Self::with_common(&MailHead {
            email_id: invite.email_id,
            date: invite.date,
            from: invite.from,
            from_name: &letter.firm,
            to: invite.to,
            reply_to: reply_to(invite),
            subject: &letter.words.subject,
            language: letter.words.code,
        });
        headers.add_unsubscribe(&letter.unsubscribe_url);
        headers.add_mime_version();
        headers
    }

    /// All headers of a mail that nobody can unsubscribe from.
    pub(crate) fn without_unsubscribe(head: &MailHead<'_>) -> Self {
        let mut headers = Self::with_common(head);
        headers.add_mime_version();
        headers
    }

    fn with_common(head: &MailHead<'_>) -> Self {
        let sender = head.from.address();
        let mut headers = Self(String::new());
        headers.add("From", from(head.from_name, sender));
        headers.add("To", [head.to.to_string()]);
        if let Some(address) = &head.reply_to {
            headers.add("Reply-To", [address.to_string()]);
        }
        headers.add("Subject", text_pieces(head.subject));
        headers.add("Date", [date_text(head.date)]);
        headers.add("Message-ID", [format!("<{}@{}>", head.email_id, sender.domain())]);
        headers.add("Content-Language", [head.language.to_owned()]);
        // Marks the mail as written by a program, so that no holiday notice answers (RFC 3834,
        // sections 2 and 5).
        headers.add("Auto-Submitted", ["auto-generated".to_owned()]);
        headers
    }

    fn add_mime_version(&mut self) {
        self.add("MIME-Version", ["1.0".to_owned()]);
    }

    /// The header section; the body's own headers follow.
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.0.into_bytes()
    }

    /// Adds one header, and folds it between its pieces where a line gets too long.
    fn add(&mut self, name: &str, pieces: impl IntoIterator<Item = String>) {
        self.0.push_str(name);
        self.0.push(':');
        let mut width = name.len() + 1;
        for piece in pieces {
            if width + 1 + piece.len() > FOLD_COLUMN && width > name.len() + 1 {
                self.0.push_str("\r\n");
                width = 0;
            }
            self.0.push(' ');
            self.0.push_str(&piece);
            width += 1 + piece.len();
        }
        self.0.push_str("\r\n");
    }

    /// Adds RFC 2369's header (section 3.2), and for an https address the one-click header (RFC
    /// 8058, section 3.1). An address too long for a header is in the mail's text only.
    fn add_unsubscribe(&mut self, url: &str) {
        let fits = url.len() <= LISTED_URL_MAX
            && url.bytes().all(|byte| byte.is_ascii_graphic() && !b"<>\"".contains(&byte));
        if !fits {
            return;
        }
        self.add("List-Unsubscribe", [format!("<{url}>")]);
        if url.starts_with("https://") {
            let one_click = "List-Unsubscribe=One-Click".to_owned();
            self.add("List-Unsubscribe-Post", [one_click]);
        }
    }
}

/// The firm's name, with the service's address.
fn from(firm: &str, sender: &EmailAddress) -> Vec<String> {
    let mut pieces = if is_plain(firm) && firm.len() <= WORD_MAX {
        vec![format!("\"{}\"", firm.replace('\\', "\\\\").replace('"', "\\\""))]
    } else {
        encoded_words(firm)
    };
    pieces.push(format!("<{sender}>"));
    pieces
}

/// An older build stored reply addresses as they were reported.
fn reply_to(invite: &InviteContent<'_>) -> Option<EmailAddress> {
    EmailAddress::read_leniently(invite.reply_to?).ok()
}

/// RFC 5322, section 3.3.
fn date_text(at: Timestamp) -> String {
    at.get().format("%a, %d %b %Y %H:%M:%S +0000").to_string()
}

/// Free text: as it is, or as encoded words.
fn text_pieces(line: &str) -> Vec<String> {
    if is_plain(line) { line.split(' ').map(str::to_owned).collect() } else { encoded_words(line) }
}

/// Whether the text is ASCII that folds, and that no reader takes for an encoded word.
fn is_plain(line: &str) -> bool {
    line.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic())
        && !line.contains("=?")
        && line.split(' ').all(|word| word.len() <= WORD_MAX)
}

/// Encoded words (RFC 2047, section 4.1). No character is split between two words.
fn encoded_words(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    for character in line.chars() {
        match words.last_mut() {
            Some(word) if word.len() + character.len_utf8() <= ENCODED_WORD_BYTES => {
                word.push(character);
            }
            _ => words.push(character.to_string()),
        }
    }
    words.into_iter().map(|word| format!("=?utf-8?B?{}?=", STANDARD.encode(word))).collect()
}
