//! Screening: takes rows out of a claim whose delivery has lost its subject (ruling 27, cancelled).
//!
//! - Responses that were erased.
//! - Partial submissions that were finished before their first attempt (contract, section
//!   Triggers: "stops if they finish later").
//! - Rows of a replay that was stopped. Their delivery had ended before.

use std::collections::HashSet;

use domain::delivery::CancelCause;
use domain::values::Timestamp;
use eventstore::NewEvent;
use projector::replays;
use sqlx::PgConnection;
use uuid::Uuid;
use vault::{KeySubject, responses};

use super::candidates::ReservedRow;
use crate::outbox::row::{OutboxRow, drop_rows};
use crate::outbox::withdraw;

/// The rows of a claim, and the rows that were taken out of the outbox.
pub(super) struct ScreenedRows {
    pub(super) kept: Vec<ReservedRow>,
    erased: Vec<OutboxRow>,
    stopped: Vec<OutboxRow>,
    finished_later: Vec<OutboxRow>,
}

impl ScreenedRows {
    /// Screens the chosen rows.
    pub(super) async fn new(
        connection: &mut PgConnection,
        chosen: Vec<ReservedRow>,
    ) -> Result<Self, sqlx::Error> {
        let (chosen, erased) = part_erased(connection, chosen).await?;
        let (chosen, stopped) = part_stopped(connection, chosen).await?;
        let (kept, finished_later) = part_finished_later(connection, chosen).await?;
        Ok(Self { kept, erased, stopped, finished_later })
    }

    /// The outcome of rows that a replay had queued, for that replay.
    pub(super) fn dropped_replays(&self) -> Vec<(Uuid, Uuid, &'static str)> {
        self.erased
            .iter()
            .chain(&self.stopped)
            .filter_map(|row| Some((row.replay_id?, row.delivery_id, "dropped")))
            .collect()
    }

    /// The cancellations of the rows that were taken out.
    pub(super) fn cancelled_events(&self, now: Timestamp) -> Vec<NewEvent> {
        let mut events =
            withdraw::cancelled_events(&self.finished_later, CancelCause::FinishedLater, now);
        events.extend(withdraw::cancelled_events(&self.erased, CancelCause::SourceErased, now));
        events
    }
}

async fn part_erased(
    connection: &mut PgConnection,
    chosen: Vec<ReservedRow>,
) -> Result<(Vec<ReservedRow>, Vec<OutboxRow>), sqlx::Error> {
    let erased =
        withdraw::erased_of(connection, outbox_rows(&chosen).map(OutboxRow::subject)).await?;
    take_out_rows(connection, chosen, |row| erased.contains(&row.subject())).await
}

async fn part_stopped(
    connection: &mut PgConnection,
    chosen: Vec<ReservedRow>,
) -> Result<(Vec<ReservedRow>, Vec<OutboxRow>), sqlx::Error> {
    let of = outbox_rows(&chosen).filter_map(|row| row.replay_id).collect();
    let stopped = replays::stopped_of(connection, &of).await?;
    let is_stopped =
        |row: &OutboxRow| row.replay_id.is_some_and(|replay_id| stopped.contains(&replay_id));
    take_out_rows(connection, chosen, is_stopped).await
}

/// Claim and submission lock the response's row, so the order of their commits decides.
async fn part_finished_later(
    connection: &mut PgConnection,
    chosen: Vec<ReservedRow>,
) -> Result<(Vec<ReservedRow>, Vec<OutboxRow>), sqlx::Error> {
    let of_partials: HashSet<KeySubject> = outbox_rows(&chosen)
        .filter(|row| row.is_first_of_partial())
        .map(OutboxRow::subject)
        .collect();
    if of_partials.is_empty() {
        return Ok((chosen, Vec::new()));
    }
    let submitted = responses::lock_submitted(connection, &of_partials).await?;
    let is_finished =
        |row: &OutboxRow| row.is_first_of_partial() && submitted.contains(&row.subject());
    take_out_rows(connection, chosen, is_finished).await
}

/// Splits the rows, and deletes the second part from the outbox.
async fn take_out_rows(
    connection: &mut PgConnection,
    chosen: Vec<ReservedRow>,
    is_gone: impl Fn(&OutboxRow) -> bool,
) -> Result<(Vec<ReservedRow>, Vec<OutboxRow>), sqlx::Error> {
    let (gone, rest): (Vec<_>, Vec<_>) = chosen.into_iter().partition(|(row, _)| is_gone(row));
    let gone: Vec<OutboxRow> = gone.into_iter().map(|(row, _)| row).collect();
    drop_rows(connection, &gone.iter().map(|row| row.delivery_id).collect::<Vec<_>>()).await?;
    Ok((rest, gone))
}

fn outbox_rows(chosen: &[ReservedRow]) -> impl Iterator<Item = &OutboxRow> {
    chosen.iter().map(|(row, _)| row)
}
