//! Queueing: the events whose place is free, their rows, the lanes given their work; and what of it is claimed
//! at once.

use std::collections::HashSet;

use domain::context::Context;
use eventstore::{Appending, RecordedEvent};
use uuid::Uuid;

use super::matches::{self, Matches};
use super::rows::{self, Leases, Row, lane_ids};
use crate::at_once::{AtOnce, Fits, Read};
use crate::claim::Taken;
use crate::compose::Wanted;
use crate::lanes;
use crate::settings::DeliveryError;

/// So many deliveries are queued whether or not there is room for them, and are within a claim's memory; of
/// more, a part may wait. Fewer than a host may have out.
const FEW: usize = 16;

/// What was queued.
#[derive(Default)]
pub(crate) struct Queued {
    /// That, as it is in the log.
    pub(crate) events: Vec<RecordedEvent>,
    /// The last position taken in, when it is not the last one read.
    pub(crate) reached: Option<i64>,
    /// Whose occurrences wait for room, if any do: all of them, or those after what was reached.
    pub(super) left: Option<Uuid>,
    /// What of it was claimed at once.
    pub(super) taken: Option<Taken>,
}

impl Queued {
    /// Whether nothing of it is left to be claimed.
    pub(super) fn all_is_taken(&self) -> bool {
        self.events.len() == self.taken.as_ref().map_or(0, |taken| taken.leased.len())
    }
}

/// Queues what is not queued, in the order it is found: the events, their outbox rows, the lanes
/// given their work. `by` says for each occurrence who queues it, and as a part of what.
pub(crate) async fn queue(
    (appending, at_once): (&mut Appending<'_>, Option<(AtOnce<'_>, Option<Read>)>),
    matches: &Matches<'_>,
    mut by: impl FnMut(&RecordedEvent) -> Context,
) -> Result<Queued, DeliveryError> {
    let (at_once, read) = at_once.unzip();
    let read = read.flatten();
    let mut rows = matches.rows();
    let fits = fits((appending, at_once), &rows).await?;
    let left = rows.get(fits.rows).map(|row| row.leased.firm_id);
    rows.truncate(fits.rows);
    let last = rows.last().filter(|_| left.is_some());
    let reached = last.map(|row| row.position).or(matches.reached.filter(|_| left.is_none()));
    if rows.is_empty() {
        return Ok(Queued { reached, left, ..Queued::default() });
    }
    let mut new = Vec::with_capacity(rows.len());
    for ((occurred, hook_id), row) in matches.pairs.iter().zip(&mut rows) {
        let context = by(occurred.recorded);
        row.leased.traceparent = context.traceparent.map(|place| place.to_string());
        new.push(occurred.delivery_to(*hook_id, context));
    }
    let read = async {
        match at_once {
            Some(at_once) if at_once.ahead && read.is_none() => {
                let sent = rows.iter().map(|row| &row.leased);
                let sent = sent.filter(|row| fits.may_send(row.delivery_id));
                at_once.read_ahead(&Wanted::by(sent)).await.map(Some)
            }
            Some(_) | None => Ok(read),
        }
    };
    let append = async {
        // Hardly ever is one of them queued before, and to ask makes an event a third dearer: a pass that
        // claims fails then, and what it had is queued by one that asks.
        if at_once.is_some() {
            appending.append(new).await
        } else {
            appending.append_new(new).await
        }
    };
    let (events, read) = tokio::join!(append, read);
    let (events, read) = (events?, read?);
    keep_new(&mut rows, &events);
    let mut queued = Queued { events, reached, left, taken: None };
    let Some(first) = queued.events.first() else {
        return Ok(queued);
    };
    let (now, connection) = (first.context.recorded_at, appending.connection());
    match at_once {
        Some(at_once) => {
            let chosen = at_once.choose(connection, (&rows, &fits), now).await?;
            queued.taken = at_once.take(connection, (chosen, read), now).await?;
        }
        None => lanes::lock(connection, &lane_ids(&rows)).await?,
    }
    let lease = at_once.map(|by| by.courier.settings.scale.lease()).unwrap_or_default();
    let leases = Leases::of(queued.taken.as_ref(), (now.get(), lease));
    rows::insert(connection, &rows, &leases).await?;
    Ok(queued)
}

/// Reads what telling of these takes, if they are few and it most likely will be told.
pub(super) async fn read_ahead(
    at_once: Option<AtOnce<'_>>,
    events: &[RecordedEvent],
) -> Result<Option<Read>, DeliveryError> {
    match at_once {
        Some(at_once) if at_once.ahead && events.len() <= FEW => {
            at_once.read_ahead(&matches::wanted(events)).await.map(Some)
        }
        Some(_) | None => Ok(None),
    }
}

/// What of these rows is queued now.
async fn fits(
    (appending, at_once): (&mut Appending<'_>, Option<AtOnce<'_>>),
    rows: &[Row],
) -> Result<Fits, DeliveryError> {
    match at_once {
        Some(at_once) if rows.len() > FEW || (at_once.looks && !rows.is_empty()) => {
            at_once.fits(appending.connection(), rows).await
        }
        Some(_) | None => Ok(Fits::all(rows.len())),
    }
}

/// Leaves out what was queued before.
fn keep_new(rows: &mut Vec<Row>, events: &[RecordedEvent]) {
    if events.len() < rows.len() {
        let new: HashSet<&str> = events.iter().map(|event| event.aggregate_id.as_str()).collect();
        rows.retain(|row| new.contains(row.leased.delivery_id.to_string().as_str()));
    }
}
