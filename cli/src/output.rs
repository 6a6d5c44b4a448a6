//! The output of commands. A command collects its rows once, as JSON objects, and this module
//! prints them.
//!
//! | Where or how | A list ([`ListTable`]) | One object ([`RecordView`]) |
//! |-|-|-|
//! | terminal | aligned columns with headers | lines `label: value` |
//! | pipe, file | values separated by tabs, no header | lines `label: value` |
//! | `--json` | one array of the whole objects | the whole object |
//! | `--quiet` | one id per line | the id, or the secret |
//!
//! ```text
//! const COLUMNS: &[Column] = &[Column::id("id"), Column::state("status"), Column::text("name")];
//! ListTable::new(COLUMNS, "no firms yet").print(how, items);
//! RecordView::new(COLUMNS).print(how, item);
//! ```
//!
//! `how` is an [`OutputArgs`], flattened into the command's arguments. A column names a field of
//! the objects, and its kind: a time has its age beside it on a terminal, a state has a colour
//! there.
//! Only a `text` is cut to fit the terminal. An empty list says its sentence on standard error.
//!
//! [`print_line`], [`print_json`] and [`print_note`] are for all other output. Foreign text is
//! escaped before a terminal sees it. If the reader closes the pipe (`| head`), the command ends
//! quietly.

mod age;
mod cell;
mod layout;
mod size;

use std::io::{self, ErrorKind, IsTerminal, Stdout, Write, stdout};

use anstream::AutoStream;
use chrono::{DateTime, Utc};
use clap::{Args, ColorChoice};
use domain::values::{printable_json, printable_text};
use serde_json::Value;

pub(crate) use self::cell::{Column, Tone};
use self::cell::{Palette, Reading};
use self::layout::Screen;

/// The form of the output of a list or of one object.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct OutputArgs {
    /// Print JSON: an array for a list, an object for a single thing.
    #[arg(long, conflicts_with = "quiet", help_heading = "Output")]
    pub(crate) json: bool,
    /// Print ids only, one per line; for a new secret the secret alone.
    #[arg(long, short, help_heading = "Output")]
    pub(crate) quiet: bool,
}

/// The form of a report that has no ids.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct ReportArgs {
    /// Print JSON.
    #[arg(long, help_heading = "Output")]
    pub(crate) json: bool,
}

impl OutputArgs {
    /// Whether a person or a pipe reads text.
    pub(crate) const fn is_text(self) -> bool {
        !self.json && !self.quiet
    }
}

impl From<ReportArgs> for OutputArgs {
    fn from(ReportArgs { json }: ReportArgs) -> Self {
        Self { json, quiet: false }
    }
}

/// A list of objects.
pub(crate) struct ListTable {
    columns: &'static [Column],
    empty: &'static str,
}

impl ListTable {
    /// A list with these columns. The sentence is told when the list is empty.
    pub(crate) const fn new(columns: &'static [Column], empty: &'static str) -> Self {
        Self { columns, empty }
    }

    pub(crate) fn print(&self, how: OutputArgs, items: Vec<Value>) {
        if how.json {
            return print_json(&Value::Array(items));
        }
        if how.quiet {
            let id = Column::quiet_of(self.columns);
            return items.iter().for_each(|item| write_line(&id.plain_text(item)));
        }
        if items.is_empty() {
            return print_note(self.empty);
        }
        let lines = match terminal_screen() {
            Some(screen) => layout::table_lines(self.columns, &items, screen),
            None => layout::tab_separated(self.columns, &items),
        };
        lines.iter().for_each(|line| write_line(line));
    }
}

/// One object.
pub(crate) struct RecordView {
    fields: &'static [Column],
    quiet: Option<Column>,
}

impl RecordView {
    /// An object with these fields. A field without a value is not shown.
    pub(crate) const fn new(fields: &'static [Column]) -> Self {
        Self { fields, quiet: None }
    }

    /// The field that `--quiet` prints. By default it is the first id.
    pub(crate) const fn quiet_field(self, field: &'static str) -> Self {
        Self { quiet: Some(Column::text(field)), ..self }
    }

