//! Sends the deliveries that an append leased, after its commit.

use std::sync::{Arc, Weak};

use eventstore::{OpenAppend, RecordedEvent, crash};
use telemetry::metrics::CLAIM_SECONDS;
use vault::responses::NewSubmission;

use super::dispatcher::{Dispatcher, SendTiming};
use crate::attempt::SEND_WITHIN;
use crate::claim::in_append::{LeaseContext, QueuedInAppend, queue_and_lease};
use crate::claim::leased::LeasedClaim;
use crate::error::DeliveryError;

/// Leases and sends the deliveries of appends, for as long as the process's dispatcher lives.
#[derive(Clone)]
pub struct AppendLeaser(Weak<Dispatcher>);

impl AppendLeaser {
    /// Leases for this process's dispatcher.
    #[must_use]
    pub fn new(dispatch: &Arc<Dispatcher>) -> Self {
        Self(Arc::downgrade(dispatch))
    }

    /// Queues the deliveries that these occurrences list. Leases a delivery that can be sent at
    /// once: its submission is one of these, and its lane is open and has no due row.
    ///
    /// # Errors
    /// [`DeliveryError`]; the transaction must be rolled back then.
    pub async fn queue_deliveries(
        &self,
        appending: OpenAppend<'_>,
        occurrences: &[RecordedEvent],
        submissions: &[NewSubmission<'_>],
    ) -> Result<LeasedInAppend, DeliveryError> {
        let dispatch = self.0.upgrade().filter(|dispatch| dispatch.may_send());
        let lease_context = dispatch
            .as_deref()
            .map(|Dispatcher { deliverer, limits, .. }| LeaseContext { deliverer, limits });
        let QueuedInAppend { leased, waits } =
            queue_and_lease(lease_context, appending, occurrences, submissions).await?;
        Ok(LeasedInAppend { leased: dispatch.zip(leased), waits })
    }
}

/// Deliveries that an append has leased. Dropping them before the commit undoes their reservation.
pub struct LeasedInAppend {
    leased: Option<(Arc<Dispatcher>, LeasedClaim)>,
    waits: bool,
}

impl LeasedInAppend {
    /// Whether some deliveries of the append wait for a worker.
    #[must_use]
    pub const fn has_waiting(&self) -> bool {
        self.waits
    }

    /// Forgets the lanes of the leased deliveries, after the append was refused.
    pub fn forget_lanes(self) {
        if let Some((dispatch, taken)) = &self.leased {
            dispatch.deliverer.lanes.forget(taken.lanes());
        }
    }

    /// Sends the leased deliveries. The append must have committed. Deliveries that come too late
    /// to be sent are released.
    pub fn send_leased(self) {
        let Some((dispatch, taken)) = self.leased.filter(|(_, taken)| !taken.is_empty()) else {
            return;
        };
        crash::point("claimed");
        let took = taken.claimed_instant().elapsed();
        CLAIM_SECONDS.observe(&[], took);
        let timing = if took > SEND_WITHIN { SendTiming::TooLate } else { SendTiming::InTime };
        dispatch.start_all(taken.into_attempts(), timing);
    }
}
