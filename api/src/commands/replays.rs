//! Replays: asked for, looked at, held, ended (ruling 31).

use std::collections::{BTreeMap, BTreeSet};

use domain::context::Actor;
use domain::delivery::DeliveryState;
use domain::replay::{
    RATE_PER_SECOND_MAX, Replay, ReplayCommand, ReplayOrder, ReplayRejection, ReplaySelection,
    ReplaySkip, forced_skip_reason, skip_reason,
};
use eventstore::CommandError;
use projector::firms;
use projector::replays::{self, ReplayRow};
use uuid::Uuid;

use crate::error::Error;
use crate::service::Service;

/// Deliveries of one replay at most.
const SELECTED_MAX: i64 = 1_000_000;

/// Items written in one transaction.
const ITEMS_PER_TRANSACTION: usize = 10_000;

/// A replay as it is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewReplay {
    /// The firm.
    pub firm_id: Uuid,
    /// Which of its deliveries; those that failed, unless it is said.
    pub selection: ReplaySelection,
    /// Why.
    pub reason: String,
    /// Those that were delivered too.
    pub force: bool,
    /// How many a second.
    pub rate_per_second: u32,
}

/// What a replay sends again, and what not.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SelectedDeliveries {
    /// What is sent again, oldest first.
    pub delivery_ids: Vec<Uuid>,
    /// What is not, and why.
    pub skipped: Vec<(Uuid, ReplaySkip)>,
}

/// A replay, and what came of its deliveries so far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplayView {
    /// It.
    pub row: ReplayRow,
    /// How many came to what.
    pub outcomes: BTreeMap<String, i64>,
}

/// Says what a replay would send again.
///
/// # Errors
/// `invalid_request`, `firm_not_found`.
pub async fn select(service: &Service, new: &NewReplay) -> Result<SelectedDeliveries, Error> {
    check(new)?;
    let pool = service.store.pool();
    firms::is_active(pool, new.firm_id).await?.ok_or(Error::FirmNotFound)?;
    let mut selected = SelectedDeliveries::default();
    let found = replays::selected(pool, new.firm_id, &wanted(new), SELECTED_MAX + 1).await?;
    if i64::try_from(found.len()).is_ok_and(|count| count > SELECTED_MAX) {
        return Err(Error::invalid(
            "this selects more than 1000000 deliveries: ask for fewer, by since and until",
        ));
    }
    let mut named: BTreeSet<Uuid> = new.selection.delivery_ids.iter().copied().collect();
    for one in found {
        named.remove(&one.delivery_id);
        let standing = one.standing();
        let skip = if new.force { forced_skip_reason(standing) } else { skip_reason(standing) };
        match skip {
            None => selected.delivery_ids.push(one.delivery_id),
            Some(why) => selected.skipped.push((one.delivery_id, why)),
        }
    }
    selected.skipped.extend(named.into_iter().map(|id| (id, ReplaySkip::NotSelected)));
    Ok(selected)
}

/// Begins a replay of what was selected. Its list is written first: what is in no replay is never
/// sent.
///
/// # Errors
/// None but the database's.
pub async fn start(
    service: &Service,
    new: &NewReplay,
    selected: &SelectedDeliveries,
    actor: Actor,
) -> Result<Uuid, Error> {
    let replay_id = service.entropy.id();
    let mut place = 1;
    for chunk in selected.delivery_ids.chunks(ITEMS_PER_TRANSACTION) {
        replays::put_items(service.store.pool(), replay_id, place, chunk).await?;
        place += i64::try_from(chunk.len()).unwrap_or(i64::MAX);
    }
    let order = ReplayOrder {
        selection: wanted(new),
        reason: new.reason.trim().to_owned(),
        force: new.force,
        rate_per_second: new.rate_per_second,
        selected: selected.delivery_ids.len() as u64,
    };
    execute(service, replay_id, (new.firm_id, actor), ReplayCommand::Request(order)).await?;
    Ok(replay_id)
}

/// Holds, goes on with or ends a replay.
///
/// # Errors
/// `replay_not_found`; `replay_ended`.
pub async fn change(
    service: &Service,
    replay_id: Uuid,
    command: ReplayCommand,
    actor: Actor,
) -> Result<ReplayView, Error> {
    let row = replays::find(service.store.pool(), replay_id).await?.ok_or(Error::ReplayNotFound)?;
    execute(service, replay_id, (row.firm_id, actor), command).await?;
    show(service, replay_id).await
}

/// Shows a replay.
///
/// # Errors
/// `replay_not_found`.
pub async fn show(service: &Service, replay_id: Uuid) -> Result<ReplayView, Error> {
    let pool = service.store.pool();
    let row = replays::find(pool, replay_id).await?.ok_or(Error::ReplayNotFound)?;
    let outcomes = replays::outcomes(pool, replay_id).await?.into_iter().collect();
    Ok(ReplayView { row, outcomes })
}

async fn execute(
    service: &Service,
    replay_id: Uuid,
    (firm_id, actor): (Uuid, Actor),
    command: ReplayCommand,
) -> Result<(), Error> {
    let context = service.context(firm_id, actor);
    service
        .store
        .execute::<Replay>(&replay_id.to_string(), command, &context)
        .await
        .map_err(refused)
}

fn refused(error: CommandError<ReplayRejection>) -> Error {
    match error {
        CommandError::Rejected(ReplayRejection::Unknown) => Error::ReplayNotFound,
        CommandError::Rejected(ReplayRejection::Ended) => Error::ReplayEnded,
        CommandError::Append(error) => error.into(),
    }
}

/// Those that failed, unless it is said which.
fn wanted(new: &NewReplay) -> ReplaySelection {
    let mut selection = new.selection.clone();
    if selection.state.is_none() && selection.delivery_ids.is_empty() && !new.force {
        selection.state = Some(DeliveryState::Failed);
    }
    selection
}

fn check(new: &NewReplay) -> Result<(), Error> {
    super::reason(&new.reason)?;
    if !(1..=RATE_PER_SECOND_MAX).contains(&new.rate_per_second) {
        return Err(Error::invalid("`rate_per_second` must be a whole number from 1 to 5000"));
    }
    Ok(())
}
