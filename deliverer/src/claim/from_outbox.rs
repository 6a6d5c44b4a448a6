//! The claim of rows that wait in the outbox.

use std::collections::BTreeSet;

use chrono::{DateTime, Utc};
use projector::replays;
use sqlx::PgConnection;
use telemetry::metrics::CLAIM_SECONDS;
use tokio::time::Instant;
use uuid::Uuid;

use super::candidates::{self, ChosenRows, DueScan, LanesToClaim, ReservedRow};
use super::compose::{ComposedDeliveries, compose_deliveries};
use super::leased::{LeasedClaim, LeasedRow};
use super::scan_floors::ScanFloors;
use super::screening::ScreenedRows;
use crate::attempt::ClaimedAttempt;
use crate::error::DeliveryError;
use crate::limits::SendLimits;
use crate::outbox::lanes;
use crate::outbox::row::{OutboxRow, new_lease};
use crate::outbox::wakes::{self, WakeScan};
use crate::settings::DelivererContext;

/// Of the lanes of a claim, one in so many may be woken ones at once. The others are due lanes,
/// which have waited longer.
const WOKEN_SHARE: usize = 2;

/// Claims rows that are due, as far as the limits allow. An empty answer means that no row is due.
///
/// # Errors
/// [`DeliveryError`]; nothing is sent then. If the claim had committed, its leases end and the rows
/// are due again.
pub async fn claim_due(
    deliverer: &DelivererContext,
    limits: &SendLimits,
) -> Result<Vec<ClaimedAttempt>, DeliveryError> {
    claim_beyond(deliverer, limits, &mut ScanFloors::default()).await
}

/// [`claim_due`], for a process that has claimed before and has these floors.
///
/// # Errors
/// As [`claim_due`].
pub async fn claim_beyond(
    deliverer: &DelivererContext,
    limits: &SendLimits,
    floors: &mut ScanFloors,
) -> Result<Vec<ClaimedAttempt>, DeliveryError> {
    loop {
        match claim_from_lanes(deliverer, limits, floors, limits.permit_usage().free).await? {
            ClaimOutcome::Claimed(attempts) => return Ok(attempts),
            ClaimOutcome::NothingDue | ClaimOutcome::HeldElsewhere => return Ok(Vec::new()),
            ClaimOutcome::Parked => {}
            ClaimOutcome::Refused { error, .. } => return Err(error),
        }
    }
}

/// The outcome of a claim.
pub(crate) enum ClaimOutcome {
    /// These attempts must be sent now.
    Claimed(Vec<ClaimedAttempt>),
    /// No row was claimed.
    NothingDue,
    /// No row was claimed, and wakes are left for lanes that another transaction has locked.
    HeldElsewhere,
    /// No row was claimed, and lanes were parked that may have hidden others.
    Parked,
    /// The database refused the claim, and would refuse it again. The claim had locked these lanes,
    /// one at least.
    Refused {
        /// The refusal.
        error: DeliveryError,
        /// The locked lanes.
        lane_ids: Vec<Uuid>,
    },
}

/// Claims from at most `lanes_max` lanes. Errors that may pass are returned as errors.
pub(crate) async fn claim_from_lanes(
    deliverer: &DelivererContext,
    limits: &SendLimits,
    floors: &mut ScanFloors,
    lanes_max: usize,
) -> Result<ClaimOutcome, DeliveryError> {
    let mut progress = ClaimProgress::default();
    match progress.claim_rows(deliverer, limits, floors, lanes_max).await {
        Ok(attempts) if !attempts.is_empty() => Ok(ClaimOutcome::Claimed(attempts)),
        Ok(_) if progress.lanes_parked > 0 => Ok(ClaimOutcome::Parked),
        Ok(_) if progress.wakes_are_left => Ok(ClaimOutcome::HeldElsewhere),
        Ok(_) => Ok(ClaimOutcome::NothingDue),
        // Without a lane there is nothing to claim less of.
        Err(error) if error.is_transient() || progress.locked.is_empty() => Err(error),
        Err(error) => Ok(ClaimOutcome::Refused { error, lane_ids: progress.locked }),
    }
}

/// Facts about a claim that its outcome depends on, also if the claim fails.
#[derive(Default)]
struct ClaimProgress {
    locked: Vec<Uuid>,
    wakes_are_left: bool,
    lanes_parked: u64,
}

