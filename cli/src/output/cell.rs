//! One value of an object, as text: its label, its spelling and its colour.

use std::borrow::Cow;

use anstyle::{AnsiColor, Style};
use chrono::{DateTime, Utc};
use domain::values::{Timestamp, printable_text};
use serde_json::Value;

use super::age::age_text;
use super::size::size_text;

/// A field of the objects, and how its values are printed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Column {
    field: &'static str,
    pub(super) kind: ColumnKind,
}

/// The kind of a column's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ColumnKind {
    /// Never cut.
    Id,
    /// Cut to fit a terminal.
    Text,
    /// Never cut, and in the last column.
    Prose,
    /// A word with a colour.
    State,
    /// Aligned to the right.
    Number,
    /// A number of bytes, in a large unit on a terminal.
    Bytes,
    /// RFC 3339, with the age beside it on a terminal.
    Time,
    /// The age alone on a terminal, RFC 3339 elsewhere.
    Age,
    /// A line of its own below the row on a terminal.
    Note,
}

impl Column {
    /// An id. It is never cut, and `--quiet` prints the first one.
    pub(crate) const fn id(field: &'static str) -> Self {
        Self { field, kind: ColumnKind::Id }
    }

    /// A text. It is cut if the terminal is narrow.
    pub(crate) const fn text(field: &'static str) -> Self {
        Self { field, kind: ColumnKind::Text }
    }

    /// A sentence, for the last column. It is never cut.
    pub(crate) const fn prose(field: &'static str) -> Self {
        Self { field, kind: ColumnKind::Prose }
    }

    /// A state, a verdict or an outcome: one word, with a colour.
    pub(crate) const fn state(field: &'static str) -> Self {
        Self { field, kind: ColumnKind::State }
    }

    /// A number.
    pub(crate) const fn number(field: &'static str) -> Self {
        Self { field, kind: ColumnKind::Number }
    }

    /// A number of bytes: with its unit on a terminal, exact elsewhere.
    pub(crate) const fn bytes(field: &'static str) -> Self {
        Self { field, kind: ColumnKind::Bytes }
    }

    /// A time, with its age on a terminal.
    pub(crate) const fn time(field: &'static str) -> Self {
        Self { field, kind: ColumnKind::Time }
    }

    /// A less important time: only its age on a terminal.
    pub(crate) const fn age(field: &'static str) -> Self {
        Self { field, kind: ColumnKind::Age }
    }

    /// An advice. On a terminal it is a line below the row, if the row has one.
    pub(crate) const fn note(field: &'static str) -> Self {
        Self { field, kind: ColumnKind::Note }
    }

    /// The column that `--quiet` prints: the first id, or else the first column.
    pub(super) fn quiet_of(columns: &[Self]) -> Self {
        let id = columns.iter().find(|column| column.kind == ColumnKind::Id);
        *id.or(columns.first()).unwrap_or(&Self::id("id"))
    }

    /// The words of the field: `last used` for `last_used_at`, `hook` for `hook_id`.
    pub(super) fn label(self) -> String {
        let words = self.field.strip_suffix("_at").or_else(|| self.field.strip_suffix("_id"));
        words.unwrap_or(self.field).replace('_', " ")
    }

    /// The value for a program: exact, and empty for none.
    pub(super) fn plain_text(self, item: &Value) -> String {
        printable_text(&value_text(&item[self.field])).into_owned()
    }

    /// The value for a person; `None` for none.
    pub(super) fn shown_cell(self, item: &Value, reading: Reading) -> Option<Cell> {
        let value = &item[self.field];
        let plain = self.plain_text(item);
        if plain.is_empty() {
            return None;
        }
        let tone = if self.kind == ColumnKind::State { Tone::new(&plain) } else { Tone::Neutral };
        Some(Cell { text: self.text_with_age(value, plain, reading), tone })
    }

    fn text_with_age(self, value: &Value, plain: String, reading: Reading) -> String {
        let at = || value.as_str().and_then(|text| text.parse::<Timestamp>().ok());
        let Some(now) = reading.now else { return plain };
        match self.kind {
            ColumnKind::Time => match at() {
                Some(at) => format!("{plain} ({})", age_text(now, at.get())),
                None => plain,
            },
            ColumnKind::Bytes => value.as_i64().map_or(plain, size_text),
            ColumnKind::Age => at().map_or(plain, |at| age_text(now, at.get())),
            ColumnKind::Id
            | ColumnKind::Text
            | ColumnKind::Prose
            | ColumnKind::State
            | ColumnKind::Number
            | ColumnKind::Note => plain,
        }
    }
}

