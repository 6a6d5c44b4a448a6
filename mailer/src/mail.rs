//! The content of an invite, and the written mail.

use std::fmt;
use std::str::FromStr;

use domain::values::{EmailAddress, Lang, Timestamp};
use serde::{Deserialize, Serialize};
use thiserror::Error;
use uuid::Uuid;

/// The longest part before the `@` that mail servers have to take (RFC 5321, section 4.5.3.1.1).
const LOCAL_PART_MAX: usize = 64;

/// The content of an invite. Its texts may hold any characters; writing the mail makes them
/// harmless.
#[derive(Clone, Copy)]
pub struct InviteContent<'a> {
    /// The mail's id, a part of the Message-ID.
    pub email_id: Uuid,
    /// The time of writing.
    pub date: Timestamp,
    /// The sender.
    pub from: &'a SenderAddress,
    /// The recipient.
    pub to: &'a EmailAddress,
    /// The language.
    pub lang: Lang,
    /// The inviting firm's name.
    pub firm_name: &'a str,
    /// The firm's colour: `#rgb` or `#rrggbb`. Any other text is not used.
    pub color: Option<&'a str>,
    /// The firm's logo: an https address. Any other text is not used.
    pub logo_url: Option<&'a str>,
    /// The reply address. Any other text is not used.
    pub reply_to: Option<&'a str>,
    /// The form's title.
    pub form_title: &'a str,
    /// The prefilled link to the form.
    pub form_url: &'a str,
    /// The name in the greeting; see [`greeting_name`](crate::greeting_name).
    pub greeting: Option<&'a str>,
    /// The note of the sending person.
    pub message: Option<&'a str>,
    /// The link to the unsubscribe page.
    pub unsubscribe_url: &'a str,
}

/// A written mail with its envelope. The bytes are stored, and stay the same over all attempts.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mail {
    /// The id in the Message-ID.
    pub email_id: Uuid,
    /// The envelope's sender.
    pub from: String,
    /// The envelope's recipient.
    pub to: String,
    /// The whole message, in ASCII, with lines that end in CRLF.
    #[serde(with = "ascii")]
    pub bytes: Vec<u8>,
}

/// Hides the recipient and the text.
impl fmt::Debug for Mail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mail")
            .field("email_id", &self.email_id)
            .field("bytes", &self.bytes.len())
            .finish_non_exhaustive()
    }
}

/// The service's own address, which sends all mail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SenderAddress(EmailAddress);

/// The text is not an address that a server would let send.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("not an address to send from such as forms@mail.example.com")]
pub struct NotASender;

impl SenderAddress {
    /// The address.
    #[must_use]
    pub fn address(&self) -> &EmailAddress {
        &self.0
    }
}

impl FromStr for SenderAddress {
    type Err = NotASender;

    fn from_str(text: &str) -> Result<Self, NotASender> {
        match text.parse::<EmailAddress>() {
            Ok(address) if address.local_part().len() <= LOCAL_PART_MAX => Ok(Self(address)),
            Ok(_) | Err(_) => Err(NotASender),
        }
    }
}

/// Stores the bytes as text. As numbers they would take four times the space.
mod ascii {
    use serde::{Deserialize, Deserializer, Serializer, ser};

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(str::from_utf8(bytes).map_err(ser::Error::custom)?)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
        String::deserialize(from).map(String::into_bytes)
    }
}
