//! `/docs`: the page of the description, made from the same value.

mod calls;
mod deliveries;
mod fields;
mod words;

use maud::{Markup, html};
use serde_json::Value;

use crate::docs::frame::{DocsPage, DocsPlace, PageScript};
use crate::docs::markup::{table_row, two_columns};
use words::{object_entries, prose_markup, text_or_empty};

/// The page, with a way to the guides before the reference.
pub(super) fn docs_page(document: &Value) -> DocsPage {
    let info = &document["info"];
    DocsPage {
        place: DocsPlace::Reference,
        title: text_or_empty(&info["title"]).to_owned(),
        summary: format!(
            "{} Version {}.",
            text_or_empty(&info["summary"]),
            text_or_empty(&info["version"])
        ),
        contents: contents_list(document),
        content: page_content(document),
        script: PageScript::None,
    }
}

fn contents_list(document: &Value) -> Markup {
    html! {
        li { a href="#overview" { "Overview" } }
        li { a href="#authentication" { "Authentication" } }
        @for tag in call_tags(document) {
            li {
                a href={ "#" (calls::tag_anchor(tag)) } { (tag) }
                ul {
                    @for call in calls::of_tag(document, tag) {
                        li { a href={ "#" (call.id()) } { (call.title()) } }
                    }
                }
            }
        }
        li { a href="#errors" { "Errors" } }
        li { a href="#webhooks" { "Webhooks" } }
        li { a href="#schemas" { "Schemas" } }
    }
}

fn page_content(document: &Value) -> Markup {
    html! {
        section aria-labelledby="guides" {
            h2 id="guides" { "Start here" }
            (guide_list())
        }
        section aria-labelledby="overview" {
            h2 id="overview" { "Overview" }
            (prose_markup(&document["info"]["description"]))
            p { "All paths are below " code { (text_or_empty(&document["servers"][0]["url"])) } "." }
        }
        section aria-labelledby="authentication" {
            h2 id="authentication" { "Authentication" }
            (authentication_table(&document["components"]["securitySchemes"]))
        }
        @for tag in call_tags(document) {
            section aria-labelledby=(calls::tag_anchor(tag)) {
                h2 id=(calls::tag_anchor(tag)) { (tag) }
                @for call in calls::of_tag(document, tag) { (call.show()) }
            }
        }
        section aria-labelledby="errors" {
            h2 id="errors" { "Errors" }
            (calls::errors_table(document))
        }
        section aria-labelledby="webhooks" {
            h2 id="webhooks" { "Webhooks" }
            (deliveries::show(document))
        }
        section aria-labelledby="schemas" {
            h2 id="schemas" { "Schemas" }
            @for (name, schema) in object_entries(&document["components"]["schemas"]) {
                (fields::schema(name, schema))
            }
        }
    }
}

fn guide_list() -> Markup {
    let guides = DocsPlace::ALL.into_iter().filter(|place| *place != DocsPlace::Reference);
    html! {
        dl {
            @for guide in guides {
                dt { a href=(guide.path()) { (guide.name()) } }
                dd { (guide.summary()) }
            }
        }
    }
}

/// The tags of calls. Deliveries have a part of their own.
fn call_tags(document: &Value) -> impl Iterator<Item = &str> {
    let tags = document["tags"].as_array().into_iter().flatten();
    let tags = tags.map(|tag| text_or_empty(&tag["name"]));
    tags.filter(|tag| !calls::of_tag(document, tag).is_empty())
}

/// Either scheme is enough.
fn authentication_table(schemes: &Value) -> Markup {
    let plain = format!("{}: <key>", text_or_empty(&schemes["apiKey"]["name"]));
    let rows = html! {
        (table_row("Authorization: Bearer <key>", "", &prose_markup(&schemes["bearer"]["description"])))
        (table_row(&plain, "", &prose_markup(&schemes["apiKey"]["description"])))
    };
    two_columns("A key is sent in either of two headers", ["Header", "What it is"], &rows)
}
