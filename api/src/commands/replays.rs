//! Replays: operators begin, show, pause, resume and stop them (ruling 31).

use std::collections::{BTreeMap, BTreeSet, HashSet};

use domain::delivery::DeliveryState;
use domain::delivery::replay::{
    RATE_PER_SECOND_MAX, Replay, ReplayCommand, ReplayEvent, ReplayOrder, ReplayRejection,
    ReplaySelection, ReplaySkip, forced_skip_reason, skip_reason,
};
use domain::event::{Actor, EventContext};
use eventstore::{AppendError, CommandError, NewEvent, retry_conflicts};
use projector::replays::{self, ReplayRow, ReplayableRow};
use projector::{firms, replay_requests};
use uuid::Uuid;
use vault::bodies;

use crate::error::Error;
use crate::service::Service;

/// Most deliveries of one replay.
const SELECTED_MAX: i64 = 1_000_000;

/// Items written in one transaction.
const ITEMS_PER_TRANSACTION: usize = 10_000;

/// A requested replay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewReplay {
    /// The firm.
    pub firm_id: Uuid,
    /// Id chosen by the caller. A repeated request begins no second replay.
    pub request_id: Uuid,
    /// Selection among the firm's deliveries. By default it selects failed ones.
    pub selection: ReplaySelection,
    /// The operator's reason.
    pub reason: String,
    /// Whether delivered ones are sent again, too.
    pub force: bool,
    /// Deliveries per second.
    pub rate_per_second: u32,
}

/// Deliveries that a replay sends again, and deliveries that it skips.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SelectedDeliveries {
    /// Deliveries to send again, oldest first.
    pub delivery_ids: Vec<Uuid>,
    /// Skipped deliveries, with the reason.
    pub skipped: Vec<(Uuid, ReplaySkip)>,
}

impl SelectedDeliveries {
    /// Refuses a selection of another number than the caller confirmed, if there was one.
    ///
    /// # Errors
    /// `selection_changed`.
    pub fn check_count(&self, expected: Option<u32>) -> Result<(), Error> {
        let selected = self.delivery_ids.len();
        match expected {
            Some(expected) if usize::try_from(expected) != Ok(selected) => {
                Err(Error::SelectionChanged { selected, expected })
            }
            Some(_) | None => Ok(()),
        }
    }
}

/// A replay with the outcomes of its deliveries so far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplayView {
    /// The replay.
    pub row: ReplayRow,
    /// Number of deliveries by outcome.
    pub outcomes: BTreeMap<String, i64>,
}

/// Selects the deliveries that a replay would send again.
///
/// # Errors
/// `invalid_request`, `firm_not_found`.
pub async fn select(service: &Service, new: &NewReplay) -> Result<SelectedDeliveries, Error> {
    check_order(new)?;
    let pool = service.store.pool();
    firms::is_active(pool, new.firm_id).await?.ok_or(Error::FirmNotFound)?;
    let mut selected = SelectedDeliveries::default();
    let found =
        replays::list_selected(pool, new.firm_id, &effective_selection(new), SELECTED_MAX + 1)
            .await?;
    if i64::try_from(found.len()).is_ok_and(|count| count > SELECTED_MAX) {
        return Err(Error::invalid(
            "this selects more than 1000000 deliveries: ask for fewer, by since and until",
        ));
    }
    let kept = kept_bodies(service, &found).await?;
    let mut named: BTreeSet<Uuid> = new.selection.delivery_ids.iter().copied().collect();
    for one in found {
        named.remove(&one.delivery_id);
        let standing = one.replay_conditions(&kept);
        let skip = if new.force { forced_skip_reason(standing) } else { skip_reason(standing) };
        match skip {
            None => selected.delivery_ids.push(one.delivery_id),
            Some(why) => selected.skipped.push((one.delivery_id, why)),
        }
    }
    selected.skipped.extend(named.into_iter().map(|id| (id, ReplaySkip::NotSelected)));
    Ok(selected)
}

/// Bodies that one statement asks for.
const BODIES_PER_QUESTION: usize = 10_000;

/// The sent bodies of these deliveries that the vault keeps.
async fn kept_bodies(service: &Service, found: &[ReplayableRow]) -> Result<HashSet<Uuid>, Error> {
    let sent: Vec<Uuid> = found.iter().filter_map(|one| one.body_id).collect();
    let mut connection = service.store.pool().acquire().await?;
    let mut kept = HashSet::new();
    for some in sent.chunks(BODIES_PER_QUESTION) {
        kept.extend(bodies::kept_among(&mut connection, some).await?);
    }
    Ok(kept)
}

