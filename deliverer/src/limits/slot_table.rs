//! The slot table: which pairs of a firm and a host have slots taken, and which callers wait.
//!
//! Each operation is one change under the table's lock, and returns the callers that got a slot.
//! The table knows neither its lock nor how a caller is told, so that a model can check it with
//! loom.
//!
//! Between two operations a caller waits only while all slots of its pair are taken.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use uuid::Uuid;

/// Approximate number of answers in the mean.
const MEAN_WEIGHT: u32 = 8;

/// A firm, and a host that it sends to.
pub(crate) type FirmAndHost = (Uuid, String);

/// The slots of each pair. `C` is a waiting caller.
#[derive(Debug)]
pub(super) struct SlotTable<C> {
    slots_each: usize,
    pairs_max: usize,
    pairs: HashMap<FirmAndHost, PairState<C>>,
}

#[derive(Debug)]
struct PairState<C> {
    taken: usize,
    waiting: VecDeque<C>,
    mean_answer: Option<Duration>,
}

impl<C> SlotTable<C> {
    /// This many slots for each pair. Idle pairs are forgotten beyond this many pairs.
    pub(super) fn new(slots_each: usize, pairs_max: usize) -> Self {
        Self { slots_each, pairs_max, pairs: HashMap::new() }
    }

    /// Changes the number of slots of each pair. If it falls, slots in use stay in use. Returns the
    /// callers that got a slot.
    pub(super) fn resize(&mut self, slots_each: usize) -> Vec<(FirmAndHost, C)> {
        if slots_each <= std::mem::replace(&mut self.slots_each, slots_each) {
            return Vec::new();
        }
        let mut served = Vec::new();
        for (pair, state) in &mut self.pairs {
            while let Some(caller) = state.serve_next(slots_each) {
                served.push((pair.clone(), caller));
            }
        }
        served
    }

    /// Adds a caller behind those that wait. Returns the caller that got a slot.
    pub(super) fn join_line(&mut self, pair: &FirmAndHost, caller: C) -> Option<C> {
        if self.pairs.len() >= self.pairs_max && !self.pairs.contains_key(pair) {
            self.pairs.retain(|_, state| state.is_in_use());
        }
        let state = self.pairs.entry(pair.clone()).or_default();
        state.waiting.push_back(caller);
        state.serve_next(self.slots_each)
    }

    /// Takes a slot back. Returns the caller that got it.
    pub(super) fn give_back(&mut self, pair: &FirmAndHost) -> Option<C> {
        let state = self.pairs.get_mut(pair)?;
        state.taken -= 1;
        state.serve_next(self.slots_each)
    }

    /// The mean time to an answer, if the host answers quickly.
    pub(super) fn mean_answer(&self, pair: &FirmAndHost) -> Option<Duration> {
        self.pairs.get(pair)?.mean_answer
    }

    /// Notes the time to an answer. `None` forgets the mean.
    pub(super) fn note_answer(&mut self, pair: &FirmAndHost, took: Option<Duration>) {
        if let Some(state) = self.pairs.get_mut(pair) {
            state.mean_answer = took.map(|took| {
                let before = state.mean_answer.unwrap_or(took);
                (before * (MEAN_WEIGHT - 1) + took) / MEAN_WEIGHT
            });
        }
    }
}

impl<C> PairState<C> {
    fn is_in_use(&self) -> bool {
        self.taken > 0 || !self.waiting.is_empty()
    }

    /// Takes a free slot for the first waiting caller.
    fn serve_next(&mut self, slots: usize) -> Option<C> {
        if self.taken >= slots {
            return None;
        }
        let caller = self.waiting.pop_front()?;
        self.taken += 1;
        Some(caller)
    }
}

// Derived, it would ask for a default caller.
impl<C> Default for PairState<C> {
    fn default() -> Self {
        Self { taken: 0, waiting: VecDeque::new(), mean_answer: None }
    }
}

/// Interleavings of a few threads, by loom.
#[cfg(test)]
mod model {
    use loom::model::Builder;
    use loom::sync::{Arc, Condvar, Mutex};
    use loom::thread;

    use super::*;

    /// Threads that are interrupted more often find no more faults, and take minutes.
    const INTERRUPTIONS_MAX: usize = 3;

    /// The slots of a process, with loom's lock in place of the lock of `HostSlots`.
    #[derive(Clone)]
    struct ModelSlots(Arc<Mutex<SlotTable<ModelCaller>>>);

    /// A caller, and whether it waits.
    #[derive(Clone)]
    struct ModelCaller(Arc<(Mutex<CallerState>, Condvar)>);

    enum CallerState {
        Waiting,
        Served(ModelSlot),
        Gone,
    }

