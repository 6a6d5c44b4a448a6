//! Lines of a table, of values separated by tabs, and of one object.

use serde_json::Value;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::cell::{Cell, Column, ColumnKind, Reading, Tone};

/// Blanks between two columns.
const GAP: usize = 2;

/// A text is not cut below this width.
const TEXT_WIDTH_MIN: usize = 16;

/// An absent value in a table.
const NONE: &str = "-";

/// The terminal that standard output leads to.
#[derive(Clone, Copy)]
pub(super) struct Screen {
    /// Unknown for a terminal that does not tell its size.
    pub(super) columns: Option<usize>,
    pub(super) reading: Reading,
}

/// The lines of a table on a terminal, headers first.
pub(super) fn table_lines(columns: &[Column], items: &[Value], screen: Screen) -> Vec<String> {
    let notes: Vec<Column> = of_kind(columns, |kind| kind == ColumnKind::Note);
    let columns: Vec<Column> = of_kind(columns, |kind| kind != ColumnKind::Note);
    let headers = columns
        .iter()
        .map(|column| Cell { text: column.label().to_uppercase(), tone: Tone::Title });
    let headers: Vec<Cell> = headers.collect();
    let row = |item| -> Vec<Cell> {
        columns.iter().map(|column| shown_or_none(*column, item, screen.reading)).collect()
    };
    let rows: Vec<Vec<Cell>> = items.iter().map(row).collect();
    let widths = column_widths(&columns, &headers, &rows, screen.columns);
    let line = |cells: &[Cell]| row_line(&columns, cells, &widths, screen.reading);
    let mut lines = vec![line(&headers)];
    for (item, cells) in items.iter().zip(&rows) {
        lines.push(line(cells));
        let notes = notes.iter().filter_map(|note| note.shown_cell(item, screen.reading));
        lines.extend(notes.map(|note| format!("  → {}", note.text)));
    }
    lines
}

/// The lines of a list for a program: no headers, tabs between the values.
pub(super) fn tab_separated(columns: &[Column], items: &[Value]) -> Vec<String> {
    let line = |item| columns.iter().map(|column| column.plain_text(item)).collect::<Vec<_>>();
    items.iter().map(|item| line(item).join("\t")).collect()
}

/// The lines of one object, without the fields that have no value.
pub(super) fn record_lines(fields: &[Column], item: &Value, reading: Reading) -> Vec<String> {
    let line = |field: &Column| {
        let Cell { text, tone } = field.shown_cell(item, reading)?;
        Some(format!("{}: {}", field.label(), reading.palette.paint(&text, tone)))
    };
    fields.iter().filter_map(line).collect()
}

fn of_kind(columns: &[Column], wanted: impl Fn(ColumnKind) -> bool) -> Vec<Column> {
    columns.iter().copied().filter(|column| wanted(column.kind)).collect()
}

fn shown_or_none(column: Column, item: &Value, reading: Reading) -> Cell {
    let none = || Cell { text: NONE.to_owned(), tone: Tone::Faint };
    column.shown_cell(item, reading).unwrap_or_else(none)
}

/// The width of each column: as wide as its widest value, and less for texts if the terminal is
/// narrow.
fn column_widths(
    columns: &[Column],
    headers: &[Cell],
    rows: &[Vec<Cell>],
    available: Option<usize>,
) -> Vec<usize> {
    let mut widths: Vec<usize> = headers.iter().map(|cell| cell.text.width()).collect();
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.text.width());
        }
    }
    if let Some(available) = available {
        narrow_texts(columns, &mut widths, available);
    }
    widths
}

