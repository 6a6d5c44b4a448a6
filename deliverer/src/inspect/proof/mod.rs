//! The proof: each occurrence lists the subscriptions that its match saw live, and each delivery
//! went as the rules allow. It reads the log, the outbox and the replays at one moment (case I1;
//! the rules are in [`domain::audit::once`]).
//!
//! - `walk` reads the log once, in windows, and judges each occurrence and each delivery.
//! - `queued` reads the outbox and unspread occurrences.
//! - `report` has the scope and the findings.
//!
//! Memory holds one window, all subscriptions there ever were, and the unsent deliveries. Nothing
//! is written, and no lock is taken.

mod queued;
mod report;
mod walk;

use domain::audit::once::{RecordedChange, SubscriptionLives};
use domain::event::Event;
use eventstore::{proof, ranges};
use sqlx::{PgConnection, PgPool};
use uuid::Uuid;

use self::queued::ROWS_PER_READ;
pub use self::report::{ProofExample, ProofReport, ProofScope, UnsentDelivery};
use self::walk::ProofWalk;
use crate::error::DeliveryError;

pub use eventstore::proof::LogFilter;

/// Positions of one window.
const POSITIONS_PER_WINDOW: i64 = 4_096;

/// Proves a database as it is at one moment. `progress` gets the positions that are done, and their
/// total.
///
/// # Errors
/// If the database does not answer, or an event cannot be read.
pub async fn verify(
    pool: &PgPool,
    scope: ProofScope,
    progress: impl Fn(i64, i64) + Send,
) -> Result<ProofReport, DeliveryError> {
    let mut transaction = proof::long_snapshot(pool).await?;
    let connection = &mut *transaction;
    let through = proof::height(connection).await?.min(scope.to);
    let lives = subscription_lives(connection, scope.part.firm_id).await?;
    let subscriptions = lives.count() as u64;
    let report = ProofReport { through, subscriptions, ..ProofReport::default() };
    let archived_through = ranges::border(connection).await?.map_or(0, |border| border.through);
    let mut walk = ProofWalk { scope, lives, report, archived_through };
    let mut after = scope.position_before();
    // A gap is one step, however wide it is: a forged position must not make the proof endless.
    while let Some(first) = proof::next_position(connection, after).await? {
        if first > through {
            break;
        }
        let until = first.saturating_add(POSITIONS_PER_WINDOW - 1).min(through);
        walk.walk_window(connection, first.saturating_sub(1), until).await?;
        progress(until, through);
        after = until;
    }
    walk.find_unknown(connection).await?;
    walk.find_unsent_replays(connection).await?;
    Ok(walk.report)
}

/// The lives of all subscriptions, read from their events.
async fn subscription_lives(
    connection: &mut PgConnection,
    firm_id: Option<Uuid>,
) -> Result<SubscriptionLives, DeliveryError> {
    let mut lives = SubscriptionLives::default();
    let mut after = (String::new(), 0);
    loop {
        let events =
            proof::subscription_lives(connection, &after.0, after.1, firm_id, ROWS_PER_READ)
                .await?;
        for recorded in &events {
            if let (Event::Subscription(event), Ok(hook_id)) =
                (&recorded.event, recorded.aggregate_id.parse::<Uuid>())
            {
                lives.take_change(RecordedChange {
                    hook_id,
                    firm_id: recorded.context.firm_id,
                    position: recorded.position,
                    recorded_at: recorded.context.recorded_at,
                    event,
                });
            }
        }
        match events.into_iter().next_back() {
            Some(last) => after = (last.aggregate_id, last.sequence),
            None => return Ok(lives),
        }
    }
}
