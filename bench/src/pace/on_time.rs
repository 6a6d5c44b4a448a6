//! Reports that are due at a time, whether or not earlier reports were answered: on a free
//! connection, or on one more.

use std::thread::{sleep, spawn};
use std::time::Instant;

use tests::Firm;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::JoinSet;

use super::reporter::{Reported, Reporter};
use crate::connection::Connection;

/// Reports under way at a time, at most. With 32, reports after a short delay would come in no
/// faster than 32 are answered. Later reports would then wait here, and not in the service.
const UNDER_WAY: usize = 256;

/// Reports responses of these firms in turn, one at each of these times.
pub(super) async fn report(
    reporter: &Reporter,
    firms: &[Firm],
    due: impl Iterator<Item = Instant> + Send + 'static,
) -> anyhow::Result<Vec<Reported>> {
    let (mut due, mut firms) = (as_they_are_due(due), firms.iter().cycle());
    let (mut reported, mut tasks) = (Vec::new(), JoinSet::new());
    while let Some((due, firm)) = due.recv().await.zip(firms.next()) {
        while let Some(ended) =
            if tasks.len() < UNDER_WAY { tasks.try_join_next() } else { tasks.join_next().await }
        {
            reported.push(ended??);
        }
        tasks.spawn(on_a_connection(reporter.clone(), firm.clone(), due));
    }
    while let Some(ended) = tasks.join_next().await {
        reported.push(ended??);
    }
    Ok(reported)
}

async fn on_a_connection(reporter: Reporter, firm: Firm, due: Instant) -> anyhow::Result<Reported> {
    let mut connection = match reporter.free.take() {
        Some(free) => free,
        None => Connection::open(reporter.door).await?,
    };
    let reported = reporter.report(&mut connection, &firm, due).await?;
    reporter.free.put(connection);
    Ok(reported)
}

/// Waits for each by a thread: its timer is the kernel's, and the runtime's is late by a
/// millisecond or two. The thread ends when it has told of all, or when its channel is closed.
fn as_they_are_due(
    due: impl Iterator<Item = Instant> + Send + 'static,
) -> UnboundedReceiver<Instant> {
    let (tell, told) = unbounded_channel();
    spawn(move || {
        for due in due {
            sleep(due.saturating_duration_since(Instant::now()));
            if tell.send(due).is_err() {
                return;
            }
        }
    });
    told
}
