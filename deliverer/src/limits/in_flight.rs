//! Attempts in flight: claimed by this process and not answered, counted by lane.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use domain::delivery::pressure::HostCaps;
use domain::delivery::pressure::flight::FlightCounts;
use uuid::Uuid;

use super::slot_table::FirmAndHost;

/// The attempts in flight of a process.
#[derive(Debug, Clone, Default)]
pub(super) struct InFlight(Arc<Mutex<FlightByLane>>);

type FlightByLane = HashMap<Uuid, (FirmAndHost, usize)>;

/// One attempt in flight, until the guard is dropped.
#[derive(Debug)]
pub(super) struct InFlightGuard {
    of: InFlight,
    lane_id: Uuid,
}

impl InFlight {
    /// Counts one attempt more.
    pub(super) fn count_attempt(&self, lane_id: Uuid, pair: FirmAndHost) -> InFlightGuard {
        self.lock_counts().entry(lane_id).or_insert((pair, 0)).1 += 1;
        InFlightGuard { of: self.clone(), lane_id }
    }

    /// The counts by lane, by firm and host, and by host.
    pub(super) fn flight_counts(&self, caps: HostCaps) -> FlightCounts {
        let mut flight = FlightCounts::default();
        for (lane_id, ((firm_id, host), count)) in self.lock_counts().iter() {
            flight.count_lane(*lane_id, *firm_id, host.clone(), *count, caps);
        }
        flight
    }

    fn lock_counts(&self) -> MutexGuard<'_, FlightByLane> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for InFlightGuard {
    fn drop(&mut self) {
        let mut lanes = self.of.lock_counts();
        if let Some((_, count)) = lanes.get_mut(&self.lane_id) {
            *count -= 1;
            if *count == 0 {
                lanes.remove(&self.lane_id);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answered_attempt_counts_no_more() {
        let (in_flight, caps) = (InFlight::default(), HostCaps::default());
        let (lane, pair) = (Uuid::from_u128(7), (Uuid::from_u128(1), "a.example".to_owned()));
        let [first, second] = [(); 2].map(|()| in_flight.count_attempt(lane, pair.clone()));
        assert_eq!(in_flight.flight_counts(caps).pairs, HashMap::from([(pair.clone(), 2)]));
        drop(first);
        assert_eq!(in_flight.flight_counts(caps).lanes, HashMap::from([(lane, 1)]));
        drop(second);
        assert_eq!(in_flight.flight_counts(caps), FlightCounts::default());
    }
}
