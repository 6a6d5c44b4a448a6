//! Dispatch: sends each claimed try in a task of its own, and hands its answer to the recorder. All who
//! claim in a process share it. A try that was claimed ahead waits for its place.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use domain::answer::AnswerVerdict;
use eventstore::crash;
use telemetry::trace::{self, TraceSpan};
use tokio::sync::{Mutex, mpsc};
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::claim::{ClaimedAttempt, SEND_WITHIN};
use crate::give_back::give_back;
use crate::limits::{HostSlot, SendLimits, SenderCount};
use crate::record::{FinishedAttempt, record};
use crate::send::send;
use crate::settings::{DelivererContext, DeliveryError};

/// The wait until what could not be given back is given back again.
const GIVE_BACK_RETRY_AFTER: Duration = Duration::from_millis(500);

/// What sends.
pub struct Dispatcher {
    pub(crate) courier: DelivererContext,
    pub(crate) stop: CancellationToken,
    pub(crate) tasks: TaskTracker,
    pub(crate) limits: SendLimits,
    answers: mpsc::Sender<FinishedAttempt>,
    /// What is to be given back, until somebody does.
    unsent: std::sync::Mutex<Vec<ClaimedAttempt>>,
    giving_back: Mutex<()>,
    /// Whether a claim left something because there was no room: the next answer wakes it.
    is_limited: AtomicBool,
}

/// What came of what was sent, for the recorder. It ends when nobody can send any more.
pub struct AnswerInbox {
    pub(crate) inbox: mpsc::Receiver<FinishedAttempt>,
}

impl AnswerInbox {
    /// Records the answers that have arrived, in one batch; returns their number. For tests that step by
    /// hand.
    ///
    /// # Errors
    /// [`DeliveryError`]; the answers are lost then, and their leases end.
    pub async fn record_waiting(
        &mut self,
        courier: &DelivererContext,
    ) -> Result<usize, DeliveryError> {
        let mut batch = Vec::new();
        while let Ok(finished) = self.inbox.try_recv() {
            batch.push(finished);
        }
        if !batch.is_empty() {
            record(courier, &batch).await?;
        }
        Ok(batch.len())
    }

    /// How many wait to be recorded.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.inbox.len()
    }
}

impl Dispatcher {
    /// Sends until `stop`, beside these other senders.
    #[must_use]
    pub fn new(
        courier: DelivererContext,
        senders: SenderCount,
        stop: CancellationToken,
    ) -> (Arc<Self>, AnswerInbox) {
        let (answers, inbox) = mpsc::channel(courier.settings.permits.max(1));
        let dispatch = Self {
            limits: SendLimits::new(courier.settings, senders),
            courier,
            stop,
            tasks: TaskTracker::new(),
            answers,
            unsent: std::sync::Mutex::default(),
            giving_back: Mutex::default(),
            is_limited: AtomicBool::default(),
        };
        (Arc::new(dispatch), AnswerInbox { inbox })
    }

    /// Whether no attempt is in flight.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.tasks.is_empty()
    }

    /// Whether what is claimed now may be sent: receivers reject signatures from another time (cases
    /// E18 and E19), and at a stop nothing new begins.
    pub(crate) fn may_send(&self) -> bool {
        !self.stop.is_cancelled() && self.courier.clock.fault().is_none() && self.limits.may_send()
    }

    /// A claim left something because there was no room.
    pub(crate) fn note_limited(&self) {
        self.is_limited.store(true, Ordering::Relaxed);
    }

    /// Sends what was claimed; gives it back where it is too late.
    pub(crate) fn start_all(self: &Arc<Self>, claimed: Vec<ClaimedAttempt>, too_late: bool) {
        if too_late || self.stop.is_cancelled() {
            let dispatch = Arc::clone(self);
            self.tasks.spawn(async move { dispatch.give_back_with_others(claimed).await });
            return;
        }
        for one in claimed {
            self.start(one);
        }
    }

    /// Its room is free again as soon as the answer is handed over.
    fn start(self: &Arc<Self>, mut claimed: ClaimedAttempt) {
        let dispatch = Arc::clone(self);
        self.tasks.spawn(async move {
            let room = claimed.reservation.take();
            let Some(sending) = dispatch.wait_for_slot(&claimed).await else {
                drop(room);
                return dispatch.give_back_with_others(vec![claimed]).await;
            };
            claimed.started_at = dispatch.courier.clock.now();
            // In a box: what a task is made of is moved several times as it starts.
            let finished = Box::pin(run_attempt(&dispatch.courier, claimed)).await;
            sending.note_answer(finished.exchange.answer.verdict() == AnswerVerdict::Delivered);
            let Ok(place) = dispatch.answers.reserve().await else {
                tracing::error!("an answer could not be recorded; its lease will end");
                return;
            };
            drop(room);
            place.send(finished);
            if dispatch.is_limited.swap(false, Ordering::Relaxed) {
                dispatch.courier.store.nudge().wake_for_deliveries();
            }
        });
    }

    /// Its place, unless the process stops, the host is not quick any more, or it would be late by then.
    async fn wait_for_slot(&self, claimed: &ClaimedAttempt) -> Option<HostSlot> {
        let pair = (claimed.firm_id, claimed.host.clone());
        let until = claimed.claimed_instant + SEND_WITHIN;
        let until = until.min(Instant::now() + self.courier.settings.slot_wait_max);
        // What has its place is sent, also at a stop.
        tokio::select! {
            biased;
            place = self.limits.host_slots.take(&pair) => Some(place),
            () = self.stop.cancelled() => None,
            () = sleep_until(until) => {
                self.limits.host_slots.mark_slow(&pair);
                None
            }
        }
    }

    /// Gives back what is not sent; whatever else is not meanwhile goes with it.
    async fn give_back_with_others(&self, claimed: Vec<ClaimedAttempt>) {
        let unsent = || self.unsent.lock().unwrap_or_else(PoisonError::into_inner);
        unsent().extend(claimed);
        let _alone = self.giving_back.lock().await;
        let mut all = std::mem::take(&mut *unsent());
        // It takes no room from now on.
        all.iter_mut().for_each(|one| one.reservation = None);
        let until = Instant::now() + self.courier.settings.scale.lease() / 2;
        while let Err(error) = give_back(&self.courier, &all).await {
            if !error.is_transient() || self.stop.is_cancelled() || Instant::now() > until {
                tracing::error!(%error, "what was not sent was not given back; its leases will end");
                return;
            }
            tracing::warn!(%error, "could not give back what was not sent; will try again");
            sleep(GIVE_BACK_RETRY_AFTER).await;
        }
    }
}

/// Sends a try, and waits for what comes of it.
pub(crate) async fn run_attempt(
    courier: &DelivererContext,
    claimed: ClaimedAttempt,
) -> FinishedAttempt {
    let traced = TraceSpan::attempt(claimed.traceparent, claimed.number);
    let exchange = {
        // Where it is pinned it stays: what is handed on is kept twice.
        let sent = pin!(send(courier, &claimed));
        trace::scope(traced.traceparent(), sent).await
    };
    crash::point("answered");
    traced.tried(exchange.answer.class(), exchange.answer.status());
    let claimed = ClaimedAttempt { traceparent: traced.traceparent(), ..claimed };
    FinishedAttempt { claimed, exchange, finished_at: courier.clock.now() }
}