/// The replay that began for this request, if one did (case G8).
pub async fn find_begun(service: &Service, new: &NewReplay) -> Result<Option<ReplayView>, Error> {
    match replay_requests::find(service.store.pool(), new.firm_id, new.request_id).await? {
        Some(replay_id) => show(service, replay_id).await.map(Some),
        None => Ok(None),
    }
}

/// Begins a replay of the selected deliveries, and answers its id. A repeated request gets the id
/// of the first. The list of items is written first, because a delivery outside the list is never
/// sent.
pub async fn start(
    service: &Service,
    new: &NewReplay,
    selected: &SelectedDeliveries,
    actor: Actor,
) -> Result<Uuid, Error> {
    let replay_id = service.entropy.new_id();
    let mut place = 1;
    for chunk in selected.delivery_ids.chunks(ITEMS_PER_TRANSACTION) {
        replays::put_items(service.store.pool(), replay_id, place, chunk).await?;
        place += i64::try_from(chunk.len()).unwrap_or(i64::MAX);
    }
    let order = ReplayOrder {
        selection: effective_selection(new),
        reason: new.reason.trim().to_owned(),
        force: new.force,
        rate_per_second: new.rate_per_second,
        selected: selected.delivery_ids.len() as u64,
    };
    let context = service.context(new.firm_id, actor);
    let seed = context.correlation_id;
    let requested =
        retry_conflicts(seed, || append_order(service, new, &context, replay_id, &order));
    Ok(requested.await?)
}

/// Appends the order, unless a replay began for the request before.
async fn append_order(
    service: &Service,
    new: &NewReplay,
    context: &EventContext,
    replay_id: Uuid,
    order: &ReplayOrder,
) -> Result<Uuid, AppendError> {
    let mut appending = service.store.begin().await?;
    let connection = appending.connection();
    if !replay_requests::insert(connection, new.firm_id, new.request_id, replay_id).await? {
        let first = replay_requests::find(connection, new.firm_id, new.request_id).await?;
        appending.rollback().await?;
        return first.ok_or(AppendError::Conflict);
    }
    let ordered = [ReplayEvent::ReplayRequested(order.clone())];
    appending.append(NewEvent::number_after(0, &replay_id.to_string(), context, ordered)).await?;
    appending.commit().await?;
    Ok(replay_id)
}

/// Pauses, resumes or stops a replay.
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
    execute_command(service, replay_id, row.firm_id, actor, command).await?;
    show(service, replay_id).await
}

/// Shows a replay.
///
/// # Errors
/// `replay_not_found`.
pub async fn show(service: &Service, replay_id: Uuid) -> Result<ReplayView, Error> {
    let pool = service.store.pool();
    let row = replays::find(pool, replay_id).await?.ok_or(Error::ReplayNotFound)?;
    let outcomes = replays::count_outcomes(pool, replay_id).await?.into_iter().collect();
    Ok(ReplayView { row, outcomes })
}

async fn execute_command(
    service: &Service,
    replay_id: Uuid,
    firm_id: Uuid,
    actor: Actor,
    command: ReplayCommand,
) -> Result<(), Error> {
    let context = service.context(firm_id, actor);
    service
        .store
        .execute::<Replay>(&replay_id.to_string(), command, &context)
        .await
        .map_err(rejection_error)
}

fn rejection_error(error: CommandError<ReplayRejection>) -> Error {
    match error {
        CommandError::Rejected(ReplayRejection::Unknown) => Error::ReplayNotFound,
        CommandError::Rejected(ReplayRejection::Ended) => Error::ReplayEnded,
        CommandError::Append(error) => error.into(),
    }
}

/// The selection with its default: failed deliveries.
fn effective_selection(new: &NewReplay) -> ReplaySelection {
    let mut selection = new.selection.clone();
    if selection.state.is_none() && selection.delivery_ids.is_empty() && !new.force {
        selection.state = Some(DeliveryState::Failed);
    }
    selection
}

fn check_order(new: &NewReplay) -> Result<(), Error> {
    super::parse_reason(&new.reason)?;
    if !(1..=RATE_PER_SECOND_MAX).contains(&new.rate_per_second) {
        return Err(Error::invalid("`rate_per_second` must be a whole number from 1 to 5000"));
    }
    Ok(())
}
