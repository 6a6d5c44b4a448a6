//! Parts of all pages: words with code between backticks, tables, blocks of code, sections.

use maud::{Markup, html};

/// The words of one paragraph. Code stands between backticks.
pub(crate) fn inline_markup(paragraph: &str) -> Markup {
    html! {
        @for (place, part) in paragraph.split('`').enumerate() {
            @if place % 2 == 0 { (part) } @else { code { (part) } }
        }
    }
}

/// A table with two columns, so that a phone is wide enough.
pub(crate) fn two_columns(caption: &str, [name, about]: [&str; 2], rows: &Markup) -> Markup {
    html! {
        table {
            caption { (caption) }
            thead { tr { th scope="col" { (name) } th scope="col" { (about) } } }
            tbody { (rows) }
        }
    }
}

/// A row of a table: a name, a note beside the name, and the rest.
pub(crate) fn table_row(name: &str, note: &str, about: &Markup) -> Markup {
    html! {
        tr {
            th scope="row" {
                code { (name) }
                @if !note.is_empty() { " " span.note { (note) } }
            }
            td { (about) }
        }
    }
}

/// A table of sentences.
pub(super) fn facts_table(caption: &str, heads: [&str; 2], facts: &[[&str; 2]]) -> Markup {
    let rows =
        html! { @for [name, about] in facts { (table_row(name, "", &inline_markup(about))) } };
    two_columns(caption, heads, &rows)
}

/// A list of sentences.
pub(super) fn sentence_list(sentences: &[&str]) -> Markup {
    html! { ul { @for sentence in sentences { li { (inline_markup(sentence)) } } } }
}

/// A block of code.
pub(super) fn code_block(code: &str) -> Markup {
    html! { pre { code { (code) } } }
}

/// A part of a page, with its anchor.
pub(super) struct PageSection {
    pub(super) anchor: &'static str,
    pub(super) title: &'static str,
    pub(super) content: Markup,
}

impl PageSection {
    pub(super) fn show(&self) -> Markup {
        html! {
            section aria-labelledby=(self.anchor) {
                h2 id=(self.anchor) { (self.title) }
                (self.content)
            }
        }
    }
}
