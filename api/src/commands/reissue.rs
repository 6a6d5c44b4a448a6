//! Reissues a delivery that has ended. The new delivery has an id of its own and a body that is
//! composed anew (ruling 31).

use domain::activity::{Happening, OccurrenceEvent, reissue_id};
use domain::delivery::{
    Consignment, Delivery, DeliveryCommand, DeliveryEvent, DeliveryOf, NotReissued,
    ReissuedDelivery,
};
use domain::event::{Actor, Event};
use eventstore::{AppendError, AppendTransaction, NewEvent, StreamName, load_many};
use projector::firms::{self, FirmStanding};
use projector::{hooks, subjects};
use uuid::Uuid;

use super::parse_reason;
use crate::error::Error;
use crate::service::Service;

/// A requested reissue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewReissue {
    /// The firm.
    pub firm_id: Uuid,
    /// The delivery that has ended.
    pub delivery_id: Uuid,
    /// Id chosen by the caller. A repeated request makes no second delivery.
    pub request_id: Uuid,
    /// The operator's reason.
    pub reason: String,
}

/// Reissues a delivery, and answers the new delivery's id. A repeated request gets the same id.
///
/// # Errors
/// `invalid_request`, `delivery_not_found`, `not_reissued`; `firm_inactive` for a closed firm.
pub async fn reissue(service: &Service, new: &NewReissue, actor: Actor) -> Result<Uuid, Error> {
    let reason = parse_reason(&new.reason)?;
    let delivery_id = reissue_id(new.delivery_id, new.request_id);
    let mut appending = service.store.begin().await?;
    let standing = firms::hold_open(appending.connection(), new.firm_id).await?;
    let standing = standing.ok_or(Error::DeliveryNotFound)?;
    let events = stream_events(service, &mut appending, "Delivery", delivery_id).await?;
    if let Some((firm_id, _)) = events.first() {
        let same_firm = *firm_id == new.firm_id;
        appending.rollback().await?;
        return if same_firm { Ok(delivery_id) } else { Err(Error::DeliveryNotFound) };
    }
    let of = find_ended(service, &mut appending, new).await?;
    if standing == FirmStanding::Closed {
        return Err(Error::FirmInactive);
    }
    let happening = read_occurrence(service, &mut appending, of.occurrence_id).await?;
    let consignment = Consignment {
        form_id: happening.form_id,
        hook_id: of.hook_id,
        occurrence_id: of.occurrence_id,
        response_id: happening.response_id,
        trigger: happening.trigger,
    };
    check_sendable(&mut appending, new.firm_id, &consignment).await?;
    let reissued = ReissuedDelivery {
        reissue_of: new.delivery_id,
        request_id: new.request_id,
        reason,
        consignment,
        report_id: happening.report_id,
        booking_id: happening.booking_id,
    };
    let queued = Delivery::default().decide(&DeliveryCommand::Reissue(reissued));
    let context = service.context(new.firm_id, actor);
    let stream = delivery_id.to_string();
    let queued = NewEvent::number_after(0, &stream, &context, queued.unwrap_or_default());
    // Of two concurrent requests with one id, the later finds the position taken.
    appending.append_new(queued).await?;
    appending.commit().await?;
    Ok(delivery_id)
}

/// Occurrence and subscription of a delivery of this firm that has ended.
async fn find_ended(
    service: &Service,
    appending: &mut AppendTransaction<'_>,
    new: &NewReissue,
) -> Result<DeliveryOf, Error> {
    let events = stream_events(service, appending, "Delivery", new.delivery_id).await?;
    let of_firm = events.first().is_some_and(|(firm_id, _)| *firm_id == new.firm_id);
    if !of_firm {
        return Err(Error::DeliveryNotFound);
    }
    let mut delivery = Delivery::default();
    for (_, event) in events {
        if let Ok(event) = DeliveryEvent::try_from(event) {
            cqrs_es::Aggregate::apply(&mut delivery, event);
        }
    }
    delivery.reissue().map_err(Error::NotReissued)
}

/// Checks that the subscription lives and the response is not erased. Either may end a moment
/// later; the new delivery is then cancelled like any other.
async fn check_sendable(
    appending: &mut AppendTransaction<'_>,
    firm_id: Uuid,
    consignment: &Consignment,
) -> Result<(), Error> {
    let connection = appending.connection();
    if !hooks::is_live(connection, consignment.hook_id).await? {
        return Err(Error::NotReissued(NotReissued::HookRemoved));
    }
    let response = [(firm_id, consignment.response_id)];
    if !subjects::erased_among(connection, &response).await?.is_empty() {
        return Err(Error::NotReissued(NotReissued::SourceErased));
    }
    Ok(())
}

/// The occurrence, from the log. The outbox forgets an occurrence when its delivery ends.
async fn read_occurrence(
    service: &Service,
    appending: &mut AppendTransaction<'_>,
    occurrence_id: Uuid,
) -> Result<Happening, Error> {
    let events = stream_events(service, appending, "Occurrence", occurrence_id).await?;
    match events.into_iter().next() {
        Some((_, Event::Occurrence(OccurrenceEvent::OccurrenceRecorded(happening)))) => {
            Ok(happening)
        }
        _ => Err(Error::Internal(format!("occurrence {occurrence_id} is not in the log"))),
    }
}

/// A stream's events, each with its firm.
async fn stream_events(
    service: &Service,
    appending: &mut AppendTransaction<'_>,
    aggregate_type: &'static str,
    id: Uuid,
) -> Result<Vec<(Uuid, Event)>, Error> {
    let stream = StreamName { aggregate_type, aggregate_id: id.to_string() };
    let upcasters = service.store.upcasters();
    let events = load_many(appending.connection(), &upcasters, &[stream]).await;
    let events = events.map_err(AppendError::from)?;
    Ok(events.into_iter().map(|event| (event.context.firm_id, event.event)).collect())
}
