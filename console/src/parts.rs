//! Parts of all pages: times, ids, states, tables, filters, links to the next page, and forms of
//! commands.

use domain::values::{Timestamp, printable_text};
use maud::{Markup, html};

use crate::frame;
use crate::visit::PageVisit;

/// A time in UTC with its distance from now.
pub(crate) fn time(at: Timestamp, now: Timestamp) -> Markup {
    let text = at.to_string();
    let shown = text.replace('T', " ").replace('Z', "");
    html! {
        span.time { time datetime=(text) { (shown) } " " small { (time_distance(at, now)) } }
    }
}

/// A time in UTC alone, which is the same in all languages.
pub(crate) fn plain_time(at: Timestamp) -> Markup {
    let text = at.to_string();
    let shown = text.replace('T', " ").replace('Z', "");
    html! { time datetime=(text) { (shown) } }
}

/// A time that may be missing.
pub(crate) fn time_or_none(at: Option<Timestamp>, now: Timestamp) -> Markup {
    html! { @if let Some(at) = at { (time(at, now)) } @else { (no_value()) } }
}

/// A field without a value.
pub(crate) fn no_value() -> Markup {
    html! { span.none { "none" } }
}

/// The distance of a time from now.
pub(crate) fn time_distance(at: Timestamp, now: Timestamp) -> String {
    let seconds = (now.get() - at.get()).num_seconds();
    let span = duration_text(seconds.unsigned_abs());
    match seconds {
        0 => "now".to_owned(),
        1.. => format!("{span} ago"),
        _ => format!("in {span}"),
    }
}

/// A duration in its largest unit.
pub(crate) fn duration_text(seconds: u64) -> String {
    match seconds {
        0..=119 => format!("{seconds} s"),
        120..=7_199 => format!("{} min", seconds / 60),
        7_200..=172_799 => format!("{} h", seconds / 3_600),
        _ => format!("{} days", seconds / 86_400),
    }
}

/// An id that leads to its page. The script copies the whole id.
pub(crate) fn id_link(href: &str, id: &(impl ToString + ?Sized)) -> Markup {
    let id = id.to_string();
    html! { a.id href=(href) data-id=(id) title=(id) { (short_id(&id)) } }
}

/// An id without a page.
pub(crate) fn plain_id(id: &(impl ToString + ?Sized)) -> Markup {
    let id = id.to_string();
    html! { span.id data-id=(id) title=(id) { (short_id(&id)) } }
}

/// The first and the last characters of a long id. The first ones of ids of one minute are alike.
fn short_id(id: &str) -> String {
    match (id.get(..8), id.get(id.len().saturating_sub(6)..)) {
        (Some(first), Some(last)) if id.chars().count() > 20 => format!("{first}…{last}"),
        _ => id.to_owned(),
    }
}

/// Foreign text, which may run from right to left.
pub(crate) fn foreign_text(text: &str) -> Markup {
    html! { bdi { (printable_text(text)) } }
}

/// Foreign text of several lines.
pub(crate) fn foreign_lines(text: &str) -> Markup {
    html! { @for line in text.lines() { (foreign_text(line)) "\n" } }
}

/// A state by word and by shape, and never by colour alone.
pub(crate) fn state(word: &str) -> Markup {
    state_named(word, word)
}

/// A state under the name that it has in another language.
pub(crate) fn state_named(word: &str, name: &str) -> Markup {
    let (shape, kind) = match word {
        "delivered" | "live" | "active" | "intact" | "running" => ("●", "good"),
        "pending" | "retry" | "paused" => ("◐", "open"),
        "warned" | "suspended" | "incomplete" => ("▲", "warn"),
        "failed" | "failing" | "broken" | "interrupted" => ("✕", "bad"),
        _ => ("○", "over"),
    };
    html! { span.state.(kind) { span aria-hidden="true" { (shape) } " " (name) } }
}

/// A table in a region of its own, which scrolls on a small screen.
pub(crate) fn table(caption: &str, heads: &[&str], rows: &Markup) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-label=(caption) {
            table {
                caption.unseen { (caption) }
                thead { tr { @for head in heads { (head_cell(head)) } } }
                tbody { (rows) }
            }
        }
    }
}

/// The head of a column. A column of links needs none.
fn head_cell(head: &str) -> Markup {
    html! { @if head.is_empty() { td {} } @else { th scope="col" { (head) } } }
}

/// A list without rows.
pub(crate) fn empty_note(is_empty: &EmptyList) -> Markup {
    html! { @if is_empty.0 { p.none { "Nothing here." } } }
}

/// Says where a list of deliveries ends that was longer once.
pub(crate) fn archived_note(before: Option<Timestamp>) -> Markup {
    html! {
        @if let Some(time) = before {
            p { "Deliveries before " (plain_time(time)) " have left: "
                code { "firmforms archive find" } " finds their events." }
        }
    }
}

/// Whether a list has no rows.
pub(crate) struct EmptyList(pub(crate) bool);

/// Names with values.
pub(crate) fn fact_list(facts: &[(&str, Markup)]) -> Markup {
    html! { dl.facts { @for (name, value) in facts { dt { (name) } dd { (value) } } } }
}

/// A heading with an anchor and its content.
pub(crate) fn section(anchor: &str, title: &str, content: &Markup) -> Markup {
    html! {
        section {
            h2 id=(anchor) { (title) }
            (content)
        }
    }
}

