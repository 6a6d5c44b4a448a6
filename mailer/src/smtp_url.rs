//! The URL of a mail server, as a setting holds it. Its output never shows the password.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use thiserror::Error;
use url::{Host, Url};

/// The URL of a mail server: `smtp://user:password@host:587` or `smtps://…`.
///
/// - `smtp://` is submission with STARTTLS, and no mail is sent without it (RFC 3207). The default
///   port is 587 (RFC 6409).
/// - `smtps://` is TLS from the first byte. The default port is 465 (RFC 8314).
/// - `?tls=none` on `smtp://` goes without TLS. Only for this machine: `localhost`, `127.0.0.0/8`
///   or `::1`.
/// - `?ehlo=mail.example.com` is the client's name for the server. The default is the machine's
///   name.
/// - User and password, both or neither, are percent-encoded where a URL needs that.
#[derive(Clone, PartialEq, Eq)]
pub struct SmtpUrl {
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) encryption: SmtpEncryption,
    pub(crate) login: Option<SmtpLogin>,
    pub(crate) ehlo: Option<String>,
}

/// The way to encrypt the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SmtpEncryption {
    /// By STARTTLS, before any other command.
    StartTls,
    /// TLS from the first byte.
    Implicit,
    /// No TLS: the mail does not leave the machine.
    None,
}

/// User and password of this client.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct SmtpLogin {
    pub(crate) user: String,
    pub(crate) password: String,
}

/// Why a text is not the URL of a mail server. No error repeats the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NotAnSmtpUrl {
    /// Not a URL.
    #[error("not a URL such as smtp://user:password@mail.example.com:587")]
    Malformed,
    /// Neither `smtp` nor `smtps`.
    #[error("the scheme of a mail server is smtp or smtps")]
    Scheme,
    /// The URL names no server.
    #[error("the URL names no mail server")]
    Host,
    /// A user without a password, a password without a user, or text that is not percent-encoded
    /// UTF-8.
    #[error("user and password are given both, percent-encoded, or not at all")]
    Login,
    /// A path, a fragment, or an unknown parameter.
    #[error("only tls=none and ehlo=<domain> may follow the server")]
    Parameter,
    /// `?tls=none` for another machine.
    #[error("tls=none is for a server on this machine only")]
    Bare,
}

impl SmtpUrl {
    /// Whether the server is on this machine.
    #[must_use]
    pub fn is_this_machine(&self) -> bool {
        is_this_machine(&self.host)
    }
}

impl FromStr for SmtpUrl {
    type Err = NotAnSmtpUrl;

    fn from_str(text: &str) -> Result<Self, NotAnSmtpUrl> {
        let url = Url::parse(text).map_err(|_| NotAnSmtpUrl::Malformed)?;
        let mut encryption = match url.scheme() {
            "smtp" => SmtpEncryption::StartTls,
            "smtps" => SmtpEncryption::Implicit,
            _ => return Err(NotAnSmtpUrl::Scheme),
        };
        let host = url_host(&url)?;
        let mut ehlo = None;
        if !matches!(url.path(), "" | "/") || url.fragment().is_some() {
            return Err(NotAnSmtpUrl::Parameter);
        }
        for (key, value) in url.query_pairs() {
            match (&*key, &*value) {
                ("tls", "none") if encryption != SmtpEncryption::Implicit => {
                    encryption = SmtpEncryption::None;
                }
                ("ehlo", domain) if is_domain(domain) => ehlo = Some(domain.to_owned()),
                _ => return Err(NotAnSmtpUrl::Parameter),
            }
        }
        if encryption == SmtpEncryption::None && !is_this_machine(&host) {
            return Err(NotAnSmtpUrl::Bare);
        }
        let port = url.port().unwrap_or(encryption.default_port());
        Ok(Self { host, port, encryption, login: url_login(&url)?, ehlo })
    }
}

impl SmtpEncryption {
    const fn default_port(self) -> u16 {
        match self {
            Self::StartTls | Self::None => 587,
            Self::Implicit => 465,
        }
    }
}

/// The host, without the brackets of an IPv6 address.
fn url_host(url: &Url) -> Result<String, NotAnSmtpUrl> {
    let text = url.host_str().filter(|host| !host.is_empty()).ok_or(NotAnSmtpUrl::Host)?;
    // The URL standard leaves hosts of unknown schemes as they are written.
    match Host::parse(text).map_err(|_| NotAnSmtpUrl::Host)? {
        Host::Domain(name) => Ok(name),
        Host::Ipv4(ip) => Ok(ip.to_string()),
        Host::Ipv6(ip) => Ok(ip.to_string()),
    }
}

fn is_this_machine(host: &str) -> bool {
    host == "localhost" || host.parse().is_ok_and(|ip: IpAddr| ip.is_loopback())
}

fn is_domain(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= 255
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-".contains(&byte))
}

fn url_login(url: &Url) -> Result<Option<SmtpLogin>, NotAnSmtpUrl> {
    match (url.username(), url.password()) {
        ("", None) => Ok(None),
        (user, Some(password)) if !user.is_empty() && !password.is_empty() => {
            let decoded = |text| percent_decoded(text).ok_or(NotAnSmtpUrl::Login);
            Ok(Some(SmtpLogin { user: decoded(user)?, password: decoded(password)? }))
        }
        _ => Err(NotAnSmtpUrl::Login),
    }
}

/// Decodes percent-encoding (RFC 3986, section 2.1). Refuses NUL, which separates user and password
/// on the wire (RFC 4616).
fn percent_decoded(text: &str) -> Option<String> {
    let mut pieces = text.split('%');
    let mut bytes = pieces.next()?.as_bytes().to_vec();
    for piece in pieces {
        let (digits, rest) = piece.split_at_checked(2)?;
        if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return None;
        }
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        bytes.extend_from_slice(rest.as_bytes());
    }
    String::from_utf8(bytes).ok().filter(|text| !text.contains('\0'))
}

/// Hides the user and the password.
impl fmt::Debug for SmtpUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SmtpUrl")
            .field("host", &self.host)
            .field("port", &self.port)
            .field("encryption", &self.encryption)
            .field("login", &self.login.as_ref().map(|_| "…"))
            .field("ehlo", &self.ehlo)
            .finish()
    }
}

#[cfg(test)]
mod tests;
