//! The pages of a list.

use maud::{Markup, html};

use super::visit::PortalVisit;

/// Links to the first page and the next one.
pub(super) fn page_links(visit: &PortalVisit, next: Option<&str>) -> Markup {
    let words = visit.words;
    html! {
        nav.pages aria-label=(words.pages) {
            @if visit.query_value("after").is_some() {
                a href=(visit.link_with("after", None)) rel="first" { (words.first_page) }
            }
            @if let Some(next) = next {
                a href=(visit.link_with("after", Some(next))) rel="next" { (words.next_page) }
            }
        }
    }
}
