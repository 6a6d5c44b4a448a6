//! Reads the script that `pg_restore` makes of a dump: rows of tables, and values of sequences. All
//! other lines are passed over, because nothing of a script is executed. A dump that went through
//! other hands can have any statement, also in the entries of its rows.

use anyhow::{Context, bail, ensure};
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};

/// Bytes of rows that are handed out together.
const ROWS_BYTES: usize = 1 << 16;

/// Bytes that are read from the program at once.
const READ_BYTES: usize = 1 << 18;

/// The line after the last row of a table.
const END_OF_ROWS: &[u8] = b"\\.\n";

/// A part of a script that a restore takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ScriptPart {
    /// The rows of a table follow.
    Rows(TableRows),
    /// A sequence had this value.
    Sequence(SequenceValue),
}

/// The rows of a table, which follow in the script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TableRows {
    /// The table, with its schema as the script writes it.
    pub(super) table: String,
    /// The columns of each row, in their order.
    pub(super) columns: Vec<String>,
}

/// The value of a sequence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SequenceValue {
    /// The sequence, with its schema as the script writes it.
    pub(super) sequence: String,
    pub(super) last: i64,
    pub(super) is_called: bool,
}

/// The script of a dump.
pub(super) struct DumpScript<R> {
    lines: BufReader<R>,
    place: ScriptPlace,
}

/// The place of the next line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ScriptPlace {
    BetweenParts,
    InRows,
}

impl<R: AsyncRead + Unpin> DumpScript<R> {
    pub(super) fn new(script: R) -> Self {
        let lines = BufReader::with_capacity(READ_BYTES, script);
        Self { lines, place: ScriptPlace::BetweenParts }
    }

    /// The next part. Rows of a table that were not taken are passed over.
    pub(super) async fn next_part(&mut self) -> anyhow::Result<Option<ScriptPart>> {
        while self.next_rows().await?.is_some() {}
        let mut line = Vec::new();
        loop {
            line.clear();
            if self.lines.read_until(b'\n', &mut line).await? == 0 {
                return Ok(None);
            }
            match parse_part(&line)? {
                Some(ScriptPart::Rows(rows)) => {
                    self.place = ScriptPlace::InRows;
                    return Ok(Some(ScriptPart::Rows(rows)));
                }
                Some(part) => return Ok(Some(part)),
                None => {}
            }
        }
    }

    /// The next rows of the table, as the script has them. `None` after the last row.
    pub(super) async fn next_rows(&mut self) -> anyhow::Result<Option<Vec<u8>>> {
        let mut rows = Vec::with_capacity(ROWS_BYTES);
        while self.place == ScriptPlace::InRows && rows.len() < ROWS_BYTES {
            let begin = rows.len();
            let read = self.lines.read_until(b'\n', &mut rows).await?;
            ensure!(read > 0, "the dump ends within the rows of a table");
            if &rows[begin..] == END_OF_ROWS {
                rows.truncate(begin);
                self.place = ScriptPlace::BetweenParts;
            }
        }
        Ok(Some(rows).filter(|rows| !rows.is_empty()))
    }
}

/// The part that a line begins. `None` for a line that a restore passes over.
fn parse_part(line: &[u8]) -> anyhow::Result<Option<ScriptPart>> {
    if line.starts_with(b"COPY ") {
        let text = std::str::from_utf8(line).context("a COPY of the dump")?;
        return match parse_copy(text) {
            Some(rows) => Ok(Some(ScriptPart::Rows(rows))),
            // Nobody can tell where the rows after it end.
            None => bail!("the dump has a COPY of another form: {}", text.trim_end()),
        };
    }
    let text = std::str::from_utf8(line).unwrap_or_default();
    Ok(parse_sequence(text).map(ScriptPart::Sequence))
}

/// Parses `COPY public.hooks (hook_id, "position") FROM stdin;`.
fn parse_copy(line: &str) -> Option<TableRows> {
    let target = line.strip_prefix("COPY ")?.strip_suffix(" FROM stdin;\n")?;
    // A table without columns has no list.
    let (table, columns) = target.split_once(" (").unwrap_or((target.trim_end(), ")"));
    let columns = columns.strip_suffix(')')?.split(", ").filter(|column| !column.is_empty());
    Some(TableRows { table: unquote_name(table), columns: columns.map(unquote_name).collect() })
}

