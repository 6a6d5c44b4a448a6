//! The claim of rows that wait in the outbox.

use chrono::{DateTime, Utc};
use projector::replays;
use sqlx::PgConnection;
use telemetry::metrics::CLAIM_SECONDS;
use tokio::time::Instant;
use uuid::Uuid;

use super::candidates;
use super::compose::{ComposedDeliveries, compose};
use super::leased::{LeasedClaim, LeasedRow};
use super::screening::ScreenedRows;
use crate::attempt::ClaimedAttempt;
use crate::error::DeliveryError;
use crate::limits::SendLimits;
use crate::outbox::row::{OutboxRow, new_lease};
use crate::outbox::{lanes, wakes};
use crate::settings::DelivererContext;

/// Claims rows that are due, as far as the limits allow. The result is empty if no row can be
/// claimed now.
///
/// # Errors
/// [`DeliveryError`]; nothing is sent then. If the claim had committed, its leases end and the rows
/// are due again.
pub async fn claim(
    deliverer: &DelivererContext,
    limits: &SendLimits,
) -> Result<Vec<ClaimedAttempt>, DeliveryError> {
    match claim_from_lanes(deliverer, limits, limits.permit_usage().free).await? {
        ClaimOutcome::Claimed(attempts) => Ok(attempts),
        ClaimOutcome::NothingDue | ClaimOutcome::HeldElsewhere => Ok(Vec::new()),
        ClaimOutcome::Refused { error, .. } => Err(error),
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
    /// The database refused the claim, and would refuse it again. The claim had locked these lanes.
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
    lanes_max: usize,
) -> Result<ClaimOutcome, DeliveryError> {
    let mut progress = ClaimProgress::default();
    match progress.run(deliverer, limits, lanes_max).await {
        Ok(attempts) if !attempts.is_empty() => Ok(ClaimOutcome::Claimed(attempts)),
        Ok(_) if progress.wakes_are_left => Ok(ClaimOutcome::HeldElsewhere),
        Ok(_) => Ok(ClaimOutcome::NothingDue),
        Err(error) if error.is_transient() => Err(error),
        Err(error) => Ok(ClaimOutcome::Refused { error, lane_ids: progress.locked }),
    }
}

/// Facts about a claim that its outcome depends on, also if the claim fails.
#[derive(Default)]
struct ClaimProgress {
    locked: Vec<Uuid>,
    wakes_are_left: bool,
}

impl ClaimProgress {
    async fn run(
        &mut self,
        deliverer: &DelivererContext,
        limits: &SendLimits,
        lanes_max: usize,
    ) -> Result<Vec<ClaimedAttempt>, DeliveryError> {
        let now = deliverer.clock.now();
        let began = Instant::now();
        let mut appending = deliverer.store.begin().await?;
        let connection = appending.connection();
        self.wakes_are_left = wakes::absorb(connection, now.get()).await?;
        let lane_ids =
            candidates::lock_lanes(connection, now.get(), &limits.full(), lanes_max).await?;
        if lane_ids.is_empty() {
            appending.commit().await?;
            return Ok(Vec::new());
        }
        self.locked.clone_from(&lane_ids);
        let chosen = candidates::choose_rows(connection, &lane_ids, now.get(), limits).await?;
        let chosen =
            candidates::within_memory(connection, chosen, deliverer.settings.claim_bytes).await?;
        let mut screened = ScreenedRows::of(connection, chosen).await?;
        let mut leased: Vec<LeasedRow> = std::mem::take(&mut screened.kept)
            .into_iter()
            .map(|(row, reservation)| LeasedRow {
                row,
                lease: new_lease(&*deliverer.entropy),
                reservation,
            })
            .collect();
        leased.iter_mut().for_each(|one| one.row.tries += 1);
        let rows: Vec<&OutboxRow> = leased.iter().map(|one| &one.row).collect();
        let composed = compose(deliverer, connection, &rows, now).await?;
        let terms =
            LeaseTerms { now: now.get(), end: now.get() + deliverer.settings.scale.lease() };
        lease(connection, &leased, &composed, terms).await?;
        lanes::reschedule(connection, &lane_ids, now.get()).await?;
        replays::conclude(connection, &screened.dropped_replays()).await?;
        appending.append(screened.cancelled(now)).await?;
        let taken =
            LeasedClaim { leased, composed, claimed_at: now, claimed_instant: Instant::now() };
        appending.commit().await?;
        CLAIM_SECONDS.observe(&[], began.elapsed());
        taken.hand_over(deliverer).await
    }
}

/// Begin and end of a lease.
#[derive(Clone, Copy)]
struct LeaseTerms {
    now: DateTime<Utc>,
    end: DateTime<Utc>,
}

/// Writes the leases, each with its token and its body. `width_bucket` finds a row's values in the
/// lists by binary search. A join would compare each row with each.
async fn lease(
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

/// The next time a row is due in a lane with spare capacity. `None` if there is none.
///
/// # Errors
/// If the database does not answer.
pub async fn next_due(
    deliverer: &DelivererContext,
    limits: &SendLimits,
) -> Result<Option<DateTime<Utc>>, sqlx::Error> {
    let connections = deliverer.store.connections();
    let mut connection = connections.take().await?;
    let next = candidates::next(&mut connection, &limits.full()).await?;
    connections.give_back(connection);
    Ok(next)
}
