//! The context of the deliverer's workers, and their settings.

use std::sync::Arc;
use std::time::Duration;

use domain::delivery::LEASE_TIME;
use domain::delivery::pressure::{CLAIM_AHEAD_WINDOW, CLAIM_MAX_BYTES, HostCaps};
use domain::delivery::signature::WebhookSecret;
use domain::firm::CLOSED_FIRM_KEPT_FOR;
use eventstore::{Clock, Store};
use vault::{Entropy, Keyring};

use crate::claim::KnownLanes;
use crate::outgoing::OutgoingClient;
use crate::targets::KnownTargets;

/// The context of every step. Clones share it.
#[derive(Clone)]
pub struct DelivererContext {
    /// The log, with the pool of the main database.
    pub store: Store,
    /// The data keys.
    pub keyring: Keyring,
    /// The clock.
    pub clock: Clock,
    /// The source of random bytes.
    pub entropy: Arc<dyn Entropy>,
    /// The outgoing client.
    pub outgoing: OutgoingClient,
    /// The settings.
    pub settings: DelivererSettings,
    /// The targets of subscriptions.
    pub targets: Arc<KnownTargets>,
    /// Lanes that were open.
    pub lanes: Arc<KnownLanes>,
    /// The operator's URL for notices, if there is one.
    pub notices: Option<Arc<NoticeTarget>>,
}

/// The operator's URL for notices (ruling 49).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoticeTarget {
    /// The URL. It is checked like a subscription's target at each attempt.
    pub url: Arc<str>,
    /// The secret that signs notices.
    pub secret: WebhookSecret,
}

/// The settings of a process that delivers.
#[derive(Debug, Clone, Copy)]
pub struct DelivererSettings {
    /// Deliveries in flight per process.
    pub permits: usize,
    /// Bytes of bodies that one claim holds in memory (case F9).
    pub claim_bytes: usize,
    /// Deliveries in flight over all processes (ruling 34, limits in flight).
    pub caps: HostCaps,
    /// Time that an attempt claimed ahead should wait for its slot, at most.
    pub ahead: Duration,
    /// Time after which an attempt claimed ahead is released. Its host has become slow by then. The
    /// limit is short, because a claimed attempt is sent even if its subscription is removed
    /// meanwhile (ruling 29, in flight at removal).
    pub slot_wait_max: Duration,
    /// The wait of a process that joins others, until they have come down to their shares. A send
    /// ends within 11 s.
    pub join_wait: Duration,
    /// Speed of waits. It is 1 outside tests and drills.
    pub scale: TimeScale,
    /// Retention of personal data.
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

/// Time that personal data is kept: of a delivery after its end, of a firm after its closing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// Bodies of delivered deliveries.
    pub delivered: Duration,
    /// Bodies of failed and cancelled deliveries.
    pub failed: Duration,
    /// Answers of receivers.
    pub answers: Duration,
    /// All data of a closed firm, from its closing on.
    pub closed_firm: Duration,
    /// Days that the contents of a response are kept after the last report about it. `None` keeps
    /// them for good (ruling 59).
    pub responses_days: Option<u32>,
}

impl Default for Retention {
    fn default() -> Self {
        let days = |days: u64| Duration::from_secs(days * 86_400);
        Self {
            delivered: days(7),
            failed: days(30),
            answers: days(30),
            closed_firm: CLOSED_FIRM_KEPT_FOR,
            responses_days: None,
        }
    }
}

/// The speed of waits. A speed of 60 makes a minute pass in a second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TimeScale(f64);

impl TimeScale {
    /// The waits of the contract.
    pub const REAL: Self = Self(1.0);

    /// The shortest lease. A lease must outlast a send.
    const LEASE_MIN: Duration = Duration::from_secs(25);

    /// A speed from 1 to 10,000.
    #[must_use]
    pub fn new(factor: f64) -> Option<Self> {
        (1.0..=10_000.0).contains(&factor).then_some(Self(factor))
    }

    /// Whether waits pass at the contract's speed.
    #[must_use]
    pub fn is_real(self) -> bool {
        self == Self::REAL
    }

    /// The scaled wait.
    #[must_use]
    pub fn scaled_wait(self, wait: Duration) -> Duration {
        wait.div_f64(self.0)
    }

    /// The scaled lease of an attempt.
    #[must_use]
    pub fn scaled_lease(self) -> Duration {
        self.scaled_wait(LEASE_TIME).max(Self::LEASE_MIN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scaled_lease_still_outlasts_a_send() {
        let minute = Duration::from_secs(60);
        assert_eq!(TimeScale::REAL.scaled_wait(minute), minute);
        assert_eq!(TimeScale::REAL.scaled_lease(), Duration::from_secs(120));
        let fast = TimeScale::new(60.0).unwrap();
        assert_eq!(fast.scaled_wait(minute), Duration::from_secs(1));
        assert_eq!(fast.scaled_lease(), Duration::from_secs(25));
        assert!([0.0, 0.5, -1.0, f64::NAN, 1e9].map(TimeScale::new).iter().all(Option::is_none));
    }
}
