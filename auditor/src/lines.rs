//! Writes entries as lines: CSV (RFC 4180) for spreadsheets, JSON lines for programs.

use std::borrow::Cow;
use std::io::Write;

use domain::values::{Timestamp, printable_json, printable_text};
use projector::audit::{ChainSpan, EntryRow, list_span};
use serde_json::{Value, json};
use sqlx::PgPool;

use crate::bundle::ExportSelection;
use crate::error::AuditError;

/// Entries in one read.
const ENTRIES_PER_PAGE: i64 = 1_000;

/// Writes the selected entries; `line` formats an entry. Calls `progress` with the entries written
/// so far and the entries in all. Without selected entries it writes nothing.
///
/// # Errors
/// If the period ends before it begins, the database does not answer, or the file cannot be
/// written.
pub async fn export(
    pool: &PgPool,
    selection: ExportSelection,
    line: fn(&EntryRow) -> String,
    mut to: impl Write + Send,
    progress: impl Fn(u64, u64) + Send,
) -> Result<(), AuditError> {
    selection.period()?;
    let mut connection = pool.acquire().await?;
    let Some(span) = selection.find_span(&mut connection).await? else {
        return Ok(to.flush()?);
    };
    let mut next = span.first;
    while next <= span.last {
        let page = ChainSpan { first: next, last: span.last.min(next + ENTRIES_PER_PAGE - 1) };
        for row in list_span(&mut connection, selection.firm_id, page).await? {
            to.write_all(line(&row).as_bytes())?;
        }
        next = page.last + 1;
        let all = (span.last - span.first + 1).cast_unsigned();
        progress((next - span.first).cast_unsigned(), all);
    }
    Ok(to.flush()?)
}

/// The first line of a CSV file.
pub const CSV_HEADER: &str = "sequence,at,action,actor_kind,actor_id,subject_kind,subject_id,reason,\
                              evidence,position,hash,previous_hash\r\n";

/// An entry as a line of a CSV file.
#[must_use]
pub fn csv(row: &EntryRow) -> String {
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    let fields = [
        row.sequence.to_string(),
        Timestamp::from(row.at).to_string(),
        row.action.clone(),
        row.actor_kind.clone(),
        text(&row.actor_id),
        row.subject_kind.clone(),
        text(&row.subject_id),
        text(&row.reason),
        row.evidence.to_string(),
        row.position.to_string(),
        hex::encode(row.hash),
        hex::encode(row.previous_hash),
    ];
    csv_line(&fields)
}

/// Fields as a line of a CSV file.
#[must_use]
pub fn csv_line(fields: &[impl AsRef<str>]) -> String {
    let quoted: Vec<String> = fields.iter().map(|field| quote_field(field.as_ref())).collect();
    quoted.join(",") + "\r\n"
}

/// The first characters of a formula, full-width ones too.
const FORMULA_SIGNS: [char; 8] = ['=', '+', '-', '@', '＝', '＋', '－', '＠'];

/// Quotes a field, so that no program splits it or runs it as a formula. Spreadsheets of some
/// countries split a field at semicolons in spite of the quotes. So each part between semicolons
/// that could be a formula gets an apostrophe in front.
fn quote_field(field: &str) -> String {
    let printable = printable_text(field);
    let parts: Vec<_> = printable.split(';').map(escape_formula).collect();
    let field = parts.join(";");
    if field.contains([',', '"', ';']) {
        return format!("\"{}\"", field.replace('"', "\"\""));
    }
    field
}

fn escape_formula(part: &str) -> Cow<'_, str> {
    let is_formula = part.trim_start_matches([' ', '"']).starts_with(FORMULA_SIGNS);
    if is_formula { format!("'{part}").into() } else { part.into() }
}

/// An entry as JSON, as commands and the internal API show it.
#[must_use]
pub fn entry_json(row: &EntryRow) -> Value {
    json!({
        "sequence": row.sequence, "at": Timestamp::from(row.at), "action": row.action,
        "actor": {"kind": row.actor_kind, "id": row.actor_id},
        "subject": {"kind": row.subject_kind, "id": row.subject_id},
        "reason": row.reason, "evidence": row.evidence,
        "hash": hex::encode(row.hash), "previous_hash": hex::encode(row.previous_hash),
    })
}

/// An entry as a line of JSON, with the bytes that are hashed.
#[must_use]
pub fn ndjson(row: &EntryRow) -> String {
    finish_line(entry_json(row), row)
}

/// An entry as a line of a feed: [`ndjson`] with the entry's firm, its position, and the cursor
/// from which a reader continues.
#[must_use]
pub fn feed(row: &EntryRow, cursor: i64) -> String {
    let mut line = entry_json(row);
    line["firm_id"] = json!(row.firm_id);
    line["position"] = row.position.into();
    line["cursor"] = cursor.into();
    finish_line(line, row)
}

/// Adds the bytes that are hashed, and the end of the line.
fn finish_line(mut line: Value, row: &EntryRow) -> String {
    line["entry"] = String::from_utf8_lossy(&row.entry).into();
    format!("{}\n", printable_json(&line.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_never_a_formula() {
        assert_eq!(quote_field("plain"), "plain");
        assert_eq!(quote_field(r#"a "b", c"#), r#""a ""b"", c""#);
        assert_eq!(quote_field("=1+1"), "'=1+1");
    }

    /// A formula can begin behind a semicolon, and in full width.
    #[test]
    fn no_part_of_fields_is_a_formula() {
        for (field, safe) in [
            ("x;=cmd|' /C calc'!A0;y", "\"x;'=cmd|' /C calc'!A0;y\""),
            ("x; \"=1\"", "\"x;' \"\"=1\"\"\""),
            ("＝1+1", "'＝1+1"),
            ("＋1", "'＋1"),
            ("－1", "'－1"),
            ("＠a", "'＠a"),
            ("a;b", "\"a;b\""),
        ] {
            assert_eq!(quote_field(field), safe, "{field}");
        }
    }

    #[test]
    fn a_field_is_printable_on_one_line() {
        assert_eq!(quote_field("a\r\n=1\t\u{1b}[2J\u{202e}"), "a\\r\\n=1\\t\\u{1b}[2J\\u{202e}");
    }
}
