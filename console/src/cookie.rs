//! The cookie of a session: its name by the channel to the browser, and its new text after a use.

use std::sync::{Arc, Mutex, PoisonError};

use api::Service;
use api::sessions::Session;
use axum::extract::Request;
use axum::http::HeaderMap;
use axum::http::header::{HOST, ORIGIN, SET_COOKIE};
use axum::middleware::Next;
use axum::response::Response;

/// The name of the cookie without TLS.
const COOKIE_NAME: &str = "firmforms_console";

/// The name of the cookie behind TLS. With this prefix a browser takes it from this host alone, so
/// no neighbour in the domain can set one.
const SECURE_COOKIE_NAME: &str = "__Host-firmforms_console";

/// The way between the browser and the page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BrowserChannel {
    Clear,
    Encrypted,
}

impl BrowserChannel {
    /// The channel, as the headers of browser and proxy say. A forged header affects only the
    /// cookie of its sender.
    pub(crate) fn new(headers: &HeaderMap) -> Self {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let is_from_page = text(ORIGIN.as_str()).is_some_and(|it| it.starts_with("https://"));
        let is_from_proxy =
            text("x-forwarded-proto").is_some_and(|scheme| scheme.eq_ignore_ascii_case("https"));
        // A browser sends this header by TLS and to its own machine alone.
        let is_fetched = headers.contains_key("sec-fetch-site")
            && text(HOST.as_str()).is_some_and(|host| !is_this_machine(host));
        if is_from_page || is_from_proxy || is_fetched { Self::Encrypted } else { Self::Clear }
    }

    /// The channels whose cookies count, the surest first. Behind TLS a cookie without the prefix
    /// may be a neighbour's (ruling 62).
    pub(crate) const fn readable_channels(self) -> &'static [Self] {
        match self {
            Self::Clear => &[Self::Encrypted, Self::Clear],
            Self::Encrypted => &[Self::Encrypted],
        }
    }

    /// The name of the cookie.
    pub(crate) const fn cookie_name(self) -> &'static str {
        match self {
            Self::Clear => COOKIE_NAME,
            Self::Encrypted => SECURE_COOKIE_NAME,
        }
    }

    /// The header that sets the cookie. A browser takes the secure one with this path only.
    pub(crate) fn cookie_header(self, value: &str, seconds: i64) -> String {
        let name = self.cookie_name();
        let (path, end) = match self {
            Self::Clear => ("/console", ""),
            Self::Encrypted => ("/", "; Secure"),
        };
        format!("{name}={value}; Path={path}; Max-Age={seconds}; HttpOnly; SameSite=Strict{end}")
    }
}

/// Whether a value of the header `Host` names the browser's own machine.
fn is_this_machine(host: &str) -> bool {
    let name = host.rsplit_once(':').map_or(host, |(name, port)| {
        if port.bytes().all(|byte| byte.is_ascii_digit()) { name } else { host }
    });
    let address = name.trim_start_matches('[').trim_end_matches(']');
    name.eq_ignore_ascii_case("localhost")
        || name.to_ascii_lowercase().ends_with(".localhost")
        || address.parse().is_ok_and(|address: std::net::IpAddr| address.is_loopback())
}

/// The cookie with which a session goes on after this use. The answer sets it.
#[derive(Clone, Default)]
pub(crate) struct UsedCookie(Arc<Mutex<Option<String>>>);

impl UsedCookie {
    /// Notes the use of a session.
    pub(crate) fn note_use(&self, service: &Service, session: &Session, channel: BrowserChannel) {
        if let Some((text, seconds)) = session.used_cookie(service) {
            let cookie = channel.cookie_header(&text, seconds);
            *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(cookie);
        }
    }

    fn take_header(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Lets the session of a call go on, unless the answer sets cookies of its own, as a sign-out does.
pub(crate) async fn keep_session(mut request: Request, next: Next) -> Response {
    let used = UsedCookie::default();
    request.extensions_mut().insert(used.clone());
    let mut response = next.run(request).await;
    if !response.headers().contains_key(SET_COOKIE)
        && let Some(cookie) = used.take_header().and_then(|cookie| cookie.parse().ok())
    {
        response.headers_mut().insert(SET_COOKIE, cookie);
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    /// Behind TLS a neighbour in the domain could sign somebody in as himself.
    #[rstest]
    #[case(&[], false)]
    #[case(&[("host", "ops.example:8081")], false)]
    #[case(&[("host", "ops.example"), ("origin", "https://ops.example")], true)]
    #[case(&[("host", "ops.example"), ("origin", "http://ops.example")], false)]
    #[case(&[("host", "ops.example"), ("sec-fetch-site", "none")], true)]
    #[case(&[("host", "ops.example"), ("origin", "http://b"), ("sec-fetch-site", "none")], true)]
    #[case(&[("host", "10.0.0.7:8081"), ("sec-fetch-site", "same-site")], true)]
    #[case(&[("host", "127.0.0.1:8081"), ("x-forwarded-proto", "https")], true)]
    #[case(&[("host", "127.0.0.1:8081"), ("sec-fetch-site", "none")], false)]
    #[case(&[("host", "localhost:8081"), ("sec-fetch-site", "none")], false)]
    #[case(&[("host", "ops.localhost"), ("sec-fetch-site", "none")], false)]
    #[case(&[("host", "[::1]:8081"), ("sec-fetch-site", "none")], false)]
    #[case(&[("host", "[2001:db8::1]:8081"), ("sec-fetch-site", "none")], true)]
    #[case(&[("host", "localhost.example"), ("sec-fetch-site", "none")], true)]
    fn any_sign_of_tls_means_encryption(
        #[case] sent: &[(&'static str, &'static str)],
        #[case] is_encrypted: bool,
    ) {
        let pairs = sent.iter().map(|(name, value)| {
            (name.parse::<axum::http::HeaderName>().unwrap(), value.parse().unwrap())
        });
        let channel = BrowserChannel::new(&HeaderMap::from_iter(pairs));
        assert_eq!(channel == BrowserChannel::Encrypted, is_encrypted);
    }

    #[test]
    fn behind_tls_only_the_prefixed_cookie_counts() {
        let names = |channel: BrowserChannel| -> Vec<_> {
            channel.readable_channels().iter().map(|channel| channel.cookie_name()).collect()
        };
        assert_eq!(names(BrowserChannel::Encrypted), ["__Host-firmforms_console"]);
        let clear = ["__Host-firmforms_console", "firmforms_console"];
        assert_eq!(names(BrowserChannel::Clear), clear);
    }
}
