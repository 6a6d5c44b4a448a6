//! The dispatcher: sends each attempt in a task of its own, and hands its answer to the recorder.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use domain::delivery::AttemptAnswer;
use eventstore::crash;
use telemetry::metrics::DESCRIPTOR_SHORTAGES;
use telemetry::trace::{self, TraceSpan};
use tokio::sync::{Mutex, mpsc};
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::request::send_attempt;
use crate::attempt::{ClaimedAttempt, FinishedAttempt, SEND_WITHIN};
use crate::limits::{HostSlot, SendLimits, SenderCount};
use crate::outbox::release::release_attempts;
use crate::record::AnswerInbox;
use crate::settings::DelivererContext;

/// The wait before unsent attempts that could not be released are released again.
const RELEASE_RETRY_AFTER: Duration = Duration::from_millis(500);

/// The wait before an attempt without a file descriptor is released. Its permit stays taken, so
/// that a shortage is not made worse.
const SHORTAGE_WAIT: Duration = Duration::from_secs(1);

/// The interval at which a lasting shortage of file descriptors is logged.
const SHORTAGE_LOG_INTERVAL: Duration = Duration::from_secs(10);

/// The dispatcher of a process.
pub struct Dispatcher {
    pub(super) deliverer: DelivererContext,
    pub(super) stop: CancellationToken,
    pub(super) tasks: TaskTracker,
    pub(super) limits: SendLimits,
    answers: mpsc::Sender<FinishedAttempt>,
    /// Attempts that wait to be released by the task that holds `releasing`.
    unsent: std::sync::Mutex<Vec<ClaimedAttempt>>,
    releasing: Mutex<()>,
    shortage_logged: std::sync::Mutex<Option<Instant>>,
    /// Whether the limits kept rows out of a claim. The next answer then wakes the claim.
    is_limited: AtomicBool,
}

/// Whether claimed attempts can still be sent in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SendTiming {
    InTime,
    TooLate,
}

impl Dispatcher {
    /// A dispatcher that sends until `stop`, beside these other senders.
    #[must_use]
    pub fn new(
        deliverer: DelivererContext,
        senders: SenderCount,
        stop: CancellationToken,
    ) -> (Arc<Self>, AnswerInbox) {
        let (answers, inbox) = mpsc::channel(deliverer.settings.permits.max(1));
        let dispatch = Self {
            limits: SendLimits::new(deliverer.settings, senders),
            deliverer,
            stop,
            tasks: TaskTracker::new(),
            answers,
            unsent: std::sync::Mutex::default(),
            releasing: Mutex::default(),
            shortage_logged: std::sync::Mutex::default(),
            is_limited: AtomicBool::default(),
        };
        (Arc::new(dispatch), AnswerInbox { inbox })
    }