    pub(crate) fn print(&self, how: OutputArgs, item: &Value) {
        if how.json {
            return print_json(item);
        }
        if how.quiet {
            return write_line(
                &self.quiet.unwrap_or(Column::quiet_of(self.fields)).plain_text(item),
            );
        }
        let unseen = Reading { palette: output_palette(), ..Reading::PLAIN };
        let reading = terminal_screen().map_or(unseen, |screen| screen.reading);
        layout::record_lines(self.fields, item, reading).iter().for_each(|line| write_line(line));
    }
}

/// The terminal, if a person reads standard output.
fn terminal_screen() -> Option<Screen> {
    if !stdout().is_terminal() {
        return None;
    }
    let size = terminal_size::terminal_size();
    let columns = size.map(|(width, _)| usize::from(width.0)).filter(|columns| *columns > 0);
    Some(Screen {
        columns,
        reading: Reading { now: Some(current_time()), palette: output_palette() },
    })
}

/// The time of the person at this terminal.
#[expect(clippy::disallowed_methods, reason = "ages are for the person at this terminal, now")]
pub(crate) fn current_time() -> DateTime<Utc> {
    Utc::now()
}

/// Sets the wish of `--color` for the whole process.
pub(crate) fn choose_colour(choice: ColorChoice) {
    let choice = match choice {
        ColorChoice::Auto => anstream::ColorChoice::Auto,
        ColorChoice::Always => anstream::ColorChoice::Always,
        ColorChoice::Never => anstream::ColorChoice::Never,
    };
    choice.write_global();
}

/// Whether standard output has colours: `--color`, then `NO_COLOR` and `CLICOLOR`, then whether it
/// is a terminal.
fn output_palette() -> Palette {
    match AutoStream::choice(&stdout()) {
        anstream::ColorChoice::Never => Palette::Plain,
        _ => Palette::Coloured,
    }
}

/// Whether standard error has colours.
pub(crate) fn is_error_coloured() -> bool {
    AutoStream::choice(&io::stderr()) != anstream::ColorChoice::Never
}

/// A word in the colour of its state, for a line of a report.
pub(crate) fn tone_word(word: &str, tone: Tone) -> String {
    output_palette().paint(&printable_text(word), tone)
}

/// Prints JSON over several lines.
pub(crate) fn print_json(value: &Value) {
    print_json_text(&format!("{value:#}"));
}

/// Prints JSON that is text already.
pub(crate) fn print_json_text(json: &str) {
    write_line(&printable_json(json));
}

/// Prints one line.
pub(crate) fn print_line(line: &str) {
    write_line(&printable_text(line));
}

/// Prints a verdict in its colour, and the rest of its line.
pub(crate) fn print_verdict(word: &str, tone: Tone, rest: &str) {
    write_line(&format!("{}{}", tone_word(word, tone), printable_text(rest)));
}

/// Prints our own text of several lines.
pub(crate) fn print_text(text: &str) {
    text.split('\n').for_each(print_line);
}

/// Tells the operator something beside the output, on one line.
pub(crate) fn print_note(line: &str) {
    // Without a reader of errors nothing can be told.
    let _ = writeln!(io::stderr(), "{}", printable_text(line));
}

fn write_line(line: &str) {
    // A terminal that is gone is the operator's.
    if writeln!(Output::new(), "{line}").is_err() {
        std::process::exit(1);
    }
}

/// Standard output, for lines that are safe to print.
pub(crate) struct Output(Stdout);

impl Output {
    pub(crate) fn new() -> Self {
        Self(stdout())
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        unless_closed(self.0.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        unless_closed(self.0.flush())
    }
}

/// Ends the process if the reader has closed the pipe.
fn unless_closed<T>(written: io::Result<T>) -> io::Result<T> {
    if written.as_ref().is_err_and(|error| error.kind() == ErrorKind::BrokenPipe) {
        std::process::exit(0);
    }
    written
}
