//! `/docs`: the page of the description, made from the same value.

mod calls;
mod deliveries;
mod fields;
mod words;

use maud::{Markup, html};
use serde_json::Value;

use crate::docs::frame::{DocsPage, DocsPlace, PageScript};
use crate::docs::markup::{row, table};
use words::{entries, prose, text};

/// The page, with a way to the guides before the reference.
pub(super) fn docs_page(document: &Value) -> DocsPage {
    let info = &document["info"];
    DocsPage {
        place: DocsPlace::Reference,
        title: text(&info["title"]).to_owned(),
        summary: format!("{} Version {}.", text(&info["summary"]), text(&info["version"])),
        contents: contents(document),
        content: content(document),
        script: PageScript::None,
    }
}

fn contents(document: &Value) -> Markup {
    html! {
        li { a href="#overview" { "Overview" } }
        li { a href="#authentication" { "Authentication" } }
        @for tag in tags(document) {
            li {
                a href={ "#" (calls::anchor(tag)) } { (tag) }
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

fn content(document: &Value) -> Markup {
    html! {
        section aria-labelledby="guides" {
            h2 id="guides" { "Start here" }
            (guides())
        }
        section aria-labelledby="overview" {
            h2 id="overview" { "Overview" }
            (prose(&document["info"]["description"]))
            p { "All paths are below " code { (text(&document["servers"][0]["url"])) } "." }
        }
        section aria-labelledby="authentication" {
            h2 id="authentication" { "Authentication" }
            (authentication(&document["components"]["securitySchemes"]))
        }
        @for tag in tags(document) {
            section aria-labelledby=(calls::anchor(tag)) {
                h2 id=(calls::anchor(tag)) { (tag) }
                @for call in calls::of_tag(document, tag) { (call.show()) }
            }
        }
        section aria-labelledby="errors" {
            h2 id="errors" { "Errors" }
            (calls::errors(document))
        }
        section aria-labelledby="webhooks" {
            h2 id="webhooks" { "Webhooks" }
            (deliveries::show(document))
        }
        section aria-labelledby="schemas" {
            h2 id="schemas" { "Schemas" }
            @for (name, schema) in entries(&document["components"]["schemas"]) {
                (fields::schema(name, schema))
            }
        }
    }
}

fn guides() -> Markup {
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
fn tags(document: &Value) -> impl Iterator<Item = &str> {
    let tags = document["tags"].as_array().into_iter().flatten();
    let tags = tags.map(|tag| text(&tag["name"]));
    tags.filter(|tag| !calls::of_tag(document, tag).is_empty())
}

/// Either scheme is enough.
fn authentication(schemes: &Value) -> Markup {
    let plain = format!("{}: <key>", text(&schemes["apiKey"]["name"]));
    let rows = html! {
        (row("Authorization: Bearer <key>", "", &prose(&schemes["bearer"]["description"])))
        (row(&plain, "", &prose(&schemes["apiKey"]["description"])))
    };
    table("A key is sent in either of two headers", ["Header", "What it is"], &rows)
}
