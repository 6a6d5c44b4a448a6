//! Rates of the portal: requests of a session, and tests of a firm. Each server counts alone.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use domain::access::rate::{RateWindow, WINDOW_SECONDS};
use domain::values::Timestamp;
use uuid::Uuid;

use crate::error::Error;

/// Requests of a session within a window, as many as calls of a key.
const REQUESTS_PER_SESSION: usize = 120;

/// Tests of a firm within a window.
const TESTS_PER_FIRM: usize = 5;

/// The rates of the portal. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct PortalRates {
    sessions: Arc<Mutex<Windows<[u8; 32]>>>,
    tests: Arc<Mutex<Windows<Uuid>>>,
    open_tests: Arc<Mutex<HashSet<Uuid>>>,
}

/// A window of each caller that has called within it.
#[derive(Debug)]
struct Windows<K>(HashMap<K, RateWindow>);

impl<K> Default for Windows<K> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<K: Copy + Eq + Hash> Windows<K> {
    fn admit_caller(&mut self, caller: K, limit: usize, now: Timestamp) -> Result<(), Error> {
        if !self.0.contains_key(&caller) {
            // A window waits for a limit of one as long as it holds a call.
            self.0.retain(|_, window| window.seconds_to_wait(1, now).is_some());
        }
        let window = self.0.entry(caller).or_default();
        match window.seconds_to_wait(limit, now) {
            Some(seconds) => Err(Error::RateLimited(seconds)),
            None => {
                window.count_call(now);
                Ok(())
            }
        }
    }
}

/// A test under way. Its end lets the firm begin another one.
#[derive(Debug)]
pub(super) struct OpenTest {
    open: Arc<Mutex<HashSet<Uuid>>>,
    firm_id: Uuid,
}

impl Drop for OpenTest {
    fn drop(&mut self) {
        lock_shared(&self.open).remove(&self.firm_id);
    }
}

impl PortalRates {
    /// Admits a request of the session with this cookie, or refuses it.
    pub(super) fn admit_session(
        &self,
        cookie_sha256: [u8; 32],
        now: Timestamp,
    ) -> Result<(), Error> {
        lock_shared(&self.sessions).admit_caller(cookie_sha256, REQUESTS_PER_SESSION, now)
    }

    /// Admits a test of the firm, which has one under way at a time.
    pub(super) fn begin_test(&self, firm_id: Uuid, now: Timestamp) -> Result<OpenTest, Error> {
        if !lock_shared(&self.open_tests).insert(firm_id) {
            return Err(Error::RateLimited(u64::from(WINDOW_SECONDS)));
        }
        let test = OpenTest { open: Arc::clone(&self.open_tests), firm_id };
        lock_shared(&self.tests).admit_caller(firm_id, TESTS_PER_FIRM, now)?;
        Ok(test)
    }
}

fn lock_shared<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        chrono::DateTime::from_timestamp(second, 0).unwrap().into()
    }

    #[test]
    fn a_session_gets_120_calls_a_minute() {
        let rates = PortalRates::default();
        for _ in 0..120 {
            assert_eq!(rates.admit_session([1; 32], at(0)), Ok(()));
        }
        assert_eq!(rates.admit_session([1; 32], at(20)), Err(Error::RateLimited(40)));
        assert_eq!(rates.admit_session([2; 32], at(20)), Ok(()), "another session");
        assert_eq!(rates.admit_session([1; 32], at(60)), Ok(()));
    }

    #[test]
    fn windows_of_ended_sessions_are_dropped() {
        let rates = PortalRates::default();
        for session in 0..200 {
            rates.admit_session([session; 32], at(0)).unwrap();
        }
        rates.admit_session([255; 32], at(60)).unwrap();
        assert_eq!(lock_shared(&rates.sessions).0.len(), 1);
    }

    /// A firm sent two tests at once, or six in a minute.
    #[test]
    fn a_firm_runs_one_test_at_once() {
        let (rates, firm, other) = (PortalRates::default(), Uuid::from_u128(1), Uuid::from_u128(2));
        let open = rates.begin_test(firm, at(0)).unwrap();
        assert_eq!(rates.begin_test(firm, at(0)).err(), Some(Error::RateLimited(60)));
        assert!(rates.begin_test(other, at(0)).is_ok(), "another firm");
        drop(open);
        for _ in 1..TESTS_PER_FIRM {
            rates.begin_test(firm, at(1)).unwrap();
        }
        assert_eq!(rates.begin_test(firm, at(2)).err(), Some(Error::RateLimited(58)));
        assert!(rates.begin_test(firm, at(60)).is_ok());
    }
}
