//! Receivers in frameworks that would parse the body.

use maud::{Markup, html};

use super::super::code::CodeFile;
use super::super::frame::DocsPlace;
use super::super::markup::{PageSection, code_block, inline_markup};

pub(super) fn sections() -> Vec<PageSection> {
    let section = |anchor, title, content| PageSection { anchor, title, content };
    vec![
        section("raw", "The raw body", raw_body()),
        section(
            "express",
            "Express",
            recipe_block(
                CodeFile::EXPRESS,
                "`express.raw` gives this route the bytes. It stands before `express.json`, which \
                 would parse the body of every route that follows it.",
            ),
        ),
        section(
            "fastapi",
            "FastAPI",
            recipe_block(
                CodeFile::FASTAPI,
                "`await request.body()` gives the bytes. A model as a parameter would parse them.",
            ),
        ),
        section(
            "rails",
            "Rails",
            recipe_block(
                CodeFile::RAILS,
                "`request.raw_post` gives the bytes. `params` has the parsed body. A controller with \
                 `protect_from_forgery` needs `skip_forgery_protection` for this action.",
            ),
        ),
    ]
}

fn raw_body() -> Markup {
    html! {
        p { (inline_markup("The signature covers the bytes that were sent. A framework that parses JSON first \
            loses them: white space, escapes and the order of fields come out differently.")) }
        p {
            "Each recipe is a whole receiver. It keeps ids in memory, which is enough for a trial "
            "only: see " a href={ (DocsPlace::Receive.path()) "#repeats" } { "drop repeats" } "."
        }
    }
}

fn recipe_block(file: CodeFile, about: &str) -> Markup {
    html! {
        p { (inline_markup(about)) }
        p.note { a href=(file.path()) { (file.name) } }
        (code_block(file.text))
    }
}
