//! The frame of every page in the firm's brand, and the headers of every answer.

use std::iter;

use api::portal::PortalSession;
use axum::extract::RawPathParams;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_LANGUAGE, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY,
    X_FRAME_OPTIONS,
};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use domain::access::FrameOrigin;
use domain::firm::BrandColor;
use domain::values::{Lang, printable_text};
use maud::{DOCTYPE, Markup, html};
use url::Url;

use super::visit::{BACK, PortalVisit};
use super::words::Words;
use crate::form::FORM_TOKEN;
use crate::parts;

/// The style of the console with that of the portal.
const STYLE: &str = concat!(include_str!("../style.css"), include_str!("portal.css"));

/// The headers of every answer. `same-origin`, because without a referrer a browser names no origin
/// of a form.
const HEADERS: [(HeaderName, &str); 5] = [
    (REFERRER_POLICY, "same-origin"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (HeaderName::from_static("permissions-policy"), "camera=(), geolocation=(), microphone=()"),
    (HeaderName::from_static("x-robots-tag"), "noindex"),
];

/// Nothing is loaded and nothing is framed, on an answer that is no page.
const POLICY_WITHOUT_PAGE: &str = "default-src 'none'; frame-ancestors 'none'";

/// Adds the headers that an answer does not have.
pub(super) async fn add_headers(mut response: Response) -> Response {
    let headers = response.headers_mut();
    for (name, value) in HEADERS {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    }
    headers.entry(CONTENT_SECURITY_POLICY).or_insert(HeaderValue::from_static(POLICY_WITHOUT_PAGE));
    response
}

/// Pages of the menu: address and name.
const fn menu_items(words: &Words) -> [[&'static str; 2]; 7] {
    [
        ["/portal", words.home],
        ["/portal/keys", words.keys],
        ["/portal/secret", words.secret],
        ["/portal/hooks", words.hooks],
        ["/portal/deliveries", words.deliveries],
        ["/portal/steps", words.steps],
        ["/portal/audit", words.audit],
    ]
}

/// The look of a page: its words, the firm, and the origin that may frame it.
pub(super) struct PortalLook {
    pub(super) words: &'static Words,
    frame_origin: Option<String>,
    firm: Option<FirmLook>,
}

/// A firm's name, colour and logo.
struct FirmLook {
    name: String,
    color: Option<BrandColor>,
    logo: Option<FirmLogo>,
}

/// A logo that pages may load.
struct FirmLogo {
    url: Url,
    origin: FrameOrigin,
}

impl PortalLook {
    /// The look without a session.
    pub(super) const fn without_session(words: &'static Words) -> Self {
        Self { words, frame_origin: None, firm: None }
    }

    /// This look in a frame of this origin.
    pub(super) fn framed_by(self, frame_origin: Option<String>) -> Self {
        Self { frame_origin, ..self }
    }

    /// The look of a session.
    pub(super) fn new(words: &'static Words, session: &PortalSession) -> Self {
        let brand = session.brand();
        let firm = FirmLook {
            name: printable_text(session.firm_name()).into_owned(),
            color: brand.color.as_deref().and_then(|color| color.trim().parse().ok()),
            logo: brand.logo_url.as_deref().and_then(FirmLogo::new),
        };
        let frame_origin = session.frame_origin().map(str::to_owned);
        Self { words, frame_origin, firm: Some(firm) }
    }

    /// Whether the page belongs to a session.
    pub(super) const fn has_session(&self) -> bool {
        self.firm.is_some()
    }

    fn security_policy(&self) -> String {
        let ancestors = self.frame_origin.as_deref().unwrap_or("'none'");
        let logo = self.firm.as_ref().and_then(|firm| firm.logo.as_ref());
        let images = logo.map(|logo| format!(" {}", logo.origin)).unwrap_or_default();
        format!(
            "default-src 'none'; style-src 'self'; img-src 'self'{images}; form-action 'self'; \
             base-uri 'none'; frame-ancestors {ancestors}; require-trusted-types-for 'script'; \
             trusted-types 'none'"
        )
    }
}

impl FirmLogo {
    fn new(text: &str) -> Option<Self> {
        let url: Url = text.trim().parse().ok()?;
        let origin = url.origin().ascii_serialization().parse().ok()?;
        let is_public =
            url.scheme() == "https" && url.username().is_empty() && url.password().is_none();
        is_public.then_some(Self { url, origin })
    }
}

/// A page of a session.
pub(super) struct PortalPage<'a> {
    pub(super) title: &'a str,
    pub(super) content: Markup,
}

/// A whole page.
pub(super) fn full_page(visit: &PortalVisit, page: &PortalPage<'_>) -> Response {
    let look = visit.page_look();
    let body = html! {
        a.skip href="#content" { (look.words.skip) }
        header.top {
            (brand_link(&look))
            nav aria-label=(look.words.portal) { ul {
                @for [path, name] in menu_items(look.words) {
                    li { a href=(path) aria-current=[(visit.path == path).then_some("page")] {
                        (name)
                    } }
                }
            } }
            form method="post" action="/portal/leave" {
                (token_field(visit))
                button { (look.words.leave) }
            }
        }
        main #content tabindex="-1" {
            h1 { (page.title) }
            @if let Some(sentence) = visit.query_value("done").and_then(|done| look.words.done_sentence(done)) {
                p.done role="status" { (sentence) }
            }
            (page.content)
        }
        footer {
            form.buttons method="post" action="/portal/lang" {
                (token_field(visit))
                @if let Some(here) = visit.return_path() { (parts::hidden_field(BACK, &here)) }
                @for lang in Lang::ALL {
                    button name="lang" value=(lang.code()) lang=(lang.code())
                        aria-pressed=(lang == look.words.lang) { (name_of(lang)) }
                }
            }
            p { (look.words.utc) " " (look.words.ends) " "
                time datetime=(visit.session.ends_at()) { (visit.session.ends_at()) } }
        }
    };
    html_document(StatusCode::OK, &look, &PortalPage { title: page.title, content: body })
}

