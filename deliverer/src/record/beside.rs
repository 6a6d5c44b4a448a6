//! The answers beside a batch. Other processes record answers of the same subscription, and ruling
//! 26 (410) counts by the ends of the attempts, not by their records. So a 410 looks for attempts
//! that are not answered yet, and for successes that were recorded before it and ended after it.
//!
//! A batch without a 410 does not look.

use std::collections::HashMap;

use chrono::{DateTime, Utc};
use domain::delivery::{DeliveryEvent, Outcome};
use domain::event::Event;
use domain::values::Timestamp;
use eventstore::tail::{self, RecentAttempts};
use eventstore::{RecordedEvent, load_first};
use sqlx::PgConnection;
use uuid::Uuid;

use super::lane::{GONE_STATUS, LaneState, RecordedSuccess};
use crate::attempt::FinishedAttempt;
use crate::error::DeliveryError;
use crate::settings::DelivererContext;

/// Positions of the log in which successes are looked for: some seconds at full speed. The lane
/// remembers a recorded 410, so only successes since the end of a new one matter.
const POSITIONS_READ_MAX: i64 = 4_000;

/// Reads the answers beside a batch, for the locked lanes with a 410.
pub(super) async fn read_for_batch(
    deliverer: &DelivererContext,
    connection: &mut PgConnection,
    batch: &[&FinishedAttempt],
    lanes: &mut HashMap<Uuid, LaneState>,
) -> Result<(), DeliveryError> {
    let gone = || batch.iter().filter(|one| one.exchange.answer.status() == Some(GONE_STATUS));
    let Some(since) = gone().map(|one| one.finished_at).min() else { return Ok(()) };
    let firm_ids: Vec<Uuid> = gone().map(|one| one.claimed.firm_id).collect();
    let leases: Vec<i64> = batch.iter().map(|one| one.claimed.lease).collect();
    read_for_leases(deliverer, connection, BesideOf { firm_ids, since, leases }, lanes).await
}

/// The look for answers beside these leases.
pub(super) struct BesideOf {
    /// The firms of the lanes.
    pub(super) firm_ids: Vec<Uuid>,
    /// End of the first 410 that is judged.
    pub(super) since: Timestamp,
    /// The leases of the batch.
    pub(super) leases: Vec<i64>,
}

/// Looks for attempts without an answer first: an answer that is recorded between the two looks is
/// seen by the second.
pub(super) async fn read_for_leases(
    deliverer: &DelivererContext,
    connection: &mut PgConnection,
    BesideOf { firm_ids, since, leases }: BesideOf,
    lanes: &mut HashMap<Uuid, LaneState>,
) -> Result<(), DeliveryError> {
    let lane_ids: Vec<Uuid> = lanes.keys().copied().collect();
    let now = deliverer.clock.now().get();
    let ends_by = now + deliverer.settings.scale.scaled_lease();
    for (lane_id, claimed_at) in open_since(connection, &lane_ids, &leases, now, ends_by).await? {
        if let Some(lane) = lanes.get_mut(&lane_id) {
            lane.beside.open_since = Some(claimed_at.into());
        }
    }
    let upcasters = deliverer.store.upcasters();
    let recent = RecentAttempts { firm_ids, since, positions: POSITIONS_READ_MAX };
    let recent = tail::recent_attempts(connection, &upcasters, &recent).await?;
    let ids: Vec<&str> = recent
        .iter()
        .filter_map(recorded_success)
        .map(|(id, _)| id.aggregate_id.as_str())
        .collect();
    let first = load_first(connection, &upcasters, "Delivery", &ids).await?;
    let hooks: HashMap<&str, Uuid> = first
        .iter()
        .filter_map(|first| Some((first.aggregate_id.as_str(), hook_id(first)?)))
        .collect();
    for (recorded, finished_at) in recent.iter().filter_map(recorded_success) {
        let lane = hooks.get(recorded.aggregate_id.as_str()).and_then(|id| lanes.get_mut(id));
        if let (Some(lane), Ok(delivery_id)) = (lane, recorded.aggregate_id.parse()) {
            lane.beside.successes.push(RecordedSuccess { delivery_id, finished_at });
        }
    }
    for lane in lanes.values_mut() {
        lane.beside.successes.sort_by_key(|one| one.finished_at);
    }
    Ok(())
}

/// Lanes with attempts that hold their leases beside these, each with its oldest claim. Whether an
/// attempt whose lease has ended succeeded is not waited for.
async fn open_since(
    connection: &mut PgConnection,
    lane_ids: &[Uuid],
    leases: &[i64],
    now: DateTime<Utc>,
    ends_by: DateTime<Utc>,
) -> Result<Vec<(Uuid, DateTime<Utc>)>, sqlx::Error> {
    sqlx::query_as(
        "select lane_id, min(leased_at) from outbox
          where leased_at is not null and due_at > $3 and due_at <= $4
            and lane_id = any($1) and lease <> all($2)
          group by lane_id",
    )
    .bind(lane_ids)
    .bind(leases)
    .bind(now)
    .bind(ends_by)
    .fetch_all(connection)
    .await
}

/// The event, and the end of its attempt, if the attempt succeeded.
fn recorded_success(recorded: &RecordedEvent) -> Option<(&RecordedEvent, Timestamp)> {
    match &recorded.event {
        Event::Delivery(DeliveryEvent::DeliveryAttempted(attempt))
            if attempt.outcome == Outcome::Delivered =>
        {
            Some((recorded, attempt.finished_at))
        }
        _ => None,
    }
}

/// The subscription of a delivery, from the first event of its stream. `None` for a workflow step.
fn hook_id(first: &RecordedEvent) -> Option<Uuid> {
    let Event::Delivery(event) = &first.event else { return None };
    match event {
        DeliveryEvent::DeliveryAttempted(attempt) => attempt.of.map(|of| of.hook_id),
        DeliveryEvent::DeliveryCancelled { of, .. } => of.map(|of| of.hook_id),
        DeliveryEvent::DeliveryQueued(consignment) => Some(consignment.hook_id),
        DeliveryEvent::DeliveryReissued(reissued) => Some(reissued.consignment.hook_id),
        DeliveryEvent::StepQueued(_)
        | DeliveryEvent::StepRetried(_)
        | DeliveryEvent::DeliveryReplayed(_) => None,
    }
}
