//! Host slots: a process has a number of slots for each pair of a firm and a host (ruling 34,
//! limits in flight). An attempt holds a slot while it is sent. An attempt that was claimed ahead
//! waits for its slot here.
//!
//! The slots also measure how quickly hosts answer.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use domain::delivery::AnswerVerdict;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::slot_table::{FirmAndHost, SlotTable};

/// Pairs that are remembered, at most.
const PAIRS_MAX: usize = 10_000;

/// The slots of a process. Clones share them.
#[derive(Debug, Clone)]
pub(crate) struct HostSlots {
    table: Arc<Mutex<SlotTable<SlotSender>>>,
}

/// A caller that waits for its slot.
type SlotSender = oneshot::Sender<HostSlot>;

/// A slot, held until it is dropped.
#[derive(Debug)]
pub(crate) struct HostSlot {
    slots: HostSlots,
    pair: FirmAndHost,
    since: Instant,
}

impl HostSlots {
    /// This many slots for each pair.
    pub(super) fn new(each: usize) -> Self {
        Self { table: Arc::new(Mutex::new(SlotTable::new(each, PAIRS_MAX))) }
    }

    /// Changes the number of slots of each pair. If it falls, slots in use stay in use.
    pub(super) fn resize(&self, each: usize) {
        let served = self.lock_table().resize(each);
        for (pair, caller) in served {
            self.hand_over(&pair, Some(caller));
        }
    }

    /// Waits for a free slot. Callers are served in their order.
    pub(crate) async fn take_slot(&self, pair: &FirmAndHost) -> HostSlot {
        let (caller, waits) = oneshot::channel();
        let served = self.lock_table().join_line(pair, caller);
        self.hand_over(pair, served);
        match waits.await {
            Ok(slot) => slot,
            // The table keeps each caller until it is served.
            Err(_) => unreachable!("a waiting caller was dropped"),
        }
    }

    /// The mean time to an answer, if the host answers quickly.
    pub(crate) fn answers_in(&self, pair: &FirmAndHost) -> Option<Duration> {
        self.lock_table().mean_answer(pair)
    }

    /// Forgets the mean: an attempt waited here too long for its slot.
    pub(crate) fn mark_slow(&self, pair: &FirmAndHost) {
        self.lock_table().note_answer(pair, None);
    }

    /// Sends a caller the slot that it got. A caller that no longer waits drops the slot, and the
    /// slot goes to the next caller.
    fn hand_over(&self, pair: &FirmAndHost, caller: Option<SlotSender>) {
        if let Some(caller) = caller {
            let slot = HostSlot { slots: self.clone(), pair: pair.clone(), since: Instant::now() };
            drop(caller.send(slot));
        }
    }

    fn lock_table(&self) -> MutexGuard<'_, SlotTable<SlotSender>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl HostSlot {
    /// Notes the time to an answer. A host that did not accept the delivery does not count as
    /// quick.
    pub(crate) fn note_answer(self, verdict: AnswerVerdict) {
        let took = (verdict == AnswerVerdict::Delivered).then(|| self.since.elapsed());
        self.slots.lock_table().note_answer(&self.pair, took);
    }
}

impl Drop for HostSlot {
    fn drop(&mut self) {
        let served = self.slots.lock_table().give_back(&self.pair);
        self.slots.hand_over(&self.pair, served);
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures::poll;
    use tokio::time::advance;
    use uuid::Uuid;

    use super::*;

    fn pair(firm: u128) -> FirmAndHost {
        (Uuid::from_u128(firm), "a.example".to_owned())
    }

    #[tokio::test(start_paused = true)]
    async fn a_waiting_caller_gets_the_next_slot() {
        let places = HostSlots::new(2);
        let busy = pair(1);
        let (first, _second) = (places.take_slot(&busy).await, places.take_slot(&busy).await);
        let (mut third, mut fourth) =
            (pin!(places.take_slot(&busy)), pin!(places.take_slot(&busy)));
        assert!(poll!(&mut third).is_pending() && poll!(&mut fourth).is_pending());
        assert!(poll!(pin!(places.take_slot(&pair(2)))).is_ready(), "another firm has its own");
        drop(first);
        assert!(poll!(&mut fourth).is_pending());
        assert!(poll!(&mut third).is_ready());
    }

    #[tokio::test(start_paused = true)]
    async fn a_leaving_caller_passes_its_slot_on() {
        let places = HostSlots::new(1);
        let busy = pair(1);
        let first = places.take_slot(&busy).await;
        let mut third = pin!(places.take_slot(&busy));
        {
            let mut second = pin!(places.take_slot(&busy));
            assert!(poll!(&mut second).is_pending());
            assert!(poll!(&mut third).is_pending());
            drop(first);
            // The second caller was given the slot, and leaves without having looked.
        }
        assert!(poll!(&mut third).is_ready());
    }

    #[tokio::test(start_paused = true)]
    async fn a_growing_share_serves_waiting_callers() {
        let places = HostSlots::new(1);
        let busy = pair(1);
        let _first = places.take_slot(&busy).await;
        let mut second = pin!(places.take_slot(&busy));
        assert!(poll!(&mut second).is_pending());
        places.resize(2);
        assert!(poll!(&mut second).is_ready());
        places.resize(1);
        assert!(poll!(pin!(places.take_slot(&busy))).is_pending());
    }

    #[tokio::test(start_paused = true)]
    async fn last_answers_tell_a_hosts_response_time() {
        let places = HostSlots::new(1);
        assert_eq!(places.answers_in(&pair(1)), None);
        let answered_in = async |millis, verdict| {
            let place = places.take_slot(&pair(1)).await;
            advance(Duration::from_millis(millis)).await;
            place.note_answer(verdict);
            places.answers_in(&pair(1))
        };
        let mean = |millis| Some(Duration::from_millis(millis));
        assert_eq!(answered_in(8, AnswerVerdict::Delivered).await, mean(8));
        assert_eq!(answered_in(88, AnswerVerdict::Delivered).await, mean(18));
        assert_eq!(answered_in(10, AnswerVerdict::Delivered).await, mean(17));
        assert_eq!(answered_in(1, AnswerVerdict::Failed).await, None, "it refuses quickly");
        assert_eq!(answered_in(20, AnswerVerdict::Delivered).await, mean(20));
        places.mark_slow(&pair(1));
        assert_eq!(places.answers_in(&pair(1)), None);
    }

    /// A pair of a firm and a host is idle while nothing is sent.
    #[tokio::test]
    async fn only_idle_pairs_are_forgotten() {
        let places = HostSlots::new(1);
        let _sending = places.take_slot(&pair(0)).await;
        for firm in 1..=PAIRS_MAX as u128 {
            places.take_slot(&pair(firm)).await.note_answer(AnswerVerdict::Delivered);
        }
        assert!(places.answers_in(&pair(PAIRS_MAX as u128)).is_some());
        assert!(places.answers_in(&pair(1)).is_none());
        assert!(poll!(pin!(places.take_slot(&pair(0)))).is_pending(), "its place is still taken");
    }
}
