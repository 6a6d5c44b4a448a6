//! A target: the URL of a subscription or workflow step (contract, section POST /hooks; rulings 15
//! and 19).
//!
//! A target is checked as text first, then parsed, then its host is classified. The URL parser
//! repairs too much to come first. This module does not resolve names. The deliverer asks
//! [`AllowedTargets::permits`] about each address before dialling it.

use std::cell::Cell;
use std::net::IpAddr;

use thiserror::Error;
use url::{Host, SyntaxViolation, Url};

use super::address::AllowedTargets;

/// Longest target, in characters (contract, section Limits).
pub const TARGET_MAX_CHARS: usize = 2_000;

/// Names that never lead to the public internet, with all names below them (ruling 15).
const PRIVATE_SUFFIXES: [&str; 4] = ["local", "internal", "home.arpa", "onion"];

/// Longest host name that DNS can carry (RFC 1035, section 2.3.4).
const NAME_MAX: usize = 253;
const LABEL_MAX: usize = 63;

/// Ports of other protocols (WHATWG Fetch, section "Port blocking"), and 0 (ruling 15).
const BAD_PORTS: [u16; 83] = [
    0, 1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101,
    102, 103, 104, 109, 110, 111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179, 389, 427,
    465, 512, 513, 514, 515, 526, 530, 531, 532, 540, 548, 554, 556, 563, 587, 601, 636, 989, 990,
    993, 995, 1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060, 5061, 6000, 6566, 6665, 6666, 6667,
    6668, 6669, 6679, 6697, 10080,
];

/// A checked target. Two targets are equal if their sent texts are equal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    text: String,
    url: Url,
    host: TargetHost,
    port: u16,
}

/// The host of a target, as the URL parser understood it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TargetHost {
    /// A name to resolve, in ASCII (punycode) and without a trailing dot.
    Name(String),
    /// An IP literal. It is never sent to a resolver.
    Ip(IpAddr),
}

/// Why a text is not a target, in a sentence for a person.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TargetRefusal {
    /// The target has more than [`TARGET_MAX_CHARS`].
    #[error("the target is longer than 2,000 characters")]
    TooLong,
    /// The target has another scheme, or none.
    #[error("the target must start with https://")]
    NotHttps,
    /// The target has a user name or password, even an empty one.
    #[error("the target must not hold a username or password")]
    UserInfo,
    /// The target has white space, a control character or a backslash. A redirect must be ASCII
    /// too.
    #[error("the target holds white space, a control character or a backslash")]
    ForbiddenCharacter,
    /// The target has nothing between scheme and path.
    #[error("the target has no host")]
    NoHost,
    /// The target is not a URL, or DNS cannot carry its host.
    #[error("the target is not a valid URL")]
    NotAUrl,
    /// The address is outside the public internet (ruling 16).
    #[error("the target must be public: {0} is a private or local address")]
    PrivateAddress(IpAddr),
    /// The name is outside the public internet (ruling 15).
    #[error("the target must be public: its host is a private or local name")]
    PrivateName,
    /// The port belongs to another protocol.
    #[error("the target must not use port {0}")]
    BadPort(u16),
}

impl Target {
    /// Checks a target as it was sent.
    ///
    /// # Errors
    /// [`TargetRefusal`] is the first reason for a refusal.
    pub fn parse(text: &str, allowed: &AllowedTargets) -> Result<Self, TargetRefusal> {
        check_text(text, allowed)?;
        let mut url = Url::parse(text).map_err(|_| TargetRefusal::NotAUrl)?;
        url.set_fragment(None);
        drop_trailing_dot(&mut url)?;
        let host = classify_host(&url, allowed)?;
        let port = url.port_or_known_default().ok_or(TargetRefusal::NotAUrl)?;
        if BAD_PORTS.contains(&port) {
            return Err(TargetRefusal::BadPort(port));
        }
        Ok(Self { text: text.to_owned(), url, host, port })
    }

    /// Follows a `Location`. The URL parser joins it, and the result is checked like any target
    /// (ruling 19, case C17).
    ///
    /// # Errors
    /// [`TargetRefusal`] is the first reason for refusing the result.
    pub fn join(&self, location: &[u8], allowed: &AllowedTargets) -> Result<Self, TargetRefusal> {
        let location = std::str::from_utf8(location)
            .ok()
            .filter(|text| text.bytes().all(|byte| byte.is_ascii_graphic()))
            .ok_or(TargetRefusal::ForbiddenCharacter)?;
        if location.len() > TARGET_MAX_CHARS {
            return Err(TargetRefusal::TooLong);
        }
        // An empty user info leaves no trace in the joined URL. Only the parser sees it.
        let user_info = Cell::new(false);
        let note = |seen| {
            if seen == SyntaxViolation::EmbeddedCredentials {
                user_info.set(true);
            }
        };
        let joined = Url::options()
            .base_url(Some(&self.url))
            .syntax_violation_callback(Some(&note))
            .parse(location)
            .map_err(|_| TargetRefusal::NotAUrl)?;
        if user_info.get() {
            return Err(TargetRefusal::UserInfo);
        }
        Self::parse(joined.as_str(), allowed)
    }