impl ClaimProgress {
    async fn claim_rows(
        &mut self,
        deliverer: &DelivererContext,
        limits: &SendLimits,
        floors: &mut ScanFloors,
        lanes_max: usize,
    ) -> Result<Vec<ClaimedAttempt>, DeliveryError> {
        let now = deliverer.clock.now();
        let began = Instant::now();
        let mut appending = deliverer.store.begin().await?;
        let connection = appending.connection();
        let start = floors.start_scan(now.get(), began, deliverer.store.life().life_number());
        let full = limits.full_limits();
        let woken = wakes::absorb_for_claim(
            connection,
            WakeScan {
                now: now.get(),
                from_xid: start.wakes_from_xid,
                lanes_max: lanes_max / WOKEN_SHARE,
            },
            &full,
        )
        .await?;
        self.wakes_are_left = woken.left.are_left;
        let behind_queue = floors.behind_queue.clone();
        let scan = DueScan { now: now.get(), from: start.due_from, behind_queue: &behind_queue };
        let most = lanes_max.saturating_sub(woken.lane_ids.len());
        let due = candidates::lock_lanes(connection, scan, &full, most).await?;
        floors.behind_queue = due.last_queue;
        limits.note_asked(&full.recovered_queues, &due.drained_queues);
        limits.note_visited(&due.visited_queues);
        if due.hides_lanes {
            self.lanes_parked += candidates::park_blocked(connection, scan, &full).await?;
        }
        let lane_ids: BTreeSet<Uuid> =
            due.lane_ids.iter().chain(&woken.lane_ids).copied().collect();
        let lane_ids: Vec<Uuid> = lane_ids.into_iter().collect();
        if lane_ids.is_empty() {
            appending.commit().await?;
            floors.note_scan(woken.left.from_xid, due.first_due_at, now.get());
            return Ok(Vec::new());
        }
        self.locked.clone_from(&lane_ids);
        let lanes = LanesToClaim { lane_ids: &lane_ids, rows_from: woken.rows_from };
        let ChosenRows { rows, blocked, crowded_out } =
            candidates::choose_rows(connection, lanes, now.get(), limits).await?;
        let claim_bytes = deliverer.settings.claim_bytes;
        let chosen = candidates::within_memory(connection, rows, claim_bytes).await?;
        let mut screened = ScreenedRows::new(connection, chosen).await?;
        let leased = give_leases(deliverer, std::mem::take(&mut screened.kept));
        let rows: Vec<&OutboxRow> = leased.iter().map(|one| &one.row).collect();
        let composed = compose_deliveries(deliverer, connection, &rows, now).await?;
        let terms =
            LeaseTerms { now: now.get(), end: now.get() + deliverer.settings.scale.scaled_lease() };
        write_leases(connection, &leased, &composed, terms).await?;
        // A woken lane was not written yet, so it is rescheduled even if nothing was taken from it.
        let is_touched =
            |lane_id: &&Uuid| !blocked.contains(lane_id) || woken.lane_ids.contains(lane_id);
        let touched: Vec<Uuid> = lane_ids.iter().filter(is_touched).copied().collect();
        lanes::reschedule_from(connection, &touched, now.get(), woken.rows_from).await?;
        self.lanes_parked += candidates::park_unresponsive(connection, &crowded_out).await?;
        replays::write_outcomes(connection, &screened.dropped_replays()).await?;
        appending.append(screened.cancelled_events(now)).await?;
        let taken =
            LeasedClaim { leased, composed, claimed_at: now, claimed_instant: Instant::now() };
        appending.commit().await?;
        floors.note_scan(woken.left.from_xid, due.first_due_at, now.get());
        CLAIM_SECONDS.observe(&[], began.elapsed());
        taken.hand_over(deliverer).await
    }
}

/// Gives each row its lease and the number of its attempt.
fn give_leases(deliverer: &DelivererContext, rows: Vec<ReservedRow>) -> Vec<LeasedRow> {
    let give = |(mut row, reservation): ReservedRow| {
        row.tries += 1;
        LeasedRow { row, lease: new_lease(&*deliverer.entropy), reservation }
    };
    rows.into_iter().map(give).collect()
}

/// Begin and end of a lease.
#[derive(Clone, Copy)]
struct LeaseTerms {
    now: DateTime<Utc>,
    end: DateTime<Utc>,
}

/// Writes the leases, each with its token and its body. `width_bucket` finds a row's values in the
/// lists by binary search. A join would compare each row with each.
async fn write_leases(
    connection: &mut PgConnection,
    leased: &[LeasedRow],
    composed: &ComposedDeliveries,
    terms: LeaseTerms,
) -> Result<(), sqlx::Error> {
    if leased.is_empty() {
        return Ok(());
    }
    let mut rows: Vec<(Uuid, i64)> =
        leased.iter().map(|one| (one.row.delivery_id, one.lease)).collect();
    rows.sort_unstable();
    let bodies = || rows.iter().map(|(delivery_id, _)| composed.bodies.get(delivery_id));
    sqlx::query(
        "update outbox
            set lease = ($2::bigint[])[width_bucket(delivery_id, $1::uuid[])],
                tries = tries + 1, leased_at = $5, due_at = $6,
                body_id = coalesce(($3::uuid[])[width_bucket(delivery_id, $1::uuid[])], body_id),
                body_sha256 = coalesce(($4::bytea[])[width_bucket(delivery_id, $1::uuid[])],
                                       body_sha256)
          where delivery_id = any($1)",
    )
    .bind(rows.iter().map(|(delivery_id, _)| *delivery_id).collect::<Vec<_>>())
    .bind(rows.iter().map(|(_, lease)| *lease).collect::<Vec<_>>())
    .bind(bodies().map(|body| body.map(|body| body.body_id)).collect::<Vec<_>>())
    .bind(bodies().map(|body| body.map(|body| body.sha256.to_vec())).collect::<Vec<_>>())
    .bind(terms.now)
    .bind(terms.end)
    .execute(connection)
    .await?;
    Ok(())
}

/// The next time a claim may find a row. A lane that is due counts if it has spare capacity. `None`
/// if no lane waits.
pub async fn next_due(
    deliverer: &DelivererContext,
    limits: &SendLimits,
) -> Result<Option<DateTime<Utc>>, sqlx::Error> {
    next_due_from(deliverer, limits, &mut ScanFloors::default()).await
}

/// [`next_due`], for a process with these floors.
pub async fn next_due_from(
    deliverer: &DelivererContext,
    limits: &SendLimits,
    floors: &mut ScanFloors,
) -> Result<Option<DateTime<Utc>>, sqlx::Error> {
    let connections = deliverer.store.connections();
    let mut connection = connections.take().await?;
    let now = deliverer.clock.now().get();
    let start = floors.start_scan(now, Instant::now(), deliverer.store.life().life_number());
    let scan = DueScan { now, from: start.due_from, behind_queue: &floors.behind_queue };
    let next = candidates::next_due_at(&mut connection, scan, &limits.full_limits()).await?;
    connections.give_back(connection);
    Ok(next)
}