    struct ModelSlot {
        slots: ModelSlots,
        pair: FirmAndHost,
    }

    impl ModelSlots {
        fn new(slots_each: usize, pairs_max: usize) -> Self {
            Self(Arc::new(Mutex::new(SlotTable::new(slots_each, pairs_max))))
        }

        fn join_line(&self, pair: &FirmAndHost) -> ModelCaller {
            let caller = ModelCaller(Arc::new((Mutex::new(CallerState::Waiting), Condvar::new())));
            let served = self.0.lock().unwrap().join_line(pair, caller.clone());
            self.hand_over(pair, served);
            caller
        }

        fn take(&self, pair: &FirmAndHost) -> ModelSlot {
            self.join_line(pair).wait()
        }

        fn resize(&self, slots_each: usize) {
            let served = self.0.lock().unwrap().resize(slots_each);
            for (pair, caller) in served {
                self.hand_over(&pair, Some(caller));
            }
        }

        fn hand_over(&self, pair: &FirmAndHost, caller: Option<ModelCaller>) {
            if let Some(caller) = caller {
                caller.serve(ModelSlot { slots: self.clone(), pair: pair.clone() });
            }
        }

        fn taken(&self, pair: &FirmAndHost) -> usize {
            self.0.lock().unwrap().pairs.get(pair).map_or(0, |state| state.taken)
        }
    }

    impl ModelCaller {
        fn serve(self, slot: ModelSlot) {
            let (state, changed) = &*self.0;
            let mut state = state.lock().unwrap();
            if let CallerState::Waiting = *state {
                *state = CallerState::Served(slot);
                changed.notify_one();
            } else {
                drop(state);
                // A caller that no longer waits drops the slot.
                drop(slot);
            }
        }

        /// loom reports a deadlock if the caller is never served.
        fn wait(self) -> ModelSlot {
            let (state, changed) = &*self.0;
            let mut state = state.lock().unwrap();
            loop {
                match std::mem::replace(&mut *state, CallerState::Waiting) {
                    CallerState::Served(slot) => return slot,
                    CallerState::Waiting | CallerState::Gone => {
                        state = changed.wait(state).unwrap();
                    }
                }
            }
        }

        fn give_up(self) {
            let state = std::mem::replace(&mut *self.0.0.lock().unwrap(), CallerState::Gone);
            drop(state);
        }
    }

    impl Drop for ModelSlot {
        fn drop(&mut self) {
            let served = self.slots.0.lock().unwrap().give_back(&self.pair);
            self.slots.hand_over(&self.pair, served);
        }
    }

    fn check(model: impl Fn() + Sync + Send + 'static) {
        let mut builder = Builder::new();
        builder.preemption_bound = Some(INTERRUPTIONS_MAX);
        builder.check(model);
    }

    fn pair(firm: u128) -> FirmAndHost {
        (Uuid::from_u128(firm), "a.example".to_owned())
    }

    /// Room was made by dropping the entry of a caller that had joined and was not served yet.
    #[test]
    fn room_is_made_around_waiting_callers() {
        check(|| {
            let slots = ModelSlots::new(1, 1);
            let others: Vec<_> = [1, 2]
                .map(|firm| {
                    let slots = slots.clone();
                    thread::spawn(move || drop(slots.take(&pair(firm))))
                })
                .into();
            drop(slots.take(&pair(1)));
            for other in others {
                other.join().unwrap();
            }
            assert_eq!([1, 2].map(|firm| slots.taken(&pair(firm))), [0, 0]);
        });
    }

    #[test]
    fn a_slot_passes_by_a_leaving_caller() {
        check(|| {
            let slots = ModelSlots::new(1, 1);
            let held = slots.take(&pair(1));
            let impatient = slots.join_line(&pair(1));
            let patient = slots.join_line(&pair(1));
            let gives_up = thread::spawn(move || impatient.give_up());
            let waits = thread::spawn(move || drop(patient.wait()));
            drop(held);
            gives_up.join().unwrap();
            waits.join().unwrap();
            assert_eq!(slots.taken(&pair(1)), 0);
        });
    }

    #[test]
    fn a_growing_share_serves_each_caller_once() {
        check(|| {
            let slots = ModelSlots::new(1, 1);
            let held = slots.take(&pair(1));
            let waiting = [slots.join_line(&pair(1)), slots.join_line(&pair(1))];
            let growing = slots.clone();
            let grows = thread::spawn(move || growing.resize(2));
            drop(held);
            for caller in waiting {
                let _slot = caller.wait();
                assert!(slots.taken(&pair(1)) <= 2);
            }
            grows.join().unwrap();
            assert_eq!(slots.taken(&pair(1)), 0);
        });
    }
}
