//! What the claim finds that there is nothing to tell of any more (ruling 27): partial submissions
//! that were finished before their first try (contract, section Triggers: "stops if they finish
//! later"), and responses that were erased. They are cancelled in the claim. And what a replay queued that was
//! stopped since: it had ended before.

use std::collections::HashSet;

use domain::delivery::{CancelCause, DeliveryEvent};
use domain::time::Timestamp;
use eventstore::NewEvent;
use projector::{replays, subjects};
use sqlx::PgConnection;
use uuid::Uuid;
use vault::{KeySubject, erasure, responses};

use crate::due::ReservedRow;
use crate::outbox::{OutboxRow, drop_rows};
use crate::settings::{DelivererContext, DeliveryError};

/// Parts what was chosen: what goes on, and what somebody finished later. Claim and submission lock
/// the response's row, so the order of their commits decides.
pub(crate) async fn finished_later(
    connection: &mut PgConnection,
    chosen: Vec<ReservedRow>,
) -> Result<(Vec<ReservedRow>, Vec<OutboxRow>), sqlx::Error> {
    let of_partials: HashSet<KeySubject> =
        rows(&chosen).filter(|row| row.is_first_of_partial()).map(OutboxRow::subject).collect();
    if of_partials.is_empty() {
        return Ok((chosen, Vec::new()));
    }
    let submitted = responses::lock_submitted(connection, &of_partials).await?;
    let is_finished =
        |row: &OutboxRow| row.is_first_of_partial() && submitted.contains(&row.subject());
    part(connection, chosen, is_finished).await
}

/// Parts what was chosen: what goes on, and what was erased.
pub(crate) async fn erased(
    connection: &mut PgConnection,
    chosen: Vec<ReservedRow>,
) -> Result<(Vec<ReservedRow>, Vec<OutboxRow>), sqlx::Error> {
    let erased = erased_of(connection, rows(&chosen).map(OutboxRow::subject)).await?;
    part(connection, chosen, |row| erased.contains(&row.subject())).await
}

/// Parts what was chosen: what goes on, and what belongs to a replay that was stopped.
pub(crate) async fn stopped(
    connection: &mut PgConnection,
    chosen: Vec<ReservedRow>,
) -> Result<(Vec<ReservedRow>, Vec<OutboxRow>), sqlx::Error> {
    let of = rows(&chosen).filter_map(|row| row.replay_id).collect();
    let stopped = replays::stopped_of(connection, &of).await?;
    let is_stopped =
        |row: &OutboxRow| row.replay_id.is_some_and(|replay_id| stopped.contains(&replay_id));
    part(connection, chosen, is_stopped).await
}

/// Takes out of the outbox what does not go on.
async fn part(
    connection: &mut PgConnection,
    chosen: Vec<ReservedRow>,
    is_gone: impl Fn(&OutboxRow) -> bool,
) -> Result<(Vec<ReservedRow>, Vec<OutboxRow>), sqlx::Error> {
    let (gone, rest): (Vec<_>, Vec<_>) = chosen.into_iter().partition(|(row, _)| is_gone(row));
    let gone: Vec<OutboxRow> = gone.into_iter().map(|(row, _)| row).collect();
    drop_rows(connection, &gone.iter().map(|row| row.delivery_id).collect::<Vec<_>>()).await?;
    Ok((rest, gone))
}

/// Which of these responses were erased. The look needs no lock: a claim and a record look again once
/// they are committed.
pub(crate) async fn erased_of(
    connection: &mut PgConnection,
    responses: impl Iterator<Item = KeySubject>,
) -> Result<HashSet<KeySubject>, sqlx::Error> {
    let responses: HashSet<(Uuid, Uuid)> =
        responses.map(|subject| (subject.firm_id, subject.subject_id)).collect();
    let responses: Vec<(Uuid, Uuid)> = responses.into_iter().collect();
    let erased = subjects::erased(connection, &responses).await?;
    let subject = |(firm_id, subject_id)| KeySubject { firm_id, subject_id };
    Ok(erased.into_iter().map(subject).collect())
}

/// Which of these responses were erased by the time a transaction about them was committed. The eraser
/// may not have seen what that transaction kept: it is dropped here.
pub(crate) async fn erased_meanwhile(
    courier: &DelivererContext,
    responses: impl Iterator<Item = KeySubject>,
) -> Result<HashSet<KeySubject>, DeliveryError> {
    let connections = courier.store.connections();
    let mut connection = connections.take().await?;
    let erased = erased_of(&mut connection, responses).await?;
    if !erased.is_empty() {
        erasure::erase(&mut connection, &erased.iter().copied().collect::<Vec<_>>()).await?;
    }
    connections.give_back(connection);
    Ok(erased)
}

fn rows(chosen: &[ReservedRow]) -> impl Iterator<Item = &OutboxRow> {
    chosen.iter().map(|(row, _)| row)
}

/// That they were cancelled, after the tries before, if there were any.
pub(crate) fn cancelled(rows: &[OutboxRow], cause: CancelCause, now: Timestamp) -> Vec<NewEvent> {
    rows.iter()
        // What is sent once more had ended before.
        .filter(|row| row.replay_id.is_none())
        .map(|row| {
            let of = row.delivery_of();
            row.next(DeliveryEvent::DeliveryCancelled { cause, of }, now)
        })
        .collect()
}
