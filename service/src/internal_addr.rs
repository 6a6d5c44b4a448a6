//! The address of the internal door.

use std::fmt;
use std::net::{AddrParseError, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

/// The prefix of a Unix socket's path.
const UNIX: &str = "unix:";

/// An address and a port, or a Unix socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InternalAddr {
    /// TCP.
    Tcp(SocketAddr),
    /// The path of a Unix socket.
    Unix(PathBuf),
}

/// Why a text is no address of the internal door.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InternalAddrError {
    /// The path is relative. The directory of a service is no place to rely on.
    #[error("unix: needs an absolute path")]
    RelativePath,
    /// Not an address.
    #[error("neither an IP address with a port (127.0.0.1:8081), nor unix: with an absolute path")]
    NoAddress(#[from] AddrParseError),
}

impl InternalAddr {
    /// Whether other machines may reach the door.
    #[must_use]
    pub fn is_beyond_this_machine(&self) -> bool {
        match self {
            Self::Tcp(addr) => !addr.ip().to_canonical().is_loopback(),
            Self::Unix(_) => false,
        }
    }
}

impl FromStr for InternalAddr {
    type Err = InternalAddrError;

    fn from_str(text: &str) -> Result<Self, InternalAddrError> {
        let Some(path) = text.strip_prefix(UNIX) else {
            return Ok(Self::Tcp(text.parse()?));
        };
        let path = PathBuf::from(path);
        if path.is_absolute() { Ok(Self::Unix(path)) } else { Err(InternalAddrError::RelativePath) }
    }
}

impl fmt::Display for InternalAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(addr) => write!(f, "{addr}"),
            Self::Unix(path) => write!(f, "{UNIX}{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_tcp_or_unix() {
        let parsed = |text: &str| text.parse::<InternalAddr>();
        for (text, is_beyond) in [
            ("127.0.0.1:8081", false),
            ("[::1]:8081", false),
            ("0.0.0.0:8081", true),
            ("[::]:8081", true),
            ("10.0.0.1:8081", true),
            ("unix:/run/firmforms/door.sock", false),
        ] {
            let addr = parsed(text).unwrap();
            assert_eq!((addr.to_string(), addr.is_beyond_this_machine()), (text.into(), is_beyond));
        }
        assert_eq!(parsed("unix:door.sock"), Err(InternalAddrError::RelativePath));
        assert!(matches!(parsed("/run/door.sock"), Err(InternalAddrError::NoAddress(_))));
    }
}
