//! Dispatch: sends each claimed try in a task of its own, and hands its answer to the recorder. All who
//! claim in a process share it, and take turns. What was claimed ahead waits for its place.

use std::collections::{HashMap, HashSet};
use std::pin::pin;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use domain::answer::Verdict;
use domain::pressure::{Candidate, Room};
use eventstore::crash;
use telemetry::trace::{self, Traced};
use tokio::sync::{Mutex, MutexGuard, mpsc};
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::claim::{Claimed, SEND_WITHIN};
use crate::give_back::give_back;
use crate::out::Out;
use crate::permits::{Permit, Permits};
use crate::places::{Pair, Place, Places};
use crate::record::Finished;
use crate::send::send;
use crate::settings::{Courier, DeliveryError, Settings};

/// How long a record waits for fan-out.
const COURTESY: Duration = Duration::from_millis(50);

/// The wait until what could not be given back is given back again.
const GIVE_BACK_AGAIN: Duration = Duration::from_millis(500);

/// What sends.
pub struct Dispatch {
    pub(crate) courier: Courier,
    pub(crate) stop: CancellationToken,
    pub(crate) tasks: TaskTracker,
    permits: Permits,
    answers: mpsc::Sender<Finished>,
    out: Out,
    places: Places,
    /// What got no place, until somebody gives it back.
    unplaced: std::sync::Mutex<Vec<Claimed>>,
    giving_back: Mutex<()>,
    turn: Mutex<()>,
    /// Held while fan-out claims of much what it queues: it needs the lanes that a record needs.
    queueing: Arc<Mutex<()>>,
}

/// What came of what was sent, for the recorder. It ends when nobody can send any more.
pub struct Answers {
    pub(crate) inbox: mpsc::Receiver<Finished>,
    queueing: Arc<Mutex<()>>,
}

impl Answers {
    /// How many wait to be recorded.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.inbox.len()
    }

    /// Waits until fan-out claims nothing, for a moment at most: whichever of the two came second would wait
    /// for the other's lanes within a transaction.
    pub(crate) async fn let_it_queue(&self) {
        timeout(COURTESY, self.queueing.lock()).await.ok();
    }
}

/// The right to claim: two who claimed at a time would give the same permits away.
pub(crate) struct Turn<'a> {
    dispatch: &'a Dispatch,
    _alone: MutexGuard<'a, ()>,
}

impl Turn<'_> {
    /// What there is room for by now: during a turn it only grows.
    pub(crate) fn room(&self) -> Room {
        self.dispatch.permits.room()
    }

    /// What was claimed and is not recorded.
    pub(crate) const fn out(&self) -> &Out {
        &self.dispatch.out
    }

    /// How much of these may be claimed ahead, by firm and host: nothing where others have claimed, who know what is
    /// claimed and not what of it waits here, so that the limits hold over all processes; and nothing where
    /// something waits for a claim, which finds no room behind what is claimed ahead.
    pub(crate) fn ahead(
        &self,
        candidates: &[Candidate],
        shared: &HashSet<Pair>,
    ) -> HashMap<Pair, usize> {
        let Dispatch { courier, places, .. } = self.dispatch;
        let Settings { caps, ahead, .. } = courier.settings;
        let pairs: HashSet<Pair> =
            candidates.iter().map(|one| (one.firm_id, one.host.clone())).collect();
        let most = |pair: Pair| {
            let most = caps.ahead(ahead, places.answers_in(&pair)?);
            Some((pair, most))
        };
        pairs.into_iter().filter(|pair| !shared.contains(pair)).filter_map(most).collect()
    }

    /// It, if what is claimed in it may be sent.
    fn that_sends(self) -> Option<Self> {
        let Dispatch { courier, stop, permits, .. } = self.dispatch;
        let may_send = !stop.is_cancelled() && courier.clock.fault().is_none();
        (may_send && permits.is_any()).then_some(self)
    }
}

impl Dispatch {
    /// Sends until `stop`.
    #[must_use]
    pub fn new(courier: Courier, stop: CancellationToken) -> (Arc<Self>, Answers) {
        let Settings { permits, caps, .. } = courier.settings;
        let ((answers, inbox), queueing) = (mpsc::channel(permits.max(1)), Arc::default());
        let inbox = Answers { inbox, queueing: Arc::clone(&queueing) };
        let dispatch = Self {
            courier,
            stop,
            tasks: TaskTracker::new(),
            permits: Permits::new(permits),
            answers,
            out: Out::new(caps.per_firm_and_host),
            places: Places::new(caps.per_firm_and_host),
            unplaced: std::sync::Mutex::default(),
            giving_back: Mutex::default(),
            turn: Mutex::default(),
            queueing,
        };
        (Arc::new(dispatch), inbox)
    }

    /// What there is room for, once there is any.
    pub(crate) async fn room(&self) -> Room {
        self.permits.any().await;
        self.permits.room()
    }