/// Makes the widest texts narrower until the table fits, or no text can be cut.
fn narrow_texts(columns: &[Column], widths: &mut [usize], available: usize) {
    let gaps = GAP * columns.len().saturating_sub(1);
    loop {
        let surplus = (widths.iter().sum::<usize>() + gaps).saturating_sub(available);
        let texts = columns
            .iter()
            .zip(widths.iter_mut())
            .filter(|(column, width)| column.kind == ColumnKind::Text && **width > TEXT_WIDTH_MIN);
        let widest = texts.map(|(_, width)| width).max();
        match widest {
            Some(width) if surplus > 0 => *width -= surplus.min(*width - TEXT_WIDTH_MIN),
            _ => return,
        }
    }
}

/// One line. The last cell has no blanks behind it.
fn row_line(columns: &[Column], cells: &[Cell], widths: &[usize], reading: Reading) -> String {
    let mut line = String::new();
    for (index, (column, cell)) in columns.iter().zip(cells).enumerate() {
        let text = cut_text(&cell.text, widths[index], column.kind);
        let blanks = " ".repeat(widths[index].saturating_sub(text.width()));
        let text = reading.palette.paint(&text, cell.tone);
        let is_last = index + 1 == columns.len();
        if index > 0 {
            line.push_str(&" ".repeat(GAP));
        }
        match column.kind {
            ColumnKind::Number | ColumnKind::Bytes => line.extend([blanks, text]),
            _ if is_last => line.push_str(&text),
            _ => line.extend([text, blanks]),
        }
    }
    line
}

/// The text, cut to this width if it is a text.
fn cut_text(text: &str, width: usize, kind: ColumnKind) -> String {
    if kind != ColumnKind::Text || text.width() <= width {
        return text.to_owned();
    }
    let mut used = 1;
    let fits = |c: &char| {
        used += c.width().unwrap_or_default();
        used <= width
    };
    let kept: String = text.chars().take_while(fits).collect();
    kept + "…"
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;
    use serde_json::json;

    use super::super::cell::Palette;
    use super::*;

    const COLUMNS: &[Column] = &[
        Column::id("id"),
        Column::text("name"),
        Column::number("waiting"),
        Column::state("state"),
        Column::note("do"),
    ];

    fn items() -> Vec<Value> {
        vec![
            json!({"id": "a1", "name": "漢字の会社", "waiting": 7, "state": "failed", "do": "look"}),
            json!({"id": "b22", "name": "Harrow & Lane of Manchester", "waiting": 1_200}),
        ]
    }

    fn screen(columns: Option<usize>) -> Screen {
        let now = Some(DateTime::UNIX_EPOCH);
        Screen { columns, reading: Reading { now, palette: Palette::Plain } }
    }

    #[test]
    fn a_table_is_aligned_by_shown_width() {
        let lines = table_lines(COLUMNS, &items(), screen(None));
        let expected = [
            "ID   NAME                         WAITING  STATE",
            "a1   漢字の会社                         7  failed",
            "  → look",
            "b22  Harrow & Lane of Manchester     1200  -",
        ];
        assert_eq!(lines, expected);
    }

    #[test]
    fn a_narrow_terminal_cuts_no_ids() {
        let lines = table_lines(COLUMNS, &items(), screen(Some(40)));
        assert_eq!(lines[3], "b22  Harrow & Lane of …     1200  -");
        assert!(lines.iter().all(|line| line.width() <= 40), "{lines:?}");
        let least = table_lines(COLUMNS, &items(), screen(Some(3)));
        assert_eq!(least[3], "b22  Harrow & Lane o…     1200  -");
    }

    #[test]
    fn a_program_reads_values_between_tabs() {
        let lines = tab_separated(COLUMNS, &items());
        assert_eq!(lines[0], "a1\t漢字の会社\t7\tfailed\tlook");
        assert_eq!(lines[1], "b22\tHarrow & Lane of Manchester\t1200\t\t");
    }

    #[test]
    fn an_object_has_a_line_per_value() {
        let lines = record_lines(COLUMNS, &items()[1], Reading::PLAIN);
        assert_eq!(lines, ["id: b22", "name: Harrow & Lane of Manchester", "waiting: 1200"]);
    }
}
