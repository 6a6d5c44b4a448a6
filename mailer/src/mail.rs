//! What an invite is made of, and what it is once it is written.

use std::fmt;
use std::str::FromStr;

use domain::email::EmailAddress;
use domain::lang::Lang;
use domain::time::Timestamp;
use serde::{Deserialize, Serialize};
use thiserror::Error;
use uuid::Uuid;

/// The longest part before the `@` that mail servers have to take (RFC 5321, section 4.5.3.1.1).
const LOCAL_PART_MAX: usize = 64;

/// Everything an invite says. Its texts may hold anything: writing it makes them harmless.
#[derive(Clone, Copy)]
pub struct InviteContent<'a> {
    /// Becomes the Message-ID.
    pub email_id: Uuid,
    /// When it is written.
    pub date: Timestamp,
    /// Who hands it over.
    pub from: &'a SenderAddress,
    /// Who gets it.
    pub to: &'a EmailAddress,
    /// The language it is written in.
    pub lang: Lang,
    /// The firm that invites.
    pub firm_name: &'a str,
    /// The firm's colour: `#rgb` or `#rrggbb`; anything else is not used.
    pub color: Option<&'a str>,
    /// The firm's logo: an https address; anything else is not used.
    pub logo_url: Option<&'a str>,
    /// Where answers go: one address; anything else is not used.
    pub reply_to: Option<&'a str>,
    /// The form's title.
    pub form_title: &'a str,
    /// The link to the form, prefilled.
    pub form_url: &'a str,
    /// By what name to greet; see [`greeting`](crate::greeting).
    pub greeting: Option<&'a str>,
    /// The note of the person who sends the form.
    pub message: Option<&'a str>,
    /// Where the person says that they want no more of these.
    pub unsubscribe_url: &'a str,
}

/// A written mail with its envelope: what is kept, and sent as it is however often it is tried.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mail {
    /// The id in its Message-ID.
    pub email_id: Uuid,
    /// The envelope's sender.
    pub from: String,
    /// The envelope's recipient.
    pub to: String,
    /// The whole message, in ASCII with lines that end in CRLF.
    #[serde(with = "ascii")]
    pub bytes: Vec<u8>,
}

/// Shows nothing of the person.
impl fmt::Debug for Mail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mail")
            .field("email_id", &self.email_id)
            .field("bytes", &self.bytes.len())
            .finish_non_exhaustive()
    }
}

/// The service's own address, under which it hands mail over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SenderAddress(EmailAddress);

/// The text is not an address that a server lets send.
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
            Ok(address) if address.local().len() <= LOCAL_PART_MAX => Ok(Self(address)),
            Ok(_) | Err(_) => Err(NotASender),
        }
    }
}

/// Keeps the bytes as the text they are: as numbers they would take four times the room.
mod ascii {
    use serde::{Deserialize, Deserializer, Serializer, ser};

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(str::from_utf8(bytes).map_err(ser::Error::custom)?)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
        String::deserialize(from).map(String::into_bytes)
    }
}
