//! The rate of sign-ins that fail, by address: at the provider, and by wrong tokens. Each server
//! counts alone: the rate protects the provider from questions, and neither a password nor a token
//! can be guessed.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use domain::access::rate::{RateWindow, WINDOW_SECONDS, WRONG_KEYS_PER_ADDRESS, counted_network};
use domain::values::Timestamp;

/// Failures of an address within a window, with the questions under way.
const FAILURES_MAX: usize = WRONG_KEYS_PER_ADDRESS as usize;

/// The failed sign-ins of each address. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct SignInRates(Arc<Mutex<HashMap<Ipv6Addr, AddressTries>>>);

#[derive(Debug, Default)]
struct AddressTries {
    failures: RateWindow,
    under_way: usize,
}

/// A question to the provider under way. It counts like a failure until it ends.
#[derive(Debug)]
pub(crate) struct SignInTry {
    rates: SignInRates,
    network: Ipv6Addr,
}

impl SignInRates {
    /// Admits a question of this address, or returns the seconds until one is admitted.
    pub(crate) fn begin_try(&self, address: IpAddr, now: Timestamp) -> Result<SignInTry, u64> {
        let network = counted_network(address);
        let mut addresses = self.lock_addresses();
        addresses.retain(|_, tries| {
            tries.under_way > 0 || tries.failures.seconds_to_wait(1, now).is_some()
        });
        let tries = addresses.entry(network).or_default();
        let room = FAILURES_MAX.saturating_sub(tries.under_way);
        if let Some(seconds) = tries.failures.seconds_to_wait(room, now) {
            return Err(seconds);
        }
        if room == 0 {
            return Err(WINDOW_SECONDS.into());
        }
        tries.under_way += 1;
        Ok(SignInTry { rates: self.clone(), network })
    }

    fn lock_addresses(&self) -> MutexGuard<'_, HashMap<Ipv6Addr, AddressTries>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SignInTry {
    /// Counts the question as a failure.
    pub(crate) fn count_failure(self, now: Timestamp) {
        self.rates.lock_addresses().entry(self.network).or_default().failures.count_call(now);
    }
}

impl Drop for SignInTry {
    fn drop(&mut self) {
        if let Some(tries) = self.rates.lock_addresses().get_mut(&self.network) {
            tries.under_way -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        chrono::DateTime::from_timestamp(second, 0).unwrap().into()
    }

    /// An open question counts until its end.
    #[test]
    fn addresses_have_20_open_questions_at_most() {
        let rates = SignInRates::default();
        let (one, other) = ("192.0.2.1".parse().unwrap(), "192.0.2.2".parse().unwrap());
        let mut open: Vec<_> = (0..20).map(|_| rates.begin_try(one, at(0)).unwrap()).collect();
        assert_eq!(rates.begin_try(one, at(0)).err(), Some(60));
        assert!(rates.begin_try(other, at(0)).is_ok());
        open.pop();
        let last = rates.begin_try(one, at(0)).unwrap();
        last.count_failure(at(0));
        assert_eq!(rates.begin_try(one, at(10)).err(), Some(50));
        drop(open);
        assert!(rates.begin_try(one, at(10)).is_ok());
    }

    /// After the wait the address is forgotten.
    #[test]
    fn twenty_failures_make_an_address_wait() {
        let rates = SignInRates::default();
        let (one, other) = ("2001:db8::1".parse().unwrap(), "192.0.2.2".parse().unwrap());
        for _ in 0..20 {
            rates.begin_try(one, at(0)).unwrap().count_failure(at(0));
        }
        assert_eq!(rates.begin_try("2001:db8::2".parse().unwrap(), at(20)).err(), Some(40));
        let _open = rates.begin_try(other, at(60)).unwrap();
        assert_eq!(rates.lock_addresses().len(), 1);
        assert!(rates.begin_try(one, at(60)).is_ok());
    }
}
