//! Wrong keys, counted by address. Over 20 a minute they are refused (rulings 1, 3 and 5).
//!
//! All servers count unknown keys together, in the database. A text that cannot be a key needs no
//! look-up. This server counts such texts alone, together with the unknown keys that it saw. It
//! remembers a refusal of the database until a call can be admitted again.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};

use domain::access::rate::{
    RateWindow, WRONG_KEYS_PER_ADDRESS, address_counter, retry_after_seconds,
};
use domain::values::Timestamp;
use projector::calls::{self, WrongKeyCount};
use sqlx::PgPool;
use telemetry::metrics::WRONG_KEYS;

use crate::error::Error;

const WRONG_KEYS_MAX: usize = WRONG_KEYS_PER_ADDRESS as usize;

/// Wrong keys that this server saw. The number of counters is fixed, and each has one window.
#[derive(Debug, Default)]
pub struct WrongKeys(Mutex<HashMap<i32, RateWindow>>);

impl WrongKeys {
    /// The answer to a text that cannot be a key.
    pub(crate) fn count_malformed(&self, address: IpAddr, now: Timestamp) -> Error {
        WRONG_KEYS.count(&[("kind", "malformed")]);
        self.in_window(address, |window| match window.seconds_to_wait(WRONG_KEYS_MAX, now) {
            Some(seconds) => Error::RateLimited(seconds),
            None => {
                window.count_call(now);
                Error::Unauthorized
            }
        })
    }

    /// The answer to an unknown key.
    pub(crate) async fn count_unknown(
        &self,
        pool: &PgPool,
        address: IpAddr,
        now: Timestamp,
    ) -> Result<Error, sqlx::Error> {
        WRONG_KEYS.count(&[("kind", "unknown")]);
        if let Some(seconds) =
            self.in_window(address, |window| window.seconds_to_wait(WRONG_KEYS_MAX, now))
        {
            return Ok(Error::RateLimited(seconds));
        }
        let counter = address_counter(address);
        Ok(match calls::count_wrong_key(pool, counter, now.get()).await? {
            WrongKeyCount::Full { since } => {
                self.in_window(address, |window| window.refuse_since(since.into()));
                Error::RateLimited(retry_after_seconds(since.into(), now))
            }
            WrongKeyCount::Counted => {
                self.in_window(address, |window| window.count_call(now));
                Error::Unauthorized
            }
        })
    }

    fn in_window<T>(&self, address: IpAddr, act: impl FnOnce(&mut RateWindow) -> T) -> T {
        let mut windows = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        act(windows.entry(address_counter(address)).or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each address has a count of its own, for a minute.
    #[test]
    fn b13_the_21st_malformed_key_is_429() {
        let now: Timestamp = "2026-11-01T10:00:00.000Z".parse().unwrap();
        let (one, other) = ("192.0.2.1".parse().unwrap(), "192.0.2.2".parse().unwrap());
        let wrong_keys = WrongKeys::default();
        for _ in 0..20 {
            assert_eq!(wrong_keys.count_malformed(one, now), Error::Unauthorized);
        }
        assert_eq!(wrong_keys.count_malformed(one, now), Error::RateLimited(60));
        assert_eq!(wrong_keys.count_malformed(other, now), Error::Unauthorized);
    }
}