/// The text of a value: lists and objects in words, empty for none.
fn value_text(value: &Value) -> Cow<'_, str> {
    match value {
        Value::Null => "".into(),
        Value::String(text) => text.into(),
        Value::Bool(true) => "yes".into(),
        Value::Bool(false) => "no".into(),
        Value::Number(number) => number.to_string().into(),
        Value::Array(items) => items.iter().map(value_text).collect::<Vec<_>>().join(", ").into(),
        Value::Object(items) => {
            let items = items.iter().map(|(name, value)| format!("{name} {}", value_text(value)));
            items.collect::<Vec<_>>().join(", ").into()
        }
    }
}

/// The text of a cell, and its colour.
pub(super) struct Cell {
    pub(super) text: String,
    pub(super) tone: Tone,
}

/// The reader of the output: a program, or a person now.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reading {
    /// `None` for a program, which reads no ages.
    pub(super) now: Option<DateTime<Utc>>,
    pub(super) palette: Palette,
}

impl Reading {
    pub(super) const PLAIN: Self = Self { now: None, palette: Palette::Plain };
}

/// The meaning of a colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tone {
    /// Green.
    Good,
    /// Yellow.
    Caution,
    /// Red.
    Bad,
    /// Dim: past, or of no concern.
    Faint,
    /// Bold: a header.
    Title,
    /// No colour.
    Neutral,
}

impl Tone {
    /// The tone of a state's word.
    fn new(word: &str) -> Self {
        match word {
            "delivered" | "fine" | "active" | "live" | "open" | "intact" | "proven" | "equal"
            | "rebuilt" | "running" | "finished" | "published" | "ok" => Self::Good,
            "pending" | "notice" | "warned" | "paused" | "suspended" | "repaired"
            | "interrupted" | "waiting" | "draft" => Self::Caution,
            "failed" | "wrong" | "broken" | "differs" | "refused" | "failing" => Self::Bad,
            "cancelled" | "removed" | "revoked" | "closed" | "expired" | "stopped" | "skipped"
            | "disabled" | "left" | "deleted" => Self::Faint,
            _ => Self::Neutral,
        }
    }

    const fn style(self) -> Style {
        match self {
            Self::Good => AnsiColor::Green.on_default(),
            Self::Caution => AnsiColor::Yellow.on_default(),
            Self::Bad => AnsiColor::Red.on_default().bold(),
            Self::Faint => Style::new().dimmed(),
            Self::Title => Style::new().bold(),
            Self::Neutral => Style::new(),
        }
    }
}

/// Whether the output has colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Palette {
    Plain,
    Coloured,
}

impl Palette {
    /// The text in the colour of its tone.
    pub(super) fn paint(self, text: &str, tone: Tone) -> String {
        if self == Self::Plain || tone == Tone::Neutral {
            return text.to_owned();
        }
        let style = tone.style();
        format!("{style}{text}{style:#}")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_label_has_its_fields_words() {
        for (field, label) in [
            ("last_used_at", "last used"),
            ("hook_id", "hook"),
            ("paused_by", "paused by"),
            ("id", "id"),
        ] {
            assert_eq!(Column::text(field).label(), label);
        }
    }

    /// Foreign text is escaped.
    #[test]
    fn lists_and_objects_become_words() {
        let item = json!({"a": ["x", 2], "o": {"failed": 1, "late": true}, "n": null, "t": "\t"});
        let plain = |field| Column::text(field).plain_text(&item);
        assert_eq!(["a", "o", "n", "t"].map(plain), ["x, 2", "failed 1, late yes", "", "\\t"]);
    }

    #[test]
    fn people_read_ages_and_programs_times() {
        let item = json!({"at": "2026-11-01T12:00:00.000Z", "state": "failed"});
        let now = "2026-11-01T12:03:00Z".parse::<Timestamp>().unwrap().get();
        let person = Reading { now: Some(now), palette: Palette::Coloured };
        let shown = |column: Column, reading| column.shown_cell(&item, reading).unwrap().text;
        assert_eq!(shown(Column::time("at"), person), "2026-11-01T12:00:00.000Z (3 min ago)");
        assert_eq!(shown(Column::age("at"), person), "3 min ago");
        assert_eq!(shown(Column::age("at"), Reading::PLAIN), "2026-11-01T12:00:00.000Z");
        assert!(Column::text("none").shown_cell(&item, person).is_none());
        let painted = Palette::Coloured.paint("failed", Tone::new("failed"));
        assert!(painted.starts_with("\u{1b}[") && painted.ends_with("\u{1b}[0m"), "{painted:?}");
        assert_eq!(Palette::Plain.paint("failed", Tone::Bad), "failed");
    }
}
