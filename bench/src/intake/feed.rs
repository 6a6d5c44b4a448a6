//! The stream of reports: at each moment a visitor begins, an earlier one submits, of one earlier
//! still the report is reviewed, and so on. What is reported of a response is so spread over batches,
//! and meets rows that were written a while ago.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use super::visits::{Told, Visit};
use crate::activity::Firm;

/// How many visits later the stages of a visit follow: each over 4,000 activities after the one before
/// it, so that four batches of 1,000 under way do not have two stages of one visit. From about the
/// 8,000th activity on, all stages have visits.
const STAGES: [(u64, Stage); 4] = [
    (0, Visit::saved),
    (1_500, Visit::submitted),
    (3_000, Visit::reviewed),
    (4_500, Visit::followed_up),
];

type Stage = fn(Visit) -> Vec<Told>;

/// Where the stream is.
pub(super) struct Feed {
    firms: Vec<Firm>,
    visits: u64,
    told: VecDeque<Told>,
}

/// What was written to a file.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Written {
    pub(super) activities: usize,
    pub(super) bytes: usize,
    /// That these activities lead to.
    pub(super) occurrences: usize,
}

impl Feed {
    pub(super) fn of(firms: Vec<Firm>) -> Self {
        Self { firms, visits: 0, told: VecDeque::new() }
    }

    /// Writes the next so many activities, one a line.
    pub(super) fn write(&mut self, activities: usize, file: &Path) -> anyhow::Result<Written> {
        let mut lines = BufWriter::new(File::create(file)?);
        let mut written = Written { activities, ..Written::default() };
        for _ in 0..activities {
            let told = self.next();
            let line = told.event.to_string();
            writeln!(lines, "{line}")?;
            written.bytes += line.len() + 1;
            written.occurrences += usize::from(told.occurs);
        }
        lines.flush()?;
        Ok(written)
    }

    fn next(&mut self) -> Told {
        loop {
            if let Some(told) = self.told.pop_front() {
                return told;
            }
            for (later, stage) in STAGES {
                if let Some(number) = self.visits.checked_sub(later) {
                    let firm = self.firms[number as usize % self.firms.len()];
                    self.told.extend(stage(Visit { firm, number }));
                }
            }
            self.visits += 1;
        }
    }
}
