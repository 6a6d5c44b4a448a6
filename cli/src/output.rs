//! The output of commands. Foreign text is escaped before a terminal sees it. If the reader closes
//! the pipe (`| head`), the command ends quietly.

use std::io::{self, ErrorKind, Stdout, Write, stdout};

use domain::printable::{printable, printable_json};
use serde_json::Value;

use crate::args::OutputArgs;

/// Prints one JSON array, or a line with these fields for each item.
pub(crate) fn print(OutputArgs { json }: OutputArgs, items: Vec<Value>, fields: &[&str]) {
    if json {
        return print_json(&Value::Array(items));
    }
    for item in items {
        let line: Vec<String> = fields
            .iter()
            .map(|field| match &item[*field] {
                Value::String(text) => text.clone(),
                Value::Null => "-".to_owned(),
                other => other.to_string(),
            })
            .collect();
        print_line(&line.join("  "));
    }
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
    write_line(&printable(line));
}

/// Prints our own text of several lines.
pub(crate) fn print_text(text: &str) {
    text.split('\n').for_each(print_line);
}

/// Tells the operator something beside the output, on one line.
pub(crate) fn print_note(line: &str) {
    // Without a reader of errors nothing can be told.
    let _ = writeln!(io::stderr(), "{}", printable(line));
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
