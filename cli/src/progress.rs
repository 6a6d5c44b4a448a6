//! The progress of a long command: how much is done, the rate, and the time left. It is told on
//! standard error, and not before a command has taken two seconds.
//!
//! | Where or how | Form |
//! |-|-|
//! | terminal | a bar |
//! | `--json` | one line of JSON each second |
//! | else | nothing |

use std::io::{IsTerminal, stderr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::{Value, json};

use crate::output::{OutputArgs, print_note};

/// A quicker command tells nothing.
const QUIET_FOR: Duration = Duration::from_secs(2);

/// The bar of a command that knows its end.
const BAR: &str = "{bar:40} {human_pos} of {human_len} {msg}, {per_sec}, {eta} left";

/// The line of a command that does not.
const COUNT: &str = "{spinner} {human_pos} {msg}, {per_sec}";

/// The form in which progress is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ProgressForm {
    Bar,
    Lines,
    Nothing,
}

/// The progress of one command.
#[derive(Debug)]
pub(crate) struct Progress {
    bar: ProgressBar,
    form: ProgressForm,
    /// The things that are counted, such as `events`.
    unit: &'static str,
    /// The second of the last line.
    told: AtomicU64,
}

impl Progress {
    /// The progress of a command whose result is printed so.
    pub(crate) fn new(unit: &'static str, how: OutputArgs) -> Self {
        let form = match (how.json, stderr().is_terminal()) {
            (true, _) => ProgressForm::Lines,
            (false, true) => ProgressForm::Bar,
            (false, false) => ProgressForm::Nothing,
        };
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
        Self { bar: bar.with_message(unit), form, unit, told: AtomicU64::new(0) }
    }

    /// Tells that this much is done of all. Zero of all means that the end is not known.
    pub(crate) fn advance_to(&self, done: u64, all: u64) {
        if all > 0 {
            self.bar.set_length(all);
        }
        self.bar.set_position(done);
        let elapsed = self.bar.elapsed();
        if elapsed < QUIET_FOR {
            return;
        }
        match self.form {
            ProgressForm::Bar => self.show_bar(),
            ProgressForm::Lines => self.print_status(elapsed.as_secs()),
            ProgressForm::Nothing => {}
        }
    }

    /// The same for positions of the log.
    pub(crate) fn at_position(&self, done: i64, all: i64) {
        self.advance_to(done.cast_unsigned(), all.cast_unsigned());
    }

    /// Takes the bar away.
    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
    }

    /// Shows the bar from now on.
    fn show_bar(&self) {
        if self.told.swap(1, Ordering::Relaxed) == 1 {
            return;
        }
        let form = if self.bar.length().is_some() { BAR } else { COUNT };
        if let Ok(style) = ProgressStyle::with_template(form) {
            self.bar.set_style(style);
        }
        self.bar.set_draw_target(ProgressDrawTarget::stderr());
    }

    /// Prints a line, unless this second has one.
    fn print_status(&self, second: u64) {
        if self.told.fetch_max(second, Ordering::Relaxed) < second {
            print_note(&self.status_json().to_string());
        }
    }

    fn status_json(&self) -> Value {
        let left = self.bar.length().map(|_| self.bar.eta().as_secs());
        json!({"progress": {
            "unit": self.unit, "done": self.bar.position(), "of": self.bar.length(),
            "per_second": self.bar.per_sec().round(), "seconds_left": left,
        }})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn progress(since: Duration) -> Progress {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
        let bar = bar.with_elapsed(since);
        Progress { bar, form: ProgressForm::Lines, unit: "events", told: AtomicU64::new(0) }
    }

    /// From then on progress is told once a second.
    #[test]
    fn progress_is_told_after_two_seconds() {
        let early = progress(Duration::from_millis(1_000));
        early.advance_to(1, 10);
        assert_eq!(early.told.load(Ordering::Relaxed), 0);
        let late = progress(Duration::from_secs(7));
        late.advance_to(1, 10);
        late.advance_to(2, 10);
        assert_eq!(late.told.load(Ordering::Relaxed), 7);
    }

    #[test]
    fn a_line_tells_amount_and_time_left() {
        let known = progress(Duration::from_secs(3));
        known.advance_to(5, 10);
        let line = &known.status_json()["progress"];
        assert_eq!(
            (&line["unit"], &line["done"], &line["of"]),
            (&"events".into(), &5.into(), &10.into())
        );
        assert!(line["seconds_left"].is_u64() && line["per_second"].is_f64(), "{line}");
        let unknown = progress(Duration::from_secs(3));
        unknown.advance_to(5, 0);
        let line = &unknown.status_json()["progress"];
        assert_eq!((&line["of"], &line["seconds_left"]), (&Value::Null, &Value::Null));
    }
}
