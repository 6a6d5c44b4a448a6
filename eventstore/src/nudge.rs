//! A nudge wakes the workers that wait for news.
//!
//! [`Nudge`] wakes the workers of this process after each commit. [`relay_nudges`] sends a
//! coalesced NOTIFY to the other processes, on a connection of its own, while there are other
//! processes. A nudge may be lost. The [pulse](crate::Pulse) also looks each second, so a lost
//! nudge costs a moment and never an event.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use domain::delivery::DeliveryEvent;
use domain::event::Event;
use sqlx::postgres::PgListener;
use sqlx::{Connection, Executor, PgConnection, PgPool};
use tokio::sync::watch;

use crate::due_questions::DueQuestions;
use crate::pool::{answer_within, until_moved};
use crate::presence::{self, ProcessGroup, ServingProcesses};

const CHANNEL: &str = "firmforms_log";
const NOTIFY: &str = "notify firmforms_log";

/// The shortest interval between two NOTIFYs.
const NOTIFY_INTERVAL_MIN: Duration = Duration::from_millis(10);

/// A process counts the other processes at most this often. Meanwhile a process that has just
/// started finds news by its own pulse.
const COUNT_INTERVAL: Duration = Duration::from_secs(5);

/// A statement of the relay that takes longer has lost its connection without notice.
const ANSWER_WITHIN: Duration = Duration::from_secs(3);

/// For so long each look must have found no session of an older build, before this process writes
/// what such a build cannot read. A process that has lost its sessions opens others meanwhile.
const OLDER_BUILDS_GONE_AFTER: Duration = Duration::from_secs(30);

/// The wait before a lost connection is opened again.
const RECONNECT_AFTER: Duration = Duration::from_millis(500);

/// The news that wakes a worker before its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WakeOn {
    /// Any appended event.
    AnyEvent,
    /// Deliveries that wait for a worker, or one of the other events.
    Deliveries,
    /// An event that is not of an occurrence or a delivery, or that an operator asked for. Most
    /// events are neither.
    OtherEvents,
    /// No news. The worker steps when its time has come.
    Timer,
}

/// The kinds of news in an append, which decide which workers wake.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WakeScope {
    /// Deliveries wait for a worker that claims, spreads or cancels.
    pub deliveries: bool,
    /// The append has an event that belongs to no occurrence and no delivery, or that an operator
    /// asked for.
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
            Event::Delivery(DeliveryEvent::StepRetried(_) | DeliveryEvent::DeliveryReissued(_)) => {
                *self = Self { deliveries: true, other_events: true }
            }
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

/// Whether this process may write what builds before 0.3.0 cannot read. It may not while a process
/// of such a build serves the same database.
#[derive(Debug, Clone, Default)]
pub struct NewFormats(Arc<AtomicBool>);

impl NewFormats {
    /// Formats for a database that no older build serves.
    #[must_use]
    pub fn allowed() -> Self {
        Self(Arc::new(AtomicBool::new(true)))
    }

    /// Returns whether they are allowed now.
    #[must_use]
    pub fn are_allowed(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    fn allow(&self, allowed: bool) {
        self.0.store(allowed, Ordering::Relaxed);
    }
}

/// The looks of a process for older builds that serve the same database.
#[derive(Default)]
struct OlderBuilds {
    /// The first of the last looks that found none.
    gone_since: Option<Instant>,
}

impl OlderBuilds {
    /// Takes note of the serving processes, and returns whether the older builds are gone.
    fn are_gone(&mut self, serving: ServingProcesses, now: Instant) -> bool {
        let gone_since = self.gone_since.unwrap_or(now);
        self.gone_since = (serving.older == 0).then_some(gone_since);
        self.gone_since.is_some_and(|since| now - since >= OLDER_BUILDS_GONE_AFTER)
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
    /// Counts the positions that the appends of this process have drawn.
    drawn: Arc<AtomicI64>,
    /// The server's process id of our notifying connection, or 0 while there is none. Its NOTIFYs
    /// come back to this process and are ignored.
    notifier_pid: Arc<AtomicU32>,
    due_questions: DueQuestions,
    new_formats: NewFormats,
}

impl Nudge {
    /// Wakes workers after an append of this process, of so many events.
    pub fn signal(&self, news: WakeScope, events: i64) {
        self.drawn.fetch_add(events, Ordering::Relaxed);
        count_signal(&self.local);
        self.wake_for(news);
    }

    /// Returns the number of positions that appends of this process have drawn, as far as they have
    /// woken workers.
    pub(crate) fn drawn(&self) -> i64 {
        self.drawn.load(Ordering::Relaxed)
    }

    /// Whether this process may write what older builds cannot read. [`relay_nudges`] keeps it.
    #[must_use]
    pub const fn new_formats(&self) -> &NewFormats {
        &self.new_formats
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

    /// Wakes on [`WakeOn::OtherEvents`].
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
    let mut older_builds = OlderBuilds::default();
    loop {
        let notifying = notify_while_connected(pool, nudge, &mut local, &mut older_builds);
        if let Err(error) = notifying.await {
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
    older_builds: &mut OlderBuilds,
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
            // An idle process looks, too, until the older builds are gone.
            () = tokio::time::sleep(OLDER_BUILDS_GONE_AFTER),
                if !nudge.new_formats.are_allowed() => {}
        }
        if counted.is_none_or(|at: Instant| at.elapsed() >= COUNT_INTERVAL) {
            let count = presence::count_serving(&mut connection);
            let serving = answer_within(ANSWER_WITHIN, count).await?;
            let now = Instant::now();
            others = serving.all > 1;
            counted = Some(now);
            nudge.new_formats.allow(older_builds.are_gone(serving, now));
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

    /// One look after a long silence says nothing: the older build may be between two sessions.
    #[test]
    fn new_formats_wait_for_older_builds() {
        let start = Instant::now();
        let mut builds = OlderBuilds::default();
        let mut gone_after = |seconds, older| {
            builds
                .are_gone(ServingProcesses { all: 1, older }, start + Duration::from_secs(seconds))
        };
        assert!(!gone_after(0, 3));
        assert!(!gone_after(100, 0), "the first look that finds none");
        assert!(!gone_after(129, 0));
        assert!(gone_after(130, 0));
        assert!(!gone_after(131, 1), "one came back");
        assert!(!gone_after(190, 0));
    }

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
        assert_eq!(woken(&|| nudge.signal(WakeScope::default(), 1)), [true, false, false]);
        assert_eq!(woken(&|| nudge.signal(deliveries, 1)), [true, true, false]);
        assert_eq!(woken(&|| nudge.signal(rest, 1)), [true, true, true]);
        assert_eq!(woken(&|| nudge.wake_for_deliveries()), [false, true, false]);
        assert_eq!(woken(&|| nudge.wake_all()), [true; 3]);
    }
}
