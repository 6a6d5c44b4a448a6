//! Permits: the attempts of one process, counted in all and by firm (ruling 34, limits in flight).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use domain::delivery::pressure::permits::PermitUsage;
use telemetry::metrics::{IN_FLIGHT, PERMITS};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use uuid::Uuid;

/// The permits of a process.
pub(super) struct Permits {
    total: usize,
    free: Arc<Semaphore>,
    held: Arc<Mutex<HashMap<Uuid, usize>>>,
}

/// A permit that a firm holds until it is dropped.
#[derive(Debug)]
pub(super) struct Permit {
    _permit: OwnedSemaphorePermit,
    firm_id: Uuid,
    held: Arc<Mutex<HashMap<Uuid, usize>>>,
}

impl Permits {
    pub(super) fn new(total: usize) -> Self {
        PERMITS.set_count(&[], total);
        IN_FLIGHT.shift(0.0);
        Self { total, free: Arc::new(Semaphore::new(total)), held: Arc::default() }
    }

    /// Waits until a permit is free.
    pub(super) async fn wait_until_free(&self) {
        drop(self.free.acquire().await);
    }

    /// The free permits, and the permits that each firm holds.
    pub(super) fn permit_usage(&self) -> PermitUsage {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner).clone();
        PermitUsage { permits: self.total, free: self.free.available_permits(), held }
    }

    /// Takes a free permit for a firm.
    pub(super) fn take_permit(&self, firm_id: Uuid) -> Option<Permit> {
        let permit = Arc::clone(&self.free).try_acquire_owned().ok()?;
        let held = Arc::clone(&self.held);
        *held.lock().unwrap_or_else(PoisonError::into_inner).entry(firm_id).or_default() += 1;
        IN_FLIGHT.shift(1.0);
        Some(Permit { _permit: permit, firm_id, held })
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        IN_FLIGHT.shift(-1.0);
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = held.get_mut(&self.firm_id) {
            *count -= 1;
            if *count == 0 {
                held.remove(&self.firm_id);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The permit counts until its drop.
    #[tokio::test]
    async fn a_permit_counts_for_its_firm() {
        let permits = Permits::new(2);
        let firm = Uuid::from_u128(1);
        let first = permits.take_permit(firm).unwrap();
        let second = permits.take_permit(firm).unwrap();
        assert!(permits.take_permit(firm).is_none());
        assert_eq!(permits.permit_usage().free, 0);
        drop(second);
        permits.wait_until_free().await;
        let room = permits.permit_usage();
        assert_eq!(room, PermitUsage { permits: 2, free: 1, held: HashMap::from([(firm, 1)]) });
        drop(first);
        assert_eq!(permits.permit_usage(), PermitUsage::new(2));
    }
}
