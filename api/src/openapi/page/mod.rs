//! `/docs`: the page for people, made from the same value. It is one document without script and
//! without foreign content. Its policy names the style by hash.

mod calls;
mod deliveries;
mod fields;
mod words;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use serde_json::Value;
use sha2::{Digest, Sha256};

use words::{entries, prose, row, table, text};

const STYLE: &str = include_str!("style.css");

/// The page with its content security policy.
pub(super) fn of(document: &Value) -> (String, String) {
    let hash = STANDARD.encode(Sha256::digest(STYLE));
    let policy = format!(
        "default-src 'none'; style-src 'sha256-{hash}'; base-uri 'none'; form-action 'none'; \
         frame-ancestors 'none'"
    );
    (page(document).into_string(), policy)
}

fn page(document: &Value) -> Markup {
    let info = &document["info"];
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="description" content=(text(&info["summary"]));
                title { (text(&info["title"])) " · reference" }
                style { (PreEscaped(STYLE)) }
            }
            body {
                a.skip href="#content" { "Skip to the content" }
                header {
                    h1 { (text(&info["title"])) }
                    p { (text(&info["summary"])) " Version " (text(&info["version"])) "." }
                }
                nav aria-label="Contents" { (contents(document)) }
                main id="content" tabindex="-1" { (content(document)) }
                footer {
                    p {
                        "The same for machines: "
                        a href={ (text(&document["servers"][0]["url"])) "/openapi.json" } {
                            "openapi.json"
                        }
                    }
                }
            }
        }
    }
}

fn contents(document: &Value) -> Markup {
    html! {
        ul {
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
}

fn content(document: &Value) -> Markup {
    html! {
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
