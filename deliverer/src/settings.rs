//! What the deliverer works with, and the few things that can be set.

use std::sync::Arc;
use std::time::Duration;

use domain::delivery::LEASE_TIME;
use domain::pressure::{CLAIM_AHEAD_WINDOW, CLAIM_MAX_BYTES, HostCaps};
use eventstore::{Clock, Store};
use vault::{Entropy, Keyring};

use crate::outgoing::OutgoingClient;
use crate::targets::KnownTargets;

/// Everything a step of the deliverer needs. Clones share it.
#[derive(Clone)]
pub struct DelivererContext {
    /// The log, and the pool of the main database.
    pub store: Store,
    /// The data keys.
    pub keyring: Keyring,
    /// What time it is.
    pub clock: Clock,
    /// Where random bytes come from.
    pub entropy: Arc<dyn Entropy>,
    /// The outgoing client.
    pub outgoing: OutgoingClient,
    /// What can be set.
    pub settings: DelivererSettings,
    /// Where subscriptions' deliveries go.
    pub targets: Arc<KnownTargets>,
}

/// What can be set.
#[derive(Debug, Clone, Copy)]
pub struct DelivererSettings {
    /// Deliveries in flight per process.
    pub permits: usize,
    /// Bytes of answers that one claim holds (case F9).
    pub claim_bytes: usize,
    /// Deliveries in flight over all processes (ruling 34).
    pub caps: HostCaps,
    /// How long what is claimed ahead may have to wait for its place.
    pub ahead: Duration,
    /// How long what was claimed ahead waits for its place: it is given back then, since its host is not quick any
    /// more, and since what is withdrawn meanwhile is sent all the same (ruling 29).
    pub slot_wait_max: Duration,
    /// How long a process that joins others waits before it sends: until what they have in flight has
    /// come down to their shares. A send ends within 11 s.
    pub join_wait: Duration,
    /// How much faster waits pass than they should; 1 outside tests and drills.
    pub scale: TimeScale,
    /// How long what is personal is kept after a delivery has ended.
    pub retention: Retention,
}

impl Default for DelivererSettings {
    fn default() -> Self {
        Self {
            permits: 256,
            claim_bytes: CLAIM_MAX_BYTES,
            caps: HostCaps::default(),
            ahead: CLAIM_AHEAD_WINDOW,
            slot_wait_max: Duration::from_secs(1),
            join_wait: Duration::from_secs(12),
            scale: TimeScale::REAL,
            retention: Retention::default(),
        }
    }
}

/// How long what is personal about deliveries is kept after they have ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// What was delivered.
    pub delivered: Duration,
    /// What failed or was cancelled.
    pub failed: Duration,
    /// What receivers answered.
    pub answers: Duration,
}

impl Default for Retention {
    fn default() -> Self {
        let days = |days: u64| Duration::from_secs(days * 86_400);
        Self { delivered: days(7), failed: days(30), answers: days(30) }
    }
}

/// How much faster waits pass than they should: 60 makes a minute a second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TimeScale(f64);

impl TimeScale {
    /// Waits are what the contract says.
    pub const REAL: Self = Self(1.0);

    /// A lease is never shorter than this: it must outlast a send.
    const LEASE_MIN: Duration = Duration::from_secs(25);

    /// A scale from 1 to 10,000.
    #[must_use]
    pub fn new(factor: f64) -> Option<Self> {
        (1.0..=10_000.0).contains(&factor).then_some(Self(factor))
    }

    /// Whether waits are what the contract says.
    #[must_use]
    pub fn is_real(self) -> bool {
        self == Self::REAL
    }

    /// A wait, as it passes.
    #[must_use]
    pub fn wait(self, wait: Duration) -> Duration {
        wait.div_f64(self.0)
    }

    /// The lease of a try, as it passes.
    #[must_use]
    pub fn lease(self) -> Duration {
        self.wait(LEASE_TIME).max(Self::LEASE_MIN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scale_shortens_waits_but_never_the_lease_below_a_send() {
        let minute = Duration::from_secs(60);
        assert_eq!(TimeScale::REAL.wait(minute), minute);
        assert_eq!(TimeScale::REAL.lease(), Duration::from_secs(120));
        let fast = TimeScale::new(60.0).unwrap();
        assert_eq!(fast.wait(minute), Duration::from_secs(1));
        assert_eq!(fast.lease(), Duration::from_secs(25));
        assert!([0.0, 0.5, -1.0, f64::NAN, 1e9].map(TimeScale::new).iter().all(Option::is_none));
    }
}
