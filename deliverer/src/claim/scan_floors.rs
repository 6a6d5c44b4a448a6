//! Scan floors: where the scans of a worker begin.
//!
//! While a snapshot is held, the indexes of the queues keep dead entries of all rows that were
//! taken. A scan from the beginning would read them each time. So a worker remembers below which
//! point nothing was left, and begins there. The floors are an optimisation: once a minute, and in
//! each new life of the server, a scan begins without them.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use eventstore::LifeNumber;
use tokio::time::Instant;

/// The names of all queues of unresponsive hosts come after this one.
pub(crate) const UNRESPONSIVE_QUEUES: &str = "u:";

/// The wait between two scans that begin without floors.
const FULL_SCAN_INTERVAL: Duration = Duration::from_secs(60);

/// A transaction sets due times no earlier than its begin. If it takes longer than this to commit,
/// its rows are found by the next full scan.
const COMMIT_WITHIN: TimeDelta = TimeDelta::seconds(10);

/// The floors of one worker, and how far it has visited the queues of unresponsive hosts.
#[derive(Debug)]
pub struct ScanFloors {
    life: LifeNumber,
    /// No wake of an older transaction is left.
    wakes_from_xid: i64,
    /// Nothing is due earlier.
    due_from: Option<DateTime<Utc>>,
    full_scan_at: Option<Instant>,
    /// The next visit begins behind this queue.
    pub(crate) behind_queue: String,
}

impl Default for ScanFloors {
    fn default() -> Self {
        Self {
            life: LifeNumber::default(),
            wakes_from_xid: 0,
            due_from: None,
            full_scan_at: None,
            behind_queue: UNRESPONSIVE_QUEUES.to_owned(),
        }
    }
}

/// Where one scan begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ScanStart {
    pub(crate) wakes_from_xid: i64,
    pub(crate) due_from: DateTime<Utc>,
}

impl ScanFloors {
    /// The start of a scan at `now`, in this life of the server. The due floor is lowered if the
    /// database's clock has gone back.
    pub(crate) fn start_scan(
        &mut self,
        now: DateTime<Utc>,
        instant: Instant,
        life: LifeNumber,
    ) -> ScanStart {
        if self.life != life || self.full_scan_at.is_none_or(|at| instant >= at) {
            let full_scan_at = Some(instant + FULL_SCAN_INTERVAL);
            let behind_queue = self.behind_queue.clone();
            *self = Self { life, full_scan_at, behind_queue, ..Self::default() };
        }
        let due_from = self.due_from.map(|from| from.min(now - COMMIT_WITHIN));
        ScanStart {
            wakes_from_xid: self.wakes_from_xid,
            due_from: due_from.unwrap_or(DateTime::UNIX_EPOCH),
        }
    }

    /// Notes the result of a scan at `now`. The next scan begins no later than the first thing that
    /// this scan may have left. These are the oldest transaction of a wake, and the first due time.
    pub(crate) fn note_scan(
        &mut self,
        wakes_from_xid: i64,
        first_due_at: Option<DateTime<Utc>>,
        now: DateTime<Utc>,
    ) {
        let passed = now - COMMIT_WITHIN;
        self.wakes_from_xid = wakes_from_xid;
        self.due_from = Some(first_due_at.unwrap_or(passed).min(passed));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noon(seconds: i64) -> DateTime<Utc> {
        DateTime::UNIX_EPOCH + TimeDelta::seconds(1_000_000 + seconds)
    }

    /// The floor is the first due lane, or the length of a transaction ago.
    #[test]
    fn a_scan_begins_at_the_due_floor() {
        let mut floors = ScanFloors::default();
        let at = Instant::now();
        let life = LifeNumber::default();
        let everything = ScanStart { wakes_from_xid: 0, due_from: DateTime::UNIX_EPOCH };
        assert_eq!(floors.start_scan(noon(0), at, life), everything);
        floors.note_scan(7, Some(noon(-60)), noon(0));
        let start = ScanStart { wakes_from_xid: 7, due_from: noon(-60) };
        assert_eq!(floors.start_scan(noon(1), at, life), start);
        for first in [None, Some(noon(1)), Some(noon(600))] {
            floors.note_scan(7, first, noon(1));
            assert_eq!(floors.start_scan(noon(2), at, life).due_from, noon(-9));
        }
        assert_eq!(
            floors.start_scan(noon(-50), at, life).due_from,
            noon(-60),
            "the clock went back"
        );
    }

    #[test]
    fn each_minute_a_scan_has_no_floors() {
        let mut floors = ScanFloors::default();
        let at = Instant::now();
        let life = LifeNumber::default();
        floors.start_scan(noon(0), at, life);
        floors.note_scan(7, None, noon(0));
        assert_eq!(floors.start_scan(noon(0), at + FULL_SCAN_INTERVAL / 2, life).wakes_from_xid, 7);
        let full = floors.start_scan(noon(0), at + FULL_SCAN_INTERVAL, life);
        assert_eq!(full, ScanStart { wakes_from_xid: 0, due_from: DateTime::UNIX_EPOCH });
        floors.note_scan(8, None, noon(0));
        assert_eq!(floors.start_scan(noon(0), at + FULL_SCAN_INTERVAL, life).wakes_from_xid, 8);
    }
}
