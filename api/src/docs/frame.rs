//! The frame of every page: head, style, navigation, and the policy that names the style by hash.
//! A page contains no foreign content, and only one has a script.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use sha2::{Digest, Sha256};

const STYLE: &str = include_str!("style.css");

/// The pages, in reading order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DocsPlace {
    Quickstart,
    Receive,
    Verify,
    Frameworks,
    Signature,
    Reference,
}

impl DocsPlace {
    pub(crate) const ALL: [Self; 6] = [
        Self::Quickstart,
        Self::Receive,
        Self::Verify,
        Self::Frameworks,
        Self::Signature,
        Self::Reference,
    ];

    pub(crate) fn path(self) -> &'static str {
        match self {
            Self::Quickstart => "/docs/quickstart",
            Self::Receive => "/docs/receive",
            Self::Verify => "/docs/verify",
            Self::Frameworks => "/docs/frameworks",
            Self::Signature => "/docs/signature",
            Self::Reference => "/docs",
        }
    }

    /// The name in the navigation.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Quickstart => "Quickstart",
            Self::Receive => "Receive deliveries",
            Self::Verify => "Verify signatures",
            Self::Frameworks => "Express, FastAPI, Rails",
            Self::Signature => "Check a signature",
            Self::Reference => "API reference",
        }
    }

    /// The purpose in a sentence.
    pub(crate) fn summary(self) -> &'static str {
        match self {
            Self::Quickstart => "From a key to a verified delivery, in seven steps.",
            Self::Receive => {
                "Rules for a receiver: answers, repeats, order, and the end of a subscription."
            }
            Self::Verify => {
                "Verify deliveries with Stripe's libraries, or with a few lines in your language."
            }
            Self::Frameworks => "Whole receivers that read the raw body.",
            Self::Signature => {
                "See whether a signature holds, and if not, why. Nothing leaves your browser."
            }
            Self::Reference => "Every call, field, error and event.",
        }
    }
}

/// Whether a page runs a script of this service.
pub(crate) enum PageScript {
    None,
    At(&'static str),
}

/// A page before it is written.
pub(crate) struct DocsPage {
    pub(crate) place: DocsPlace,
    pub(crate) title: String,
    pub(crate) summary: String,
    /// Anchors of the page, as items of a list.
    pub(crate) contents: Markup,
    pub(crate) content: Markup,
    pub(crate) script: PageScript,
}

impl DocsPage {
    pub(crate) fn path(&self) -> &'static str {
        self.place.path()
    }

    /// The content security policy. Nothing may be sent or fetched from a page.
    pub(crate) fn content_policy(&self) -> String {
        let hash = STANDARD.encode(Sha256::digest(STYLE));
        let script = match self.script {
            PageScript::None => "",
            PageScript::At(_) => {
                " script-src 'self'; connect-src 'none'; \
                 require-trusted-types-for 'script'; trusted-types 'none';"
            }
        };
        format!(
            "default-src 'none'; style-src 'sha256-{hash}';{script} base-uri 'none'; \
             form-action 'none'; frame-ancestors 'none'"
        )
    }

    pub(crate) fn html(&self) -> String {
        html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="description" content=(self.summary);
                    title { (self.place.name()) " · Firm Forms Integration API" }
                    style { (PreEscaped(STYLE)) }
                    @if let PageScript::At(path) = self.script {
                        script type="module" src=(path) {}
                    }
                }
                body {
                    a.skip href="#content" { "Skip to the content" }
                    header { h1 { (self.title) } p { (self.summary) } }
                    nav aria-label="Documentation" { (self.navigation()) }
                    main id="content" tabindex="-1" { (self.content) }
                    footer { p {
                        "For programs: " a href="/api/v1/openapi.json" { "openapi.json" }
                    } }
                }
            }
        }
        .into_string()
    }

    /// All pages. The present one shows its contents.
    fn navigation(&self) -> Markup {
        html! {
            ul {
                @for place in DocsPlace::ALL {
                    @let here = (place == self.place).then_some("page");
                    li {
                        a href=(place.path()) aria-current=[here] { (place.name()) }
                        @if here.is_some() { ul { (self.contents) } }
                    }
                }
            }
        }
    }
}
