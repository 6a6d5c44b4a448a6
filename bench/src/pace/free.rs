//! Connections that are free for a report.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::connection::Connection;

/// A connection on which nothing was said for so long is used no more: the door waits for 60 s.
const UNUSED: Duration = Duration::from_secs(30);

/// Connections that wait for a report, and since when. The last to come is the first to go.
#[derive(Default)]
pub(super) struct Free(Mutex<Vec<(Instant, Connection)>>);

impl Free {
    pub(super) fn take(&self) -> Option<Connection> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (since, connection) = all.pop()?;
        if since.elapsed() < UNUSED {
            return Some(connection);
        }
        all.clear();
        None
    }

    pub(super) fn put(&self, connection: Connection) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.push((Instant::now(), connection));
    }
}