/// A page without a menu.
pub(super) fn bare_page(
    status: StatusCode,
    look: &PortalLook,
    title: &str,
    content: &Markup,
) -> Response {
    bare_with(status, look, &PortalPage { title, content: content.clone() }, &html! {})
}

/// A page without a menu, with more in its head.
pub(super) fn bare_with(
    status: StatusCode,
    look: &PortalLook,
    page: &PortalPage<'_>,
    head: &Markup,
) -> Response {
    let body = html! {
        header.top { (brand_link(look)) }
        main #content tabindex="-1" { h1 { (page.title) } (page.content) }
    };
    document_with(status, look, &PortalPage { title: page.title, content: body }, head)
}

const fn name_of(lang: Lang) -> &'static str {
    match lang {
        Lang::En => "English",
        Lang::Fr => "Français",
        Lang::Es => "Español",
    }
}

fn brand_link(look: &PortalLook) -> Markup {
    html! {
        @if let Some(firm) = &look.firm {
            a.brand href="/portal" {
                @if let Some(logo) = &firm.logo {
                    img src=(logo.url) alt="" height="32" referrerpolicy="no-referrer"; " "
                }
                bdi { (firm.name) }
            }
        } @else { span.brand { (look.words.portal) } }
    }
}

/// The hidden field that proves the origin of a form.
pub(super) fn token_field(visit: &PortalVisit) -> Markup {
    html! { input type="hidden" name=(FORM_TOKEN) value=(visit.form_token); }
}

fn html_document(status: StatusCode, look: &PortalLook, page: &PortalPage<'_>) -> Response {
    document_with(status, look, page, &html! {})
}

fn document_with(
    status: StatusCode,
    look: &PortalLook,
    page: &PortalPage<'_>,
    head: &Markup,
) -> Response {
    let version = env!("CARGO_PKG_VERSION");
    let firm = look.firm.as_ref();
    let html = html! {
        (DOCTYPE)
        html lang=(look.words.lang.code()) {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (page.title) @if let Some(firm) = firm { " · " (firm.name) } }
                link rel="stylesheet" href=(format!("/portal/style.css?{version}"));
                link rel="icon" type="image/svg+xml" href="/portal/icon.svg";
                @if let Some(color) = firm.and_then(|firm| firm.color) {
                    link rel="stylesheet" href=(format!("/portal/brand/{color}"));
                }
                (head)
            }
            body.portal { (page.content) }
        }
    };
    let kind = [
        (CONTENT_TYPE, "text/html; charset=utf-8".to_owned()),
        (CONTENT_LANGUAGE, look.words.lang.code().to_owned()),
        (CONTENT_SECURITY_POLICY, look.security_policy()),
    ];
    let mut response = (status, kind, html.into_string()).into_response();
    // Older browsers know no list of origins in this header, so it only says that there is none.
    let framed = look.frame_origin.is_none().then_some(HeaderValue::from_static("DENY"));
    response.headers_mut().extend(iter::once(X_FRAME_OPTIONS).zip(framed));
    response
}

/// The style, which browsers keep until this build changes.
pub(super) async fn style() -> impl IntoResponse {
    css_response(STYLE.to_owned())
}

/// The colours of a brand, with the ink that can be read on it.
pub(super) async fn brand_style(params: RawPathParams) -> Response {
    let color = params.iter().find(|(name, _)| *name == "color");
    let Some(color) = color.and_then(|(_, color)| color.parse::<BrandColor>().ok()) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let ink = color.ink();
    css_response(format!(":root{{--brand:#{color};--brand-ink:{ink}}}")).into_response()
}

fn css_response(style: String) -> impl IntoResponse {
    ([(CONTENT_TYPE, "text/css; charset=utf-8"), (CACHE_CONTROL, "public, max-age=3600")], style)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A logo comes by TLS, and adds its origin to the policy.
    #[test]
    fn a_logo_adds_only_its_origin() {
        let of = |text: &str| FirmLogo::new(text).map(|logo| logo.origin.to_string());
        let origin = Some("https://cdn.example:8443".to_owned());
        assert_eq!(of("https://cdn.example:8443/logo.png?a=b"), origin);
        for other in [
            "",
            "logo.png",
            "http://cdn.example/logo.png",
            "http://localhost:8080/logo.png",
            "data:image/png;base64,AAAA",
            "javascript:alert(1)",
            "https://user:pass@cdn.example/logo.png",
            "https://*.example/logo.png",
        ] {
            assert_eq!(of(other), None, "{other}");
        }
    }
}