    /// The target exactly as it was sent.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The URL to dial, without fragment and without the host's trailing dot.
    #[must_use]
    pub fn url(&self) -> &Url {
        &self.url
    }

    /// The host to dial.
    #[must_use]
    pub fn host(&self) -> TargetHost {
        self.host.clone()
    }

    /// The port to dial.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Whether scheme, host or port differ, so that the other target is "another host" (ruling 19).
    #[must_use]
    pub fn origin_differs(&self, other: &Self) -> bool {
        self.url.scheme() != other.url.scheme()
            || self.host != other.host
            || self.port != other.port
    }

    /// Scheme, host and port, for a URL that a receiver chose. The path is foreign text and stays
    /// out.
    #[must_use]
    pub fn origin(&self) -> String {
        self.url.origin().ascii_serialization()
    }
}

/// Scheme, host and port of a stored target.
#[must_use]
pub fn origin_of(target: &str) -> Option<String> {
    Url::parse(target).ok().map(|url| url.origin().ascii_serialization())
}

/// A stored target for display, with its host in punycode (case C11). Path and query are masked,
/// because they may name people or let anybody call the target (ruling 44).
#[must_use]
pub fn shown_target(target: &str) -> String {
    origin_of(target).map_or_else(|| "?".to_owned(), |origin| format!("{origin}/…"))
}

/// A stored target as entries of the audit log showed it before ruling 44: with its path, and with
/// its query hidden. Entries that say so stay as they are (case G1).
#[must_use]
pub fn shown_with_path(target: &str) -> String {
    let Ok(mut url) = Url::parse(target) else {
        return "?".to_owned();
    };
    let query = url.query().map_or("", |_| "?…");
    url.set_query(None);
    url.set_fragment(None);
    format!("{url}{query}")
}

/// Host of a stored target, as a key for counting. It is lower case, in punycode, and has no
/// trailing dot.
#[must_use]
pub fn host_of(target: &str) -> String {
    let url = Url::parse(target).ok();
    let host = url.as_ref().and_then(Url::host_str).unwrap_or(target);
    host.strip_suffix('.').unwrap_or(host).to_owned()
}

/// Checks the text alone, before the parser repairs anything (cases C1–C4).
fn check_text(text: &str, allowed: &AllowedTargets) -> Result<(), TargetRefusal> {
    if text.chars().count() > TARGET_MAX_CHARS {
        return Err(TargetRefusal::TooLong);
    }
    if text.chars().any(|c| c.is_whitespace() || c.is_control() || c == '\\') {
        return Err(TargetRefusal::ForbiddenCharacter);
    }
    let rest = text
        .strip_prefix("https://")
        .or_else(|| text.strip_prefix("http://").filter(|_| allowed.allows_http()))
        .ok_or(TargetRefusal::NotHttps)?;
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    match authority {
        "" => Err(TargetRefusal::NoHost),
        _ if authority.contains('@') => Err(TargetRefusal::UserInfo),
        _ => Ok(()),
    }
}

fn drop_trailing_dot(url: &mut Url) -> Result<(), TargetRefusal> {
    let Some(name) = url.domain().and_then(|name| name.strip_suffix('.')) else {
        return Ok(());
    };
    let name = name.to_owned();
    url.set_host(Some(&name)).map_err(|_| TargetRefusal::NotAUrl)
}

fn classify_host(url: &Url, allowed: &AllowedTargets) -> Result<TargetHost, TargetRefusal> {
    match url.host() {
        None => Err(TargetRefusal::NoHost),
        Some(Host::Ipv4(ip)) => classify_ip(ip.into(), allowed),
        Some(Host::Ipv6(ip)) => classify_ip(ip.into(), allowed),
        Some(Host::Domain(name)) => classify_name(name, allowed),
    }
}

fn classify_ip(ip: IpAddr, allowed: &AllowedTargets) -> Result<TargetHost, TargetRefusal> {
    if allowed.permits(ip) {
        Ok(TargetHost::Ip(ip))
    } else {
        Err(TargetRefusal::PrivateAddress(ip))
    }
}

fn classify_name(name: &str, allowed: &AllowedTargets) -> Result<TargetHost, TargetRefusal> {
    if name.len() > NAME_MAX || !name.split('.').all(is_label) {
        return Err(TargetRefusal::NotAUrl);
    }
    let public = if is_or_below(name, "localhost") {
        allowed.opens_loopback()
    } else {
        name.contains('.') && !PRIVATE_SUFFIXES.iter().any(|suffix| is_or_below(name, suffix))
    };
    if public { Ok(TargetHost::Name(name.to_owned())) } else { Err(TargetRefusal::PrivateName) }
}

fn is_label(label: &str) -> bool {
    (1..=LABEL_MAX).contains(&label.len())
        && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
}

fn is_or_below(name: &str, suffix: &str) -> bool {
    name.strip_suffix(suffix).is_some_and(|above| above.is_empty() || above.ends_with('.'))
}