/// Parses `SELECT pg_catalog.setval('public.events_position_seq', 41, true);`.
fn parse_sequence(line: &str) -> Option<SequenceValue> {
    let call = line.strip_prefix("SELECT pg_catalog.setval('")?.strip_suffix(");\n")?;
    let (sequence, values) = call.split_once("', ")?;
    let (last, is_called) = values.split_once(", ")?;
    Some(SequenceValue {
        sequence: unquote_name(sequence),
        last: last.parse().ok()?,
        is_called: is_called.parse().ok()?,
    })
}

/// A name without its quotation marks. No name of this program needs any, so another name stays
/// unknown.
fn unquote_name(name: &str) -> String {
    name.replace('"', "")
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn parts(script: &str) -> anyhow::Result<Vec<(ScriptPart, String)>> {
        let mut script = DumpScript::new(script.as_bytes());
        let mut parts = Vec::new();
        while let Some(part) = script.next_part().await? {
            let mut rows = Vec::new();
            while let Some(some) = script.next_rows().await? {
                rows.extend(some);
            }
            parts.push((part, String::from_utf8(rows)?));
        }
        Ok(parts)
    }

    fn rows(table: &str, columns: &[&str]) -> ScriptPart {
        let columns = columns.iter().map(|&column| column.to_owned()).collect();
        ScriptPart::Rows(TableRows { table: table.to_owned(), columns })
    }

    #[tokio::test]
    async fn a_script_gives_rows_and_sequences() {
        let script = "--\n-- PostgreSQL database dump\n--\nSET client_encoding = 'UTF8';\n\
            SELECT evil();\nCREATE TABLE other (a int);\n\
            COPY public.events (\"position\", payload) FROM stdin;\n1\t{}\n2\tCOPY a FROM stdin;\n\\.\n\n\n\
            COPY public.hooks (hook_id) FROM stdin;\n\\.\n\n\
            SELECT pg_catalog.setval('public.events_position_seq', 41, true);\n\
            SELECT pg_catalog.setval('public.a', 1, true); drop table events;\n\
            REFRESH MATERIALIZED VIEW public.evil;\n";
        let sequence = "public.events_position_seq".to_owned();
        let value = SequenceValue { sequence, last: 41, is_called: true };
        let expected = [
            (rows("public.events", &["position", "payload"]), "1\t{}\n2\tCOPY a FROM stdin;\n"),
            (rows("public.hooks", &["hook_id"]), ""),
            (ScriptPart::Sequence(value), ""),
        ];
        let expected = expected.map(|(part, rows)| (part, rows.to_owned()));
        assert_eq!(parts(script).await.unwrap(), expected);
    }

    #[tokio::test]
    async fn a_copy_of_another_form_is_refused() {
        for copy in [
            "COPY public.firms (a) FROM PROGRAM 'id';\n",
            "COPY public.firms (a) FROM stdin; drop table firms;\n",
            "COPY public.firms (a) TO stdout;\n",
            "COPY public.firms (a) FROM stdin",
        ] {
            let refused = parts(copy).await.unwrap_err().to_string();
            assert!(refused.contains("of another form"), "{copy}: {refused}");
        }
        let cut = parts("COPY public.firms (a) FROM stdin;\n1\n").await.unwrap_err();
        assert!(cut.to_string().contains("ends within the rows"), "{cut}");
    }

    #[tokio::test]
    async fn rows_that_nobody_takes_are_passed_over() {
        let text =
            "COPY evil.rows (a) FROM stdin;\n1\n\\.\nCOPY public.hooks (b) FROM stdin;\n2\n\\.\n";
        let mut script = DumpScript::new(text.as_bytes());
        assert_eq!(script.next_part().await.unwrap(), Some(rows("evil.rows", &["a"])));
        assert_eq!(script.next_part().await.unwrap(), Some(rows("public.hooks", &["b"])));
        assert_eq!(script.next_rows().await.unwrap(), Some(b"2\n".to_vec()));
        assert_eq!(script.next_part().await.unwrap(), None);
    }

    #[tokio::test]
    async fn many_rows_come_in_pieces() {
        let many = "a row that is as long as it is\n".repeat(10_000);
        let script = format!("COPY public.hooks (a) FROM stdin;\n{many}\\.\n");
        assert_eq!(parts(&script).await.unwrap(), [(rows("public.hooks", &["a"]), many)]);
    }
}
