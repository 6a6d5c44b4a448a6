//! The pages for integrators. They tell in short how to begin and how to receive. The pages of the
//! repository tell all of it.

mod frameworks;
mod languages;
mod quickstart;
mod receive;
mod signature;
mod verify;

use std::net::IpAddr;

use maud::{Markup, html};
use serde_json::Value;

use super::frame::{DocsPage, DocsPlace, PageScript};
use super::markup::PageSection;

pub(super) const SCRIPT: &str = include_str!("signature.js");

pub(super) const SCRIPT_PATH: &str = "/docs/signature.js";

/// All guides for the service of this description, whose deliveries leave from these addresses.
pub(super) fn all_guides(description: &Value, egress: &[IpAddr]) -> Vec<DocsPage> {
    vec![
        guide_page(DocsPlace::Quickstart, &quickstart::sections(description)),
        guide_page(DocsPlace::Receive, &receive::sections(egress)),
        guide_page(DocsPlace::Verify, &verify::sections()),
        guide_page(DocsPlace::Frameworks, &frameworks::sections()),
        DocsPage {
            script: PageScript::At(SCRIPT_PATH),
            ..guide_page(DocsPlace::Signature, &signature::sections())
        },
    ]
}

fn guide_page(place: DocsPlace, sections: &[PageSection]) -> DocsPage {
    DocsPage {
        place,
        title: place.name().to_owned(),
        summary: place.summary().to_owned(),
        contents: contents_list(sections),
        content: html! { @for section in sections { (section.show()) } },
        script: PageScript::None,
    }
}

fn contents_list(sections: &[PageSection]) -> Markup {
    html! {
        @for section in sections { li { a href={ "#" (section.anchor) } { (section.title) } } }
    }
}
