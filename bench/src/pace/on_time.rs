//! Reports that are due at a time, whether or not those before them were answered: on a connection that is free,
//! or on one more.

use std::thread::{sleep, spawn};
use std::time::{Duration, Instant};

use tests::Firm;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::JoinSet;

use super::{Reported, Reporter};
use crate::connection::Connection;

/// Under way at a time, at most. With fewer, as with 32, what was held up for a moment would come in no faster than
/// that many are answered, and those after it would wait here, and not in the service.
const UNDER_WAY: usize = 1_024;

/// A connection on which nothing was said for so long is left: the door waits 10 s.
const UNUSED: Duration = Duration::from_secs(5);

/// Reports responses of these firms in turn, one at each of these times.
pub(super) async fn report(
    reporter: &Reporter,
    firms: &[Firm],
    due: impl Iterator<Item = Instant> + Send + 'static,
) -> anyhow::Result<Vec<Reported>> {
    let (mut due, mut firms) = (as_they_are_due(due), firms.iter().cycle());
    let (mut reported, mut tasks, mut free) = (Vec::new(), JoinSet::new(), Free::default());
    let mut all_are_begun = false;
    while !(all_are_begun && tasks.is_empty()) {
        tokio::select! {
            biased;
            Some(ended) = tasks.join_next() => {
                let (one, connection) = ended??;
                reported.push(one);
                free.0.push((Instant::now(), connection));
            }
            next = due.recv(), if !all_are_begun && tasks.len() < UNDER_WAY => match next.zip(firms.next()) {
                Some((due, firm)) => {
                    let (reporter, firm, kept) = (reporter.clone(), firm.clone(), free.take());
                    tasks.spawn(async move {
                        let mut connection = match kept {
                            Some(kept) => kept,
                            None => Connection::open(reporter.door).await?,
                        };
                        let reported = reporter.report(&mut connection, &firm, due).await?;
                        anyhow::Ok((reported, connection))
                    });
                }
                None => all_are_begun = true,
            }
        }
    }
    Ok(reported)
}

/// Waits for each by a thread: its timer is the kernel's, and the runtime's is late by a millisecond or two.
fn as_they_are_due(
    due: impl Iterator<Item = Instant> + Send + 'static,
) -> UnboundedReceiver<Instant> {
    let (begin, begun) = unbounded_channel();
    spawn(move || {
        for due in due {
            sleep(due.saturating_duration_since(Instant::now()));
            if begin.send(due).is_err() {
                return;
            }
        }
    });
    begun
}

/// Connections that wait for a report, and since when; the last is taken first.
#[derive(Default)]
struct Free(Vec<(Instant, Connection)>);

impl Free {
    fn take(&mut self) -> Option<Connection> {
        let (since, connection) = self.0.pop()?;
        if since.elapsed() < UNUSED {
            return Some(connection);
        }
        self.0.clear();
        None
    }
}
