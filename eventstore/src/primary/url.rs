//! The URL of a database with one host or several, in libpq's form:
//! `postgres://user:password@a:5432,b:5433/name?target_session_attrs=read-write`.
//!
//! The URL is split into one URL for each host, which sqlx reads. No error quotes a part of the URL
//! that could hold the password.

use std::str::FromStr;

use sqlx::postgres::PgConnectOptions;

use super::DatabaseHosts;
use crate::pool::with_keepalives;

const DEFAULT_PORT: &str = "5432";

/// The reason why a URL names no database.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    /// Another scheme, or none.
    #[error("a URL of a database begins with postgres:// or postgresql://")]
    Scheme,
    /// The part before the hosts ends too early.
    #[error("the user or the password has a character to write percent-encoded (`/` is %2F)")]
    Login,
    /// The port of a host is no number.
    #[error("host {0}: the port is not a number from 1 to 65535")]
    Port(usize),
    /// As many ports as hosts are needed, or one.
    #[error("{hosts} hosts have {ports} ports: name one for all, or one for each")]
    Ports {
        /// The number of hosts.
        hosts: usize,
        /// The number of ports.
        ports: usize,
    },
    /// Sessions on a standby cannot be asked for.
    #[error(
        "target_session_attrs can be read-write, primary or any, since the service writes. For a \
         command that reads, name the standby as the only host"
    )]
    Target,
    /// Everything that sqlx refuses.
    #[error("host {host}: {why}")]
    Rest {
        /// The number of the host, from 1.
        host: usize,
        /// The reason.
        why: String,
    },
}

/// A URL in its parts.
struct UrlParts<'a> {
    /// The scheme with its slashes.
    scheme: &'a str,
    /// User and password with their `@`, or nothing.
    login: &'a str,
    hosts: &'a str,
    /// The path with its slash, or nothing.
    path: &'a str,
    parameters: Vec<&'a str>,
}

/// One host as it is written.
#[derive(Debug, PartialEq, Eq)]
struct HostPart {
    /// Percent-encoded, or an IPv6 address in brackets.
    host: String,
    port: Option<String>,
}

impl FromStr for DatabaseHosts {
    type Err = UrlError;

    fn from_str(url: &str) -> Result<Self, UrlError> {
        let mut parts = UrlParts::new(url)?;
        parts.take_target()?;
        let hosts = parts.take_hosts()?;
        let options = |(index, host): (usize, &HostPart)| parts.host_options(index + 1, host);
        let hosts = hosts.iter().enumerate().map(options).collect::<Result<_, _>>()?;
        Ok(Self { hosts, in_use: 0 }.with_options(with_keepalives))
    }
}

impl<'a> UrlParts<'a> {
    fn new(url: &'a str) -> Result<Self, UrlError> {
        let after = url.strip_prefix("postgres://").or_else(|| url.strip_prefix("postgresql://"));
        let after = after.ok_or(UrlError::Scheme)?;
        let scheme = &url[..url.len() - after.len()];
        let (authority, rest) = after.split_at(after.find(['/', '?', '#']).unwrap_or(after.len()));
        let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
        let login = authority.rfind('@').map_or(0, |at| at + 1);
        let (login, hosts) = authority.split_at(login);
        // A slash in the password ends the authority, and the `@` is behind it.
        if path.contains('@') || (login.is_empty() && query.contains('@')) {
            return Err(UrlError::Login);
        }
        let parameters = query.split('&').filter(|one| !one.is_empty()).collect();
        Ok(Self { scheme, login, hosts, path, parameters })
    }

