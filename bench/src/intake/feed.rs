//! The stream of reports, and the occurrences that must follow. Of most responses much is said in a
//! few lines. The rest comes days later, after tens of thousands of lines, and meets rows written
//! long ago.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use ::activity::{EventLine, ExpectedState};
use anyhow::Context;
use api::intake::CloudEvent;
use serde::{Deserialize, Serialize};

use super::population::FIRMS;
use crate::activity::{Founding, Told, made_up};

/// Where the stream is.
pub(super) struct Feed {
    lines: Box<dyn Iterator<Item = EventLine>>,
    expected: ExpectedState,
}

/// The size of a file that was written, and the occurrences that must follow from all files until
/// then.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(super) struct Written {
    pub(super) activities: usize,
    pub(super) bytes: usize,
    pub(super) occurrences: usize,
    /// Occurrences that subscribers hear of.
    pub(super) heard: usize,
}

impl Feed {
    /// The beginning of it.
    pub(super) fn new() -> anyhow::Result<Self> {
        let made_up = made_up(FIRMS);
        let Founding { expected, .. } = Founding::new(made_up.founding_lines())?;
        Ok(Self { lines: Box::new(made_up.response_lines()), expected })
    }

    /// Writes the next so many activities, one a line.
    pub(super) fn write(&mut self, activities: usize, file: &Path) -> anyhow::Result<Written> {
        let mut lines = BufWriter::new(File::create(file)?);
        let mut written = Written { activities, ..Written::default() };
        for _ in 0..activities {
            let told = Told::new(&self.lines.next().context("there is no more")?)?;
            lines.write_all(&told.line)?;
            written.bytes += told.line.len();
            let CloudEvent { firm_id, time, activity, .. } = &told.event;
            self.expected.note_activity(*firm_id, *time, activity);
        }
        lines.flush()?;
        for happened in self.expected.known_occurrences() {
            written.occurrences += 1;
            written.heard += usize::from(!happened.silent);
        }
        Ok(written)
    }
}
