//! A nudge wakes the workers that wait for news.
//!
//! [`Nudge`] wakes the workers of this process after each commit. [`relay_nudges`] sends a
//! coalesced NOTIFY to the other processes, on a connection of its own, while there are other
//! processes. A nudge may be lost. The [pulse](crate::Pulse) also looks each second, so a lost
//! nudge costs a moment and never an event.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use domain::delivery::DeliveryEvent;
use domain::event::Event;
use sqlx::postgres::PgListener;
use sqlx::{Connection, Executor, PgConnection, PgPool};
use tokio::sync::watch;

use crate::due_questions::DueQuestions;
use crate::pool::{answer_within, until_moved};
use crate::presence::{self, ProcessGroup};

const CHANNEL: &str = "firmforms_log";
const NOTIFY: &str = "notify firmforms_log";

/// The shortest interval between two NOTIFYs.
const NOTIFY_INTERVAL_MIN: Duration = Duration::from_millis(10);

/// A process counts the other processes at most this often. A process that has just started looks
/// by itself meanwhile.
const COUNT_INTERVAL: Duration = Duration::from_secs(1);

/// A statement of the relay that takes longer has lost its connection without notice.
const ANSWER_WITHIN: Duration = Duration::from_secs(3);

/// The wait before a lost connection is opened again.
const RECONNECT_AFTER: Duration = Duration::from_millis(500);

/// The news that wakes a worker before its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WakeOn {
    /// Any appended event.
    AnyEvent,
    /// Deliveries that wait for a worker, or an event that is not of an occurrence or a delivery.
    Deliveries,
    /// An event that is not of an occurrence or a delivery. Most events are of one.
    OtherEvents,
    /// No news. The worker steps when its time has come.
    Timer,
}

/// The kinds of news in an append, which decide which workers wake.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WakeScope {
    /// Deliveries wait for a worker that claims, spreads or cancels.
    pub deliveries: bool,
    /// The append has an event that belongs to no occurrence and no delivery.
    pub other_events: bool,
}

impl WakeScope {
    /// Adds the news of one event. An attempted or cancelled delivery waits for no worker.
    pub(crate) const fn add_event(&mut self, event: &Event) {
        match event {
            Event::Occurrence(_)
            | Event::Delivery(
                DeliveryEvent::DeliveryAttempted(_) | DeliveryEvent::DeliveryCancelled { .. },
            ) => {}
            Event::Delivery(_) => self.deliveries = true,
            Event::Firm(_)
            | Event::Form(_)
            | Event::Key(_)
            | Event::Subscription(_)
            | Event::Invite(_)
            | Event::Person(_)
            | Event::Response(_)
            | Event::Reading(_)
            | Event::Replay(_)
            | Event::Pause(_)
            | Event::Repair(_)
            | Event::LateEntry(_)
            | Event::CheckpointSeries(_)
            | Event::AccessToken(_)
            | Event::Maintenance(_)
            | Event::TargetTest(_)
            | Event::SignIn(_)
            | Event::NoticeSending(_) => self.other_events = true,
        }
    }
}

/// The signals that wake the workers of a process.
#[derive(Debug, Clone, Default)]
pub struct Nudge {
    /// Counts the appends of this process, which other processes must hear of.
    local: watch::Sender<u64>,
    /// Counts the appends of all processes.
    any: watch::Sender<u64>,
    deliveries: watch::Sender<u64>,
    other_events: watch::Sender<u64>,
    /// Counts the moves of this process to another server.
    moves: watch::Sender<u64>,
    /// The server's process id of our notifying connection, or 0 while there is none. Its NOTIFYs
    /// come back to this process and are ignored.
    notifier_pid: Arc<AtomicU32>,
    due_questions: DueQuestions,
}

impl Nudge {
    /// Wakes workers after an append of this process.
    pub fn signal(&self, news: WakeScope) {
        count_signal(&self.local);
        self.wake_for(news);
    }

    /// Wakes all workers, because there may be news of any kind.
    pub fn wake_all(&self) {
        self.wake_for(WakeScope { deliveries: true, other_events: true });
    }

    /// Wakes the workers that deliveries wait for, though nothing was appended.
    pub fn wake_for_deliveries(&self) {
        count_signal(&self.deliveries);
    }

    /// Ends the steps under way, because this process works on another server now. Their
    /// connections may wait for one that is cut off.
    pub(crate) fn server_moved(&self) {
        count_signal(&self.moves);
        self.wake_all();
    }

    /// Counts the moves to another server.
    pub(crate) fn server_moves(&self) -> watch::Receiver<u64> {
        self.moves.subscribe()
    }

    /// The questions that the pulse asks for the workers of this process.
    pub(crate) const fn due_questions(&self) -> &DueQuestions {
        &self.due_questions
    }

    fn wake_for(&self, news: WakeScope) {
        count_signal(&self.any);
        if news.deliveries || news.other_events {
            count_signal(&self.deliveries);
        }
        if news.other_events {
            count_signal(&self.other_events);
        }
    }

    /// Wakes on the news that a worker declares. A receiver for [`WakeOn::Timer`] never wakes.
    #[must_use]
    pub fn subscribe_on(&self, wakes: WakeOn) -> watch::Receiver<u64> {
        match wakes {
            WakeOn::AnyEvent => self.subscribe(),
            WakeOn::Deliveries => self.subscribe_to_deliveries(),
            WakeOn::OtherEvents => self.subscribe_to_other_events(),
            WakeOn::Timer => watch::Sender::new(0).subscribe(),
        }
    }

