//! Records the beginning of a new series of signed checkpoints, before its first signature.

use domain::audit::LastSignature;
use domain::delivery::INSTALLATION_FIRM_ID;
use domain::event::Actor;
use domain::operations::{CheckpointSeriesEvent, EndedSeries, SeriesBeginning};
use eventstore::NewEvent;

use crate::error::Error;
use crate::service::Service;

/// Records that the series of this signature ends and a new one begins.
///
/// # Errors
/// `invalid_request` for a reason that is empty or too long.
pub async fn begin(
    service: &Service,
    ended: Option<LastSignature>,
    reason: &str,
    actor: Actor,
) -> Result<(), Error> {
    let ended = ended.map(|last| EndedSeries {
        series: last.series,
        number: last.number,
        key_id: last.key_id,
    });
    let beginning = SeriesBeginning { reason: super::parse_reason(reason)?, ended };
    let context = service.context(INSTALLATION_FIRM_ID, actor);
    let stream = service.entropy.new_id().to_string();
    let event = CheckpointSeriesEvent::CheckpointSeriesBegun(beginning);
    service.store.append(NewEvent::number_after(0, &stream, &context, [event])).await?;
    Ok(())
}