    /// Waits for a turn, and for room.
    pub(crate) async fn turn(&self) -> Turn<'_> {
        let turn = Turn { dispatch: self, _alone: self.turn.lock().await };
        self.permits.any().await;
        turn
    }

    /// Until it is dropped, a record that has not begun waits.
    pub(crate) async fn queueing(&self) -> MutexGuard<'_, ()> {
        self.queueing.lock().await
    }

    /// A turn, if there is one now, and what is claimed may be sent.
    pub(crate) fn turn_now(&self) -> Option<Turn<'_>> {
        Turn { dispatch: self, _alone: self.turn.try_lock().ok()? }.that_sends()
    }

    /// The same, once nobody else claims and there is room.
    pub(crate) async fn turn_soon(&self) -> Option<Turn<'_>> {
        self.turn().await.that_sends()
    }

    /// Sends what was claimed in this turn; gives back what it is too late for, or has no permit.
    ///
    /// # Errors
    /// [`DeliveryError`]; the leases end by themselves then.
    pub(crate) async fn send(
        self: &Arc<Self>,
        claimed: Vec<Claimed>,
        turn: Turn<'_>,
    ) -> Result<(), DeliveryError> {
        if self.stop.is_cancelled() {
            return give_back(&self.courier, &claimed).await;
        }
        let mut left = Vec::new();
        for claimed in claimed {
            match self.permits.take(claimed.firm_id) {
                Some(permit) => self.start(claimed, permit),
                None => left.push(claimed),
            }
        }
        drop(turn);
        give_back(&self.courier, &left).await
    }

    /// The permit is free again as soon as the answer is handed over: before it is recorded, so that
    /// the nudge of that record finds the room it made.
    fn start(self: &Arc<Self>, mut claimed: Claimed, permit: Permit) {
        // For half of its lease: by no clock that sends does it end before.
        let until = claimed.claimed + self.courier.settings.scale.lease() / 2;
        claimed.unrecorded = Some(self.out.note(claimed.lane_id, until));
        let dispatch = Arc::clone(self);
        self.tasks.spawn(async move {
            let Some(sending) = dispatch.place(&claimed).await else {
                drop(permit);
                return dispatch.give_back_with_others(claimed).await;
            };
            claimed.started_at = dispatch.courier.clock.now();
            // In a box: what a task is made of is moved several times as it starts.
            let finished = Box::pin(finish(&dispatch.courier, claimed)).await;
            sending.ends(finished.exchange.answer.verdict() == Verdict::Delivered);
            let Ok(place) = dispatch.answers.reserve().await else {
                tracing::error!("an answer could not be recorded; its lease will end");
                return;
            };
            finished.claimed.unrecorded.iter().for_each(|one| one.answer());
            drop(permit);
            place.send(finished);
        });
    }

    /// Its place, unless the process stops, the host is not quick any more, or it would be late by then.
    async fn place(&self, claimed: &Claimed) -> Option<Place<'_>> {
        let pair = (claimed.firm_id, claimed.host.clone());
        let until = claimed.claimed + SEND_WITHIN;
        let until = until.min(Instant::now() + self.courier.settings.place_within);
        // What has its place is sent, also at a stop.
        tokio::select! {
            biased;
            place = self.places.take(&pair) => Some(place),
            () = self.stop.cancelled() => None,
            () = sleep_until(until) => {
                self.places.is_slow(&pair);
                None
            }
        }
    }

    /// Gives back what got no place; whatever else got none meanwhile goes with it.
    async fn give_back_with_others(&self, claimed: Claimed) {
        let unplaced = || self.unplaced.lock().unwrap_or_else(PoisonError::into_inner);
        unplaced().push(claimed);
        let _alone = self.giving_back.lock().await;
        let all = std::mem::take(&mut *unplaced());
        all.iter().for_each(Claimed::lease_ends);
        let until = Instant::now() + self.courier.settings.scale.lease() / 2;
        while let Err(error) = give_back(&self.courier, &all).await {
            if !error.is_of_all() || self.stop.is_cancelled() || Instant::now() > until {
                tracing::error!(%error, "what got no place was not given back; its leases will end");
                return;
            }
            tracing::warn!(%error, "could not give back what got no place; will try again");
            sleep(GIVE_BACK_AGAIN).await;
        }
    }
}

/// Sends a try, and waits for what comes of it.
pub(crate) async fn finish(courier: &Courier, claimed: Claimed) -> Finished {
    let traced = Traced::attempt(claimed.place, claimed.number);
    let exchange = {
        // Where it is pinned it stays: what is handed on is kept twice.
        let sent = pin!(send(courier, &claimed));
        trace::at(traced.place(), sent).await
    };
    crash::point("answered");
    traced.tried(exchange.answer.class(), exchange.answer.status());
    let claimed = Claimed { place: traced.place(), ..claimed };
    Finished { claimed, exchange, finished_at: courier.clock.now() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_record_lets_fan_out_claim_first_but_waits_for_a_moment_only() {
        let ((_sender, inbox), queueing) = (mpsc::channel(1), Arc::<Mutex<()>>::default());
        let answers = Answers { inbox, queueing: Arc::clone(&queueing) };
        answers.let_it_queue().await;
        let claims = queueing.lock().await;
        let mut waits = pin!(answers.let_it_queue());
        assert!(futures::poll!(&mut waits).is_pending());
        drop(claims);
        waits.await;
        let (_claims, began) = (queueing.lock().await, Instant::now());
        answers.let_it_queue().await;
        assert_eq!(began.elapsed(), COURTESY);
    }
}
