//! The one origin that may show the portal in a frame (ruling 48).

use std::fmt;
use std::str::FromStr;

use url::{Host, Url};

/// Longest origin, in characters: a scheme, a host name and a port.
const ORIGIN_MAX: usize = 300;

/// An origin as browsers write it. It is a source of a policy, so it holds no space, no semicolon
/// and no wildcard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FrameOrigin(String);

/// The text is no origin of a page that may hold the portal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an origin is https, a host and a port if it is not 443: https://app.example.com")]
pub struct NotAnOrigin;

impl FrameOrigin {
    /// The origin as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for FrameOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for FrameOrigin {
    type Err = NotAnOrigin;

    /// Reads exactly the text that a browser would write. Without TLS only the machine itself is an
    /// origin, for development.
    fn from_str(text: &str) -> Result<Self, NotAnOrigin> {
        if text.len() > ORIGIN_MAX {
            return Err(NotAnOrigin);
        }
        let url: Url = text.parse().map_err(|_| NotAnOrigin)?;
        let is_local = match url.host() {
            Some(Host::Domain(name)) => name == "localhost",
            Some(Host::Ipv4(address)) => address.is_loopback(),
            Some(Host::Ipv6(address)) => address.is_loopback(),
            None => return Err(NotAnOrigin),
        };
        let is_safe = url.scheme() == "https" || url.scheme() == "http" && is_local;
        let is_plain = text.bytes().all(|byte| {
            byte.is_ascii_lowercase() || byte.is_ascii_digit() || b".-:/[]".contains(&byte)
        });
        if is_safe && is_plain && url.origin().ascii_serialization() == text {
            Ok(Self(text.to_owned()))
        } else {
            Err(NotAnOrigin)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_keeps_a_browsers_spelling() {
        for origin in [
            "https://app.example.com",
            "https://app.example.com:8443",
            "https://xn--fa-hia.example",
            "https://192.0.2.1",
            "https://[2001:db8::1]:8443",
            "http://localhost:3000",
            "http://127.0.0.1:3000",
        ] {
            assert_eq!(origin.parse::<FrameOrigin>().map(|read| read.0), Ok(origin.to_owned()));
        }
    }

    #[test]
    fn nothing_else_gets_into_a_policy() {
        for other in [
            "",
            "*",
            "https:",
            "https://*",
            "https://*.example.com",
            "https://app.example.com/",
            "https://app.example.com/page",
            "https://app.example.com:443",
            "https://APP.example.com",
            "https://user@app.example.com",
            "https://a.example; script-src *",
            "https://a.example https://b.example",
            "https://a.example\nx",
            "https://faß.example",
            "http://app.example.com",
            "http://localhost.example.com",
            "data:text/html,a",
            "null",
            "'self'",
        ] {
            assert_eq!(other.parse::<FrameOrigin>(), Err(NotAnOrigin), "{other}");
        }
        let long = format!("https://{}.example", "a.".repeat(150));
        assert_eq!(long.parse::<FrameOrigin>(), Err(NotAnOrigin));
    }
}
