//! What the claim finds that there is nothing to tell of any more (ruling 27): partial submissions
//! that were finished before their first try (contract, section Triggers: "stops if they finish
//! later"), and responses that were erased. They are cancelled in the claim. And what a replay queued that was
//! stopped since: it had ended before.

use std::collections::HashSet;

use domain::delivery::{CancelCause, DeliveryEvent};
use domain::time::Timestamp;
use domain::trigger::Trigger;
use eventstore::NewEvent;
use projector::{replays, subjects};
use sqlx::PgConnection;
use uuid::Uuid;
use vault::{Subject, responses};

use crate::claim::{Leased, system};

/// Parts what was leased: what goes on, and what somebody finished later. Claim and submission lock
/// the response's row, so the order of their commits decides.
pub(crate) async fn finished_later(
    connection: &mut PgConnection,
    leased: Vec<Leased>,
) -> Result<(Vec<Leased>, Vec<Leased>), sqlx::Error> {
    let of_partials: HashSet<Subject> =
        leased.iter().filter(|row| is_first_of_partial(row)).map(Leased::subject).collect();
    if of_partials.is_empty() {
        return Ok((leased, Vec::new()));
    }
    let submitted = responses::lock_submitted(connection, &of_partials).await?;
    let is_finished = |row: &Leased| is_first_of_partial(row) && submitted.contains(&row.subject());
    part(connection, leased, is_finished).await
}

/// Parts what was leased: what goes on, and what was erased.
pub(crate) async fn erased(
    connection: &mut PgConnection,
    leased: Vec<Leased>,
) -> Result<(Vec<Leased>, Vec<Leased>), sqlx::Error> {
    let erased = erased_of(connection, leased.iter().map(Leased::subject)).await?;
    part(connection, leased, |row| erased.contains(&row.subject())).await
}

/// Parts what was leased: what goes on, and what belongs to a replay that was stopped.
pub(crate) async fn stopped(
    connection: &mut PgConnection,
    leased: Vec<Leased>,
) -> Result<(Vec<Leased>, Vec<Leased>), sqlx::Error> {
    let of = leased.iter().filter_map(|row| row.replay_id).collect();
    let stopped = replays::stopped_of(connection, &of).await?;
    let is_stopped =
        |row: &Leased| row.replay_id.is_some_and(|replay_id| stopped.contains(&replay_id));
    part(connection, leased, is_stopped).await
}

/// Takes out of the outbox what does not go on.
async fn part(
    connection: &mut PgConnection,
    leased: Vec<Leased>,
    is_gone: impl Fn(&Leased) -> bool,
) -> Result<(Vec<Leased>, Vec<Leased>), sqlx::Error> {
    let (gone, rest): (Vec<_>, Vec<_>) = leased.into_iter().partition(is_gone);
    take_out(connection, &gone).await?;
    Ok((rest, gone))
}

/// Which of these responses were erased. The look needs no lock: a claim looks again once it is
/// committed, and what a record keeps is dropped by the eraser, who waits for its lanes.
pub(crate) async fn erased_of(
    connection: &mut PgConnection,
    responses: impl Iterator<Item = Subject>,
) -> Result<HashSet<Subject>, sqlx::Error> {
    let responses: HashSet<(Uuid, Uuid)> =
        responses.map(|subject| (subject.firm_id, subject.subject_id)).collect();
    let responses: Vec<(Uuid, Uuid)> = responses.into_iter().collect();
    let erased = subjects::erased(connection, &responses).await?;
    let subject = |(firm_id, subject_id)| Subject { firm_id, subject_id };
    Ok(erased.into_iter().map(subject).collect())
}

async fn take_out(connection: &mut PgConnection, rows: &[Leased]) -> Result<(), sqlx::Error> {
    drop_rows(connection, &rows.iter().map(|row| row.delivery_id).collect::<Vec<_>>()).await
}

/// Takes these out of the outbox. For none of them the planner would read all that are leased.
pub(crate) async fn drop_rows(
    connection: &mut PgConnection,
    delivery_ids: &[Uuid],
) -> Result<(), sqlx::Error> {
    if delivery_ids.is_empty() {
        return Ok(());
    }
    sqlx::query("delete from outbox where delivery_id = any($1)")
        .bind(delivery_ids)
        .execute(connection)
        .await?;
    Ok(())
}

fn is_first_of_partial(row: &Leased) -> bool {
    row.trigger == Trigger::PartialSubmission.key() && row.tries == 1 && row.step.is_none()
}

/// That they were cancelled, after the tries before, if there were any.
pub(crate) fn cancelled(rows: &[Leased], cause: CancelCause, now: Timestamp) -> Vec<NewEvent> {
    rows.iter()
        // What is sent once more had ended before.
        .filter(|row| row.replay_id.is_none())
        .map(|row| NewEvent {
            aggregate_id: row.delivery_id.to_string(),
            sequence: row.sequence + 1,
            event: DeliveryEvent::DeliveryCancelled { cause }.into(),
            context: system(row.firm_id, row.delivery_id, now),
        })
        .collect()
}