    /// Whether no attempt is in flight.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.tasks.is_empty()
    }

    /// Whether attempts that are claimed now may be sent. Receivers reject signatures of a wrong
    /// clock (cases E18 and E19), and nothing new begins at a stop.
    pub(super) fn may_send(&self) -> bool {
        !self.stop.is_cancelled()
            && self.deliverer.clock.fault().is_none()
            && self.limits.may_send()
    }

    /// Notes that the limits may keep rows out of a claim.
    pub(super) fn note_limited(&self) {
        self.is_limited.store(true, Ordering::Relaxed);
    }

    /// Sends the attempts. Releases all of them if it is too late, or at a stop.
    pub(super) fn start_all(self: &Arc<Self>, claimed: Vec<ClaimedAttempt>, timing: SendTiming) {
        if timing == SendTiming::TooLate || self.stop.is_cancelled() {
            let dispatch = Arc::clone(self);
            self.tasks.spawn(async move { dispatch.release_with_others(claimed).await });
            return;
        }
        for one in claimed {
            self.spawn_attempt(one);
        }
    }

    /// Sends an attempt in a task. Its reservation ends as soon as the answer is handed over.
    fn spawn_attempt(self: &Arc<Self>, mut claimed: ClaimedAttempt) {
        let dispatch = Arc::clone(self);
        self.tasks.spawn(async move {
            let reservation = claimed.reservation.take();
            let slot = dispatch.wait_for_slot(&claimed).await;
            let Some(slot) = slot.filter(|_| dispatch.lease_may_hold(&claimed)) else {
                drop(reservation);
                return dispatch.release_with_others(vec![claimed]).await;
            };
            claimed.started_at = dispatch.deliverer.clock.now();
            let began_at = Instant::now();
            // Boxed, because a task's future is moved several times as the task starts.
            let finished = Box::pin(run_attempt(&dispatch.deliverer, claimed)).await;
            if finished.exchange.answer == AttemptAnswer::OutOfDescriptors {
                drop(slot);
                dispatch.outlast_shortage().await;
                drop(reservation);
                return dispatch.release_with_others(vec![finished.claimed]).await;
            }
            slot.note_answer(finished.exchange.answer.verdict());
            dispatch.note_host(&finished, began_at);
            let Ok(answer) = dispatch.answers.reserve().await else {
                tracing::error!("an answer could not be recorded; its lease will end");
                return;
            };
            drop(reservation);
            answer.send(finished);
            if dispatch.is_limited.swap(false, Ordering::Relaxed) {
                dispatch.deliverer.store.nudge().wake_for_deliveries();
            }
        });
    }

    /// Waits for a slot at the attempt's host. `None` if the process stops, the wait takes too
    /// long, or the attempt would be late. After a long wait the host no longer counts as quick.
    async fn wait_for_slot(&self, claimed: &ClaimedAttempt) -> Option<HostSlot> {
        let pair = (claimed.firm_id, claimed.host.clone());
        let until = claimed.claimed_instant + SEND_WITHIN;
        let until = until.min(Instant::now() + self.deliverer.settings.slot_wait_max);
        // Biased: an attempt that has its slot is sent, also at a stop.
        tokio::select! {
            biased;
            slot = self.limits.host_slots.take_slot(&pair) => Some(slot),
            () = self.stop.cancelled() => None,
            () = sleep_until(until) => {
                self.limits.host_slots.mark_slow(&pair);
                None
            }
        }
    }

    /// Notes whether the host answered.
    fn note_host(&self, finished: &FinishedAttempt, began_at: Instant) {
        let host = &finished.claimed.host;
        let began_at = began_at.into_std();
        let ended_at = Instant::now().into_std();
        match finished.exchange.answer {
            AttemptAnswer::Status(_) | AttemptAnswer::RedirectInvalid(_) => {
                self.limits.note_answer(host, began_at, ended_at);
            }
            AttemptAnswer::NetworkError(_) => {
                self.limits.note_silence(host, began_at, ended_at);
            }
            AttemptAnswer::Refused(_)
            | AttemptAnswer::NeverSent
            | AttemptAnswer::OutOfDescriptors => {}
        }
    }

    /// Whether the server is still in the life in which the attempt was claimed. Another life may
    /// know nothing of the claim, nor of the delivery.
    fn lease_may_hold(&self, claimed: &ClaimedAttempt) -> bool {
        self.deliverer.store.life().had_begun_at(claimed.claimed_instant.into_std())
    }

    /// Counts and logs a shortage of file descriptors, and waits.
    async fn outlast_shortage(&self) {
        DESCRIPTOR_SHORTAGES.count(&[("part", "deliveries")]);
        let now = Instant::now();
        let is_logged = {
            let mut last = self.shortage_logged.lock().unwrap_or_else(PoisonError::into_inner);
            let is_due = last.is_none_or(|last| now - last >= SHORTAGE_LOG_INTERVAL);
            *last = if is_due { Some(now) } else { *last };
            is_due
        };
        if is_logged {
            tracing::warn!("no file descriptor is left: attempts are released and do not count");
        }
        self.stop.run_until_cancelled(sleep(SHORTAGE_WAIT)).await;
    }

    /// Releases unsent attempts, together with unsent attempts of other tasks.
    async fn release_with_others(&self, claimed: Vec<ClaimedAttempt>) {
        let unsent = || self.unsent.lock().unwrap_or_else(PoisonError::into_inner);
        unsent().extend(claimed);
        let _alone = self.releasing.lock().await;
        let mut all = std::mem::take(&mut *unsent());
        all.iter_mut().for_each(|one| one.reservation = None);
        let until = Instant::now() + self.deliverer.settings.scale.scaled_lease() / 2;
        while let Err(error) = release_attempts(&self.deliverer, &all).await {
            if !error.is_transient() || self.stop.is_cancelled() || Instant::now() > until {
                tracing::error!(%error, "unsent attempts were not released; their leases will end");
                return;
            }
            tracing::warn!(%error, "unsent attempts could not be released; will try again");
            sleep(RELEASE_RETRY_AFTER).await;
        }
    }
}

/// Sends an attempt and waits for its answer.
pub(super) async fn run_attempt(
    deliverer: &DelivererContext,
    claimed: ClaimedAttempt,
) -> FinishedAttempt {
    let traced = TraceSpan::attempt(claimed.traceparent, claimed.number);
    let exchange = {
        // Pinned here, because a future that is handed on is stored twice.
        let sent = pin!(send_attempt(deliverer, &claimed));
        trace::with_traceparent(traced.traceparent(), sent).await
    };
    crash::point("answered");
    traced.record_outcome(exchange.answer.class(), exchange.answer.status());
    let claimed = ClaimedAttempt { traceparent: traced.traceparent(), ..claimed };
    FinishedAttempt { claimed, exchange, finished_at: deliverer.clock.now() }
}