    /// Takes a parameter out and returns its last value.
    fn take_parameter(&mut self, name: &str) -> Option<&'a str> {
        let value = |one: &&'a str| one.strip_prefix(name).and_then(|one| one.strip_prefix('='));
        let found = self.parameters.iter().filter_map(value).next_back();
        self.parameters.retain(|one| value(one).is_none());
        found
    }

    /// Takes `target_session_attrs` out. The service always looks for a primary. So a wish for
    /// a primary changes nothing, and a wish for a standby is refused.
    fn take_target(&mut self) -> Result<(), UrlError> {
        match self.take_parameter("target_session_attrs") {
            None | Some("any" | "read-write" | "primary") => Ok(()),
            Some(_) => Err(UrlError::Target),
        }
    }

    /// The hosts: the parameters `host` and `port` win over those before the path, as in libpq.
    fn take_hosts(&mut self) -> Result<Vec<HostPart>, UrlError> {
        let mut hosts = split_hosts(self.hosts)?;
        if let Some(given) = self.take_parameter("host") {
            let port = hosts.first().and_then(|first| first.port.clone());
            let host = |host: &str| HostPart { host: encode_slashes(host), port: port.clone() };
            hosts = given.split(',').map(host).collect();
        }
        let Some(ports) = self.take_parameter("port") else { return Ok(hosts) };
        let ports: Vec<&str> = ports.split(',').collect();
        if ports.len() != 1 && ports.len() != hosts.len() {
            return Err(UrlError::Ports { hosts: hosts.len(), ports: ports.len() });
        }
        for (host, port) in hosts.iter_mut().zip(ports.iter().cycle()) {
            host.port = Some((*port).to_owned());
        }
        Ok(hosts)
    }

    /// The options for one host. Without host, port and login, sqlx looks for the socket of a local
    /// server.
    fn host_options(&self, number: usize, host: &HostPart) -> Result<PgConnectOptions, UrlError> {
        let port = host.port.as_deref().filter(|port| !port.is_empty());
        if port.is_some_and(|port| !port.parse::<u16>().is_ok_and(|port| port > 0)) {
            return Err(UrlError::Port(number));
        }
        let Self { scheme, login, path, parameters, .. } = self;
        // A URL cannot hold a port or a login without a host, so `localhost` takes the host's
        // place.
        let authority = match (host.host.as_str(), port) {
            ("", None) if login.is_empty() => String::new(),
            ("", port) => format!("{login}localhost:{}", port.unwrap_or(DEFAULT_PORT)),
            (host, port) => format!("{login}{host}:{}", port.unwrap_or(DEFAULT_PORT)),
        };
        let query = parameters.join("&");
        let url = format!("{scheme}{authority}{path}?{query}");
        url.parse().map_err(|error: sqlx::Error| UrlError::Rest {
            host: number,
            why: match error {
                sqlx::Error::Configuration(why) => why.to_string(),
                error => error.to_string(),
            },
        })
    }
}

fn split_hosts(hosts: &str) -> Result<Vec<HostPart>, UrlError> {
    let split = |(number, host): (usize, &str)| {
        // The colons of an IPv6 address stand in brackets.
        let name_end = host.find(']').map_or(0, |end| end + 1);
        let colon = host[name_end..].find(':').map(|colon| name_end + colon);
        let (host, port) = colon.map_or((host, None), |at| (&host[..at], Some(&host[at + 1..])));
        if port.is_some_and(|port| port.contains(':')) {
            return Err(UrlError::Port(number + 1));
        }
        Ok(HostPart { host: host.to_owned(), port: port.map(str::to_owned) })
    };
    hosts.split(',').enumerate().map(split).collect()
}