/// Links to the first page and the next one.
pub(crate) fn page_links(visit: &PageVisit, next: Option<&str>) -> Markup {
    let first = visit.query_value("after").map(|_| visit.link_with("after", None));
    let next = next.map(|next| visit.link_with("after", Some(next)));
    html! {
        nav.pages aria-label="Pages" {
            @if let Some(first) = first { a href=(first) rel="first" { "First page" } }
            @if let Some(next) = next { a href=(next) rel="next" { "Next page" } }
        }
    }
}

/// A filter of a list, by the name of the parameter.
pub(crate) enum ListFilter<'a> {
    /// A text, with an example.
    Text(&'a str, &'a str),
    /// One of some words.
    Choice(&'a str, &'a [&'a str]),
}

/// The filters of a list as a form whose address is the list.
pub(crate) fn filter_form(visit: &PageVisit, filters: &[ListFilter<'_>]) -> Markup {
    html! {
        form.filters method="get" action=(visit.path) {
            @for filter in filters { (filter.form_field(visit)) }
            button { "Show" }
            @if !visit.query.is_empty() { " " a href=(visit.path) { "All" } }
        }
    }
}

impl ListFilter<'_> {
    fn form_field(&self, visit: &PageVisit) -> Markup {
        match *self {
            Self::Text(name, example) => html! {
                label { (name) " "
                    input name=(name) value=[visit.query_value(name)] placeholder=(example)
                        autocomplete="off" spellcheck="false";
                }
            },
            Self::Choice(name, words) => html! {
                label { (name) " "
                    select name=(name) {
                        option value="" { "any" }
                        @for word in words {
                            option value=(word) selected[visit.query_value(name) == Some(word)] { (word) }
                        }
                    }
                }
            },
        }
    }
}

/// A command that a page offers.
pub(crate) struct OfferedCommand<'a> {
    /// The address of the command.
    pub(crate) action: &'a str,
    /// The words that open its form.
    pub(crate) name: &'a str,
    /// The effect, before anybody presses the button.
    pub(crate) effect: &'a str,
    /// More fields.
    pub(crate) fields: Markup,
}

/// The form of a command. It asks for a reason, which the log keeps.
pub(crate) fn command_form(visit: &PageVisit, offered: &OfferedCommand<'_>) -> Markup {
    html! {
        details.command {
            summary { (offered.name) }
            form method="post" action=(offered.action) {
                (frame::form_fields(visit))
                p { (offered.effect) }
                (offered.fields)
                (reason_field())
                button { (offered.name) }
            }
        }
    }
}

/// The field of a reason.
pub(crate) fn reason_field() -> Markup {
    html! {
        label { "Reason, kept in the audit log "
            input name="reason" required maxlength="200" autocomplete="off";
        }
    }
}

/// A hidden field.
pub(crate) fn hidden_field(name: &str, value: &(impl ToString + ?Sized)) -> Markup {
    html! { input type="hidden" name=(name) value=(value.to_string()); }
}

/// A share as a bar, with its numbers beside it.
pub(crate) fn share_bar(part: i64, whole: i64) -> Markup {
    let percent = if whole > 0 { (part * 100) / whole } else { 0 };
    html! {
        @if whole > 0 {
            svg.share viewBox="0 0 100 8" role="img" aria-label=(format!("{percent} percent")) {
                rect.whole width="100" height="8" {}
                rect.part width=(percent) height="8" {}
            }
            " " (part) " of " (whole)
        } @else { (no_value()) }
    }
}

/// Text as a part of a query.
pub(crate) fn encode_query(text: &str) -> String {
    url::form_urlencoded::byte_serialize(text.as_bytes()).collect()
}

/// A number with its bytes in a unit.
pub(crate) fn bytes_text(count: i64) -> String {
    let units = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    let unit = units.into_iter().find(|(size, _)| count.abs() >= *size);
    unit.map_or_else(|| format!("{count} B"), |(size, name)| format!("{} {name}", count / size))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case("2026-11-01T11:59:59Z", "1 s ago")]
    #[case("2026-11-01T12:00:00Z", "now")]
    #[case("2026-11-01T12:10:00Z", "in 10 min")]
    #[case("2026-10-31T12:00:00Z", "24 h ago")]
    #[case("2026-01-01T12:00:00Z", "304 days ago")]
    fn a_distance_has_one_unit(#[case] at: &str, #[case] expected: &str) {
        let now = "2026-11-01T12:00:00Z".parse().unwrap();
        assert_eq!(time_distance(at.parse().unwrap(), now), expected);
    }

    #[test]
    fn foreign_text_is_text() {
        let shown = foreign_text("<b>\u{202e}&\"").into_string();
        assert_eq!(shown, "<bdi>&lt;b&gt;\\u{202e}&amp;&quot;</bdi>");
    }

    #[test]
    fn long_ids_are_shown_by_their_ends() {
        assert_eq!(short_id("01a20f92-7c5f-7000-8000-00000000000a"), "01a20f92…00000a");
        assert_eq!(short_id("hooks.example"), "hooks.example");
        assert_eq!(short_id("éééééééééééééééé"), "éééééééééééééééé");
    }

    #[test]
    fn bytes_have_a_unit() {
        assert_eq!(
            [bytes_text(5), bytes_text(2_048), bytes_text(-3 << 20)],
            ["5 B", "2 KiB", "-3 MiB"]
        );
    }
}
