//! The fields of a form. A form of another origin is not read.

use std::collections::BTreeMap;

use axum::body::to_bytes;
use axum::extract::Request;
use axum::http::header::{CONTENT_TYPE, HOST, ORIGIN};
use axum::http::{HeaderMap, StatusCode};
use url::form_urlencoded;

use crate::refusal::Refusal;

/// Longest form, in bytes. A reason has 200 characters.
const FORM_BYTES_MAX: usize = 64 << 10;

/// The field that proves the origin of a form.
pub(crate) const FORM_TOKEN: &str = "form_token";

/// The field that names the page to go back to.
pub(crate) const BACK: &str = "back";

/// The fields of a form.
#[derive(Debug, Default)]
pub(crate) struct FormFields(BTreeMap<String, String>);

/// A form that is not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FormFault {
    /// A page of another origin sent it.
    Strange,
    /// It has another content type.
    OtherType,
    /// It has too many bytes.
    TooLong,
}

impl FormFault {
    /// The status of the answer.
    pub(crate) const fn status(self) -> StatusCode {
        match self {
            Self::Strange => StatusCode::FORBIDDEN,
            Self::OtherType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::TooLong => StatusCode::PAYLOAD_TOO_LARGE,
        }
    }
}

impl From<FormFault> for Refusal {
    fn from(fault: FormFault) -> Self {
        match fault {
            FormFault::Strange => Self::strange_form(),
            FormFault::OtherType => {
                Self::new(fault.status(), "a form must be application/x-www-form-urlencoded")
            }
            FormFault::TooLong => Self::new(fault.status(), "the form is too long"),
        }
    }
}

impl FormFields {
    /// Reads a form of this origin.
    pub(crate) async fn new(request: Request) -> Result<Self, FormFault> {
        let (parts, body) = request.into_parts();
        if !is_own_origin(&parts.headers) {
            return Err(FormFault::Strange);
        }
        if !is_form(&parts.headers) {
            return Err(FormFault::OtherType);
        }
        let bytes = to_bytes(body, FORM_BYTES_MAX).await.map_err(|_| FormFault::TooLong)?;
        let pairs = form_urlencoded::parse(&bytes);
        Ok(Self(pairs.map(|(name, value)| (name.into_owned(), value.into_owned())).collect()))
    }

    /// The text of a field as it was sent. A missing field has an empty one.
    pub(crate) fn sent_text(&self, name: &str) -> &str {
        self.0.get(name).map_or("", String::as_str)
    }

    /// The text of a field without the space around it, unless it is empty.
    pub(crate) fn optional_text(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(|text| text.trim()).filter(|text| !text.is_empty())
    }

    /// The text of a field that must not be empty.
    pub(crate) fn required_text(&self, name: &str) -> Result<&str, Refusal> {
        let missing = || Refusal::invalid(&format!("`{name}` is missing"));
        self.optional_text(name).ok_or_else(missing)
    }

    /// All fields except the named ones.
    pub(crate) fn fields_without<'a>(
        &'a self,
        without: &'a [&'a str],
    ) -> impl Iterator<Item = (&'a str, &'a str)> {
        let pairs = self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        pairs.filter(|(name, _)| !without.contains(name))
    }

    /// The fields but these, as JSON.
    pub(crate) fn to_json(&self, without: &[&str]) -> String {
        let typed: BTreeMap<_, _> = self.fields_without(without).collect();
        serde_json::json!(typed).to_string()
    }

    /// Reads fields from JSON.
    pub(crate) fn read_json(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok().map(Self)
    }

    /// The reason of the command.
    pub(crate) fn reason(&self) -> Result<&str, Refusal> {
        self.optional_text("reason").ok_or_else(|| Refusal::invalid("give a reason"))
    }
}

/// A page of the console; its home for an address elsewhere.
pub(crate) fn own_page(path: Option<&str>) -> &str {
    let is_own = |path: &&str| {
        let rest = path.strip_prefix("/console");
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '?']))
            && path.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\')
            && !path.contains("..")
    };
    path.filter(is_own).unwrap_or("/console")
}

/// Whether a browser sent the request from a page of this door. Programs send neither header. The
/// word of the browser counts, because a proxy may rewrite `Host`. A browser gives no word without
/// TLS, and then the origin is compared.
fn is_own_origin(headers: &HeaderMap) -> bool {
    let text = |name| headers.get(name).map(|value: &axum::http::HeaderValue| value.to_str());
    if let Some(site) = headers.get("sec-fetch-site") {
        return site == "same-origin";
    }
    match (text(ORIGIN), text(HOST)) {
        (None, _) => true,
        (Some(Ok(origin)), Some(Ok(host))) => {
            origin.split_once("://").is_some_and(|(_, of)| of.eq_ignore_ascii_case(host))
        }
        (Some(_), _) => false,
    }
}

fn is_form(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let essence = kind.split(';').next().unwrap_or_default().trim();
    essence.eq_ignore_ascii_case("application/x-www-form-urlencoded")
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case(&[], true)]
    #[case(&[("sec-fetch-site", "same-origin"), ("origin", "http://a:1"), ("host", "a:1")], true)]
    #[case(&[("sec-fetch-site", "same-origin"), ("origin", "https://a"), ("host", "b:1")], true)]
    #[case(&[("sec-fetch-site", "cross-site")], false)]
    #[case(&[("sec-fetch-site", "none")], false)]
    #[case(&[("sec-fetch-site", "cross-site"), ("origin", "http://a"), ("host", "a")], false)]
    #[case(&[("origin", "http://a:1"), ("host", "a:1")], true)]
    #[case(&[("sec-fetch-site", "same-site")], false)]
    #[case(&[("origin", "http://b"), ("host", "a")], false)]
    #[case(&[("origin", "null"), ("host", "a")], false)]
    #[case(&[("origin", "http://a")], false)]
    fn a_form_of_another_origin_is_refused(
        #[case] sent: &[(&'static str, &'static str)],
        #[case] is_own: bool,
    ) {
        let pairs = sent.iter().map(|(name, value)| {
            (name.parse::<axum::http::HeaderName>().unwrap(), value.parse().unwrap())
        });
        assert_eq!(is_own_origin(&HeaderMap::from_iter(pairs)), is_own);
    }

    #[rstest]
    #[case("/console/firms?after=1", "/console/firms?after=1")]
    #[case("/console", "/console")]
    #[case("/consoles", "/console")]
    #[case("//evil.example", "/console")]
    #[case("https://evil.example/console", "/console")]
    #[case("/console/../internal", "/console")]
    #[case("/console/\\evil.example", "/console")]
    #[case("/console/a\r\nb: c", "/console")]
    fn only_console_pages_are_led_to(#[case] asked: &str, #[case] led_to: &str) {
        assert_eq!(own_page(Some(asked)), led_to);
    }
}
