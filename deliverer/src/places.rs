//! Places: how much a process sends at once from a firm to a host (ruling 34), and how quickly hosts answer. What
//! was claimed ahead waits here for its place.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use uuid::Uuid;

/// As many pairs are remembered.
const MOST: usize = 10_000;

/// Of how many answers the mean is of, about.
const WEIGHT: u32 = 8;

/// A firm, and a host that something of it goes to.
pub(crate) type Pair = (Uuid, String);

/// The places of a process.
#[derive(Debug)]
pub(crate) struct Places {
    each: usize,
    pairs: Mutex<HashMap<Pair, Known>>,
}

#[derive(Debug)]
struct Known {
    free: Arc<Semaphore>,
    answers_in: Option<Duration>,
}

/// A place, until it is dropped.
#[derive(Debug)]
pub(crate) struct Place<'a> {
    places: &'a Places,
    pair: Pair,
    since: Instant,
    _free: Option<OwnedSemaphorePermit>,
}

impl Places {
    /// So many for each firm and host.
    pub(crate) fn new(each: usize) -> Self {
        Self { each, pairs: Mutex::default() }
    }

    /// One of them, as soon as one is free, in the order of those who wait.
    pub(crate) async fn take(&self, pair: &Pair) -> Place<'_> {
        // None is ever closed.
        let free = self.free(pair).acquire_owned().await.ok();
        Place { places: self, pair: pair.clone(), since: Instant::now(), _free: free }
    }

    /// How quickly it answers, if that is known.
    pub(crate) fn answers_in(&self, pair: &Pair) -> Option<Duration> {
        self.pairs().get(pair)?.answers_in
    }

    /// Who waited for one there got none in time.
    pub(crate) fn is_slow(&self, pair: &Pair) {
        if let Some(known) = self.pairs().get_mut(pair) {
            known.answers_in = None;
        }
    }

    fn free(&self, pair: &Pair) -> Arc<Semaphore> {
        let mut pairs = self.pairs();
        if let Some(known) = pairs.get(pair) {
            return Arc::clone(&known.free);
        }
        if pairs.len() >= MOST {
            pairs.retain(|_, known| Arc::strong_count(&known.free) > 1);
        }
        let free = Arc::new(Semaphore::new(self.each));
        pairs.insert(pair.clone(), Known { free: Arc::clone(&free), answers_in: None });
        free
    }

    fn pairs(&self) -> MutexGuard<'_, HashMap<Pair, Known>> {
        self.pairs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place<'_> {
    /// The host has answered; whether it took what was sent. One that does not is not known to be quick.
    pub(crate) fn ends(self, took_it: bool) {
        let took = self.since.elapsed();
        if let Some(known) = self.places.pairs().get_mut(&self.pair) {
            let before = known.answers_in.unwrap_or(took);
            let mean = (before * (WEIGHT - 1) + took) / WEIGHT;
            known.answers_in = took_it.then_some(mean);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures::poll;
    use tokio::time::advance;

    use super::*;

    fn pair(firm: u128) -> Pair {
        (Uuid::from_u128(firm), "a.example".to_owned())
    }

    #[tokio::test(start_paused = true)]
    async fn who_finds_no_place_free_gets_the_next_one_in_turn() {
        let places = Places::new(2);
        let busy = pair(1);
        let (first, _second) = (places.take(&busy).await, places.take(&busy).await);
        let (mut third, mut fourth) = (pin!(places.take(&busy)), pin!(places.take(&busy)));
        assert!(poll!(&mut third).is_pending() && poll!(&mut fourth).is_pending());
        assert!(poll!(pin!(places.take(&pair(2)))).is_ready(), "another firm has its own");
        drop(first);
        assert!(poll!(&mut fourth).is_pending());
        assert!(poll!(&mut third).is_ready());
    }

    #[tokio::test(start_paused = true)]
    async fn how_quickly_a_host_answers_is_told_by_its_last_answers() {
        let places = Places::new(1);
        assert_eq!(places.answers_in(&pair(1)), None);
        let answered_in = async |millis, took_it| {
            let place = places.take(&pair(1)).await;
            advance(Duration::from_millis(millis)).await;
            place.ends(took_it);
            places.answers_in(&pair(1))
        };
        let mean = |millis| Some(Duration::from_millis(millis));
        assert_eq!(answered_in(8, true).await, mean(8));
        assert_eq!(answered_in(88, true).await, mean(18));
        assert_eq!(answered_in(10, true).await, mean(17));
        assert_eq!(answered_in(1, false).await, None, "it refuses quickly");
        assert_eq!(answered_in(20, true).await, mean(20));
        places.is_slow(&pair(1));
        assert_eq!(places.answers_in(&pair(1)), None);
    }

    #[tokio::test]
    async fn of_too_many_those_are_forgotten_where_nothing_is_sent() {
        let places = Places::new(1);
        let _sending = places.take(&pair(0)).await;
        for firm in 1..=MOST as u128 {
            places.take(&pair(firm)).await.ends(true);
        }
        assert!(places.answers_in(&pair(MOST as u128)).is_some());
        assert!(places.answers_in(&pair(1)).is_none());
        assert!(poll!(pin!(places.take(&pair(0)))).is_pending(), "its place is still taken");
    }
}