    /// Wakes on any news. A worker subscribes before it looks, so that it misses no news between
    /// look and wait.
    #[must_use]
    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.any.subscribe()
    }

    /// Wakes when deliveries may wait for a worker.
    #[must_use]
    pub fn subscribe_to_deliveries(&self) -> watch::Receiver<u64> {
        self.deliveries.subscribe()
    }

    /// Wakes when an event was appended that belongs to no occurrence and no delivery. Most events
    /// do belong to one.
    #[must_use]
    pub fn subscribe_to_other_events(&self) -> watch::Receiver<u64> {
        self.other_events.subscribe()
    }
}

fn count_signal(signal: &watch::Sender<u64>) {
    signal.send_modify(|count| *count += 1);
}

/// Carries nudges between processes until the future is dropped. It sends NOTIFYs, and hears the
/// NOTIFYs of the other processes.
///
/// A lost connection is opened again. Followers look on their own meanwhile.
pub async fn relay_nudges(pool: PgPool, nudge: Nudge) {
    tokio::join!(notify_others(&pool, &nudge), hear_others(&pool, &nudge));
}

/// Notifies the other processes once. If the NOTIFY fails, they look by themselves.
pub async fn announce_news(pool: &PgPool) {
    if let Err(error) = pool.execute(NOTIFY).await {
        tracing::debug!(%error, "could not tell the other processes");
    }
}

async fn notify_others(pool: &PgPool, nudge: &Nudge) {
    let mut local = nudge.local.subscribe();
    loop {
        if let Err(error) = notify_while_connected(pool, nudge, &mut local).await {
            tracing::debug!(%error, "could not tell the other processes");
        }
        nudge.notifier_pid.store(0, Ordering::Relaxed);
        tokio::time::sleep(RECONNECT_AFTER).await;
    }
}

async fn notify_while_connected(
    pool: &PgPool,
    nudge: &Nudge,
    local: &mut watch::Receiver<u64>,
) -> Result<(), sqlx::Error> {
    let options = pool.connect_options();
    let mut connection = answer_within(ANSWER_WITHIN, PgConnection::connect_with(&options)).await?;
    let own = sqlx::query_scalar("select pg_backend_pid()").fetch_one(&mut connection);
    let pid: i32 = answer_within(ANSWER_WITHIN, own).await?;
    nudge.notifier_pid.store(pid.cast_unsigned(), Ordering::Relaxed);
    let joined = presence::join(&mut connection, ProcessGroup::Serving);
    answer_within(ANSWER_WITHIN, joined).await?;
    let mut others = true;
    let mut counted = None;
    loop {
        tokio::select! {
            changed = local.changed() => if changed.is_err() { return Ok(()) },
            () = until_moved(pool, &options) => return Ok(()),
        }
        if counted.is_none_or(|at: Instant| at.elapsed() >= COUNT_INTERVAL) {
            let members = presence::count_members(&mut connection, ProcessGroup::Serving);
            others = answer_within(ANSWER_WITHIN, members).await? > 1;
            counted = Some(Instant::now());
        }
        if others {
            answer_within(ANSWER_WITHIN, connection.execute(NOTIFY)).await?;
        }
        tokio::time::sleep(NOTIFY_INTERVAL_MIN).await;
    }
}

async fn hear_others(pool: &PgPool, nudge: &Nudge) {
    loop {
        if let Err(error) = listen_once(pool, nudge).await {
            tracing::debug!(%error, "could not hear the other processes");
        }
        tokio::time::sleep(RECONNECT_AFTER).await;
    }
}

async fn listen_once(pool: &PgPool, nudge: &Nudge) -> Result<(), sqlx::Error> {
    let options = pool.connect_options();
    let mut listener = answer_within(ANSWER_WITHIN, PgListener::connect_with(pool)).await?;
    answer_within(ANSWER_WITHIN, listener.listen(CHANNEL)).await?;
    let hearing = async {
        loop {
            let told_by = listener.recv().await?.process_id();
            if told_by != nudge.notifier_pid.load(Ordering::Relaxed) {
                nudge.wake_all();
            }
        }
    };
    tokio::select! {
        failed = hearing => failed,
        () = until_moved(pool, &options) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nudge_wakes_only_its_receivers() {
        let nudge = Nudge::default();
        let woken = |by: &dyn Fn()| {
            let receivers = [
                nudge.subscribe(),
                nudge.subscribe_to_deliveries(),
                nudge.subscribe_to_other_events(),
            ];
            by();
            receivers.map(|receiver| receiver.has_changed().unwrap())
        };
        let deliveries = WakeScope { deliveries: true, ..WakeScope::default() };
        let rest = WakeScope { other_events: true, ..WakeScope::default() };
        assert_eq!(woken(&|| nudge.signal(WakeScope::default())), [true, false, false]);
        assert_eq!(woken(&|| nudge.signal(deliveries)), [true, true, false]);
        assert_eq!(woken(&|| nudge.signal(rest)), [true, true, true]);
        assert_eq!(woken(&|| nudge.wake_for_deliveries()), [false, true, false]);
        assert_eq!(woken(&|| nudge.wake_all()), [true; 3]);
    }
}