/// Encodes the slashes of a socket's path, because a host in a URL may have none. A parameter may
/// have them.
fn encode_slashes(host: &str) -> String {
    host.replace('/', "%2F")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// User, password, name, and the places of the hosts.
    fn read(url: &str) -> (String, Option<String>, String, Vec<String>) {
        let hosts: DatabaseHosts = url.parse().unwrap();
        let first = hosts.options();
        let password = encoded_password(first);
        let places = hosts.hosts.iter().map(super::super::server_place).collect();
        let name = first.get_database().unwrap_or_default().to_owned();
        (first.get_username().to_owned(), password, name, places)
    }

    /// The password as it stands in a URL.
    fn encoded_password(options: &PgConnectOptions) -> Option<String> {
        sqlx::ConnectOptions::to_url_lossy(options).password().map(str::to_owned)
    }

    #[test]
    fn every_url_names_its_hosts() {
        let table: [(&str, &[&str]); 14] = [
            ("postgres://u:p@a/db", &["a:5432"]),
            ("postgresql://u:p@a:6000/db", &["a:6000"]),
            ("postgres://u:p@a:5432,b:5433/db", &["a:5432", "b:5433"]),
            ("postgres://u:p@a,b:5433,c/db", &["a:5432", "b:5433", "c:5432"]),
            ("postgres://u:p@a:,b/db", &["a:5432", "b:5432"]),
            ("postgres://u:p@[::1]:5433,[fe80::2]/db", &["[::1]:5433", "[fe80::2]:5432"]),
            ("postgres://u:p@%2Frun%2Fpg,b/db", &["/run/pg:5432", "b:5432"]),
            ("postgres://u:p@%2Fa:5433,%2Fb:5434/db", &["/a:5433", "/b:5434"]),
            ("postgres://u:p@/db?host=/run/a,/run/b&port=1,2", &["/run/a:1", "/run/b:2"]),
            ("postgres://u:p@/db?host=a,b&port=7000", &["a:7000", "b:7000"]),
            ("postgres://u:p@x/db?host=%2Frun%2Fpg", &["/run/pg:5432"]),
            ("postgres://u:p@a,b/db?target_session_attrs=read-write", &["a:5432", "b:5432"]),
            ("postgres://u:p@a/db?sslmode=disable&target_session_attrs=any", &["a:5432"]),
            ("postgres://u:p@a,b/db?sslmode=require&application_name=x", &["a:5432", "b:5432"]),
        ];
        for (url, hosts) in table {
            let (user, password, name, places) = read(url);
            assert_eq!(
                (user.as_str(), password.as_deref(), name.as_str()),
                ("u", Some("p"), "db"),
                "{url}"
            );
            assert_eq!(places, hosts, "{url}");
        }
    }

    #[test]
    fn percent_encoding_allows_any_password() {
        let url = "postgres://us%40er:p%40ss%2C%3A%2F%3Fw@a:1,b:2/d%20b";
        let (user, password, name, places) = read(url);
        assert_eq!((user.as_str(), name.as_str()), ("us@er", "d b"));
        assert_eq!(password.as_deref(), Some("p%40ss%2C%3A%2F%3Fw"));
        assert_eq!(places, ["a:1", "b:2"]);
        let raw = read("postgres://u:p,@q@a,b/db");
        assert_eq!((raw.1.as_deref(), raw.3.len()), (Some("p%2C%40q"), 2));
    }

    /// An error names the place of the fault.
    #[test]
    fn an_error_never_names_the_password() {
        let ports = UrlError::Ports { hosts: 3, ports: 2 };
        for (url, error) in [
            ("mysql://u:secret@a/db", UrlError::Scheme),
            ("u:secret@a/db", UrlError::Scheme),
            ("postgres://u:sec/secret@a/db", UrlError::Login),
            ("postgres://u:sec?secret@a/db", UrlError::Login),
            ("postgres://u:secret@a:x/db", UrlError::Port(1)),
            ("postgres://u:secret@a:1,b:0/db", UrlError::Port(2)),
            ("postgres://u:secret@a:1,b:70000/db", UrlError::Port(2)),
            ("postgres://u:secret@a,::1/db", UrlError::Port(2)),
            ("postgres://u:secret@a,b,c/db?port=1,2", ports),
            ("postgres://u:secret@a,b/db?target_session_attrs=standby", UrlError::Target),
        ] {
            let refused = url.parse::<DatabaseHosts>().unwrap_err();
            assert_eq!(refused, error, "{url}");
        }
        let refused = "postgres://u:secret@a,b/db?sslmode=secretly".parse::<DatabaseHosts>();
        assert!(matches!(refused, Err(UrlError::Rest { host: 1, .. })), "{refused:?}");
        let refused = "postgres://u:secret@a,b c/db".parse::<DatabaseHosts>().unwrap_err();
        assert!(!refused.to_string().contains("secret"), "{refused}");
        let shown: DatabaseHosts = "postgres://u:secret@a,b/db".parse().unwrap();
        assert_eq!(format!("{shown:?}"), r#"["a:5432", "b:5432"]"#);
    }
}
