//! The results of one measurement.

use std::time::Duration;

use super::caught_up::Counts;
use super::feed::Written;
use super::product::Reported;
use crate::statements::Statement;
use crate::usage::Cpu;

/// How activity comes in.
#[derive(Debug, Clone, Copy)]
pub(super) enum Way {
    /// As `firmforms ingest` takes it in.
    File,
    /// By the internal door.
    Http { connections: usize, per_batch: usize },
}

impl Way {
    pub(super) fn name(self) -> String {
        match self {
            Self::File => "file".to_owned(),
            Self::Http { connections, per_batch } => format!("HTTP {connections}x{per_batch}"),
        }
    }
}

/// The results of one measurement.
pub(super) struct Measured {
    pub(super) way: Way,
    pub(super) activities_before: usize,
    pub(super) written: Written,
    pub(super) reported: Reported,
    pub(super) taken_in_after: Duration,
    pub(super) queued_after: Duration,
    pub(super) listed_after: Duration,
    pub(super) cpu: Cpu,
    pub(super) peak_mib: f64,
    pub(super) counted: Counts,
    pub(super) statements: Vec<Statement>,
}
