//! `/internal/v1/replays`: replays of deliveries that have ended.

use std::collections::BTreeMap;
use std::str::FromStr;
use std::sync::Arc;

use axum::Json;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use domain::delivery::replay::{
    RATE_PER_SECOND_DEFAULT, ReplayCommand, ReplaySelection, ReplaySkip,
};
use domain::values::Timestamp;
use projector::replays::ReplayRow;
use serde::Serialize;
use uuid::Uuid;

use super::ListBody;
use super::caller::{Operator, Reader};
use super::path::PathParamId;
use super::query::QueryFields;
use crate::body::{self, BodyFields, BodyLimit, OptionalJsonBody, json};
use crate::commands::parse_reason;
use crate::commands::replays::{self, NewReplay, ReplayView, SelectedDeliveries};
use crate::error::Error;
use crate::queries::inventory::{self, PageRequest};
use crate::service::Service;

/// Most skipped deliveries named in an answer.
const SKIPPED_NAMED_MAX: usize = 1_000;

/// A replay that began, or the selection of a dry run.
#[derive(Debug, Serialize)]
pub(super) struct ReplayStartAnswer {
    /// Absent in a dry run.
    id: Option<Uuid>,
    /// Absent in a dry run.
    request_id: Option<Uuid>,
    selected: usize,
    skipped: Vec<SkippedDelivery>,
    /// Number of all skipped deliveries, by reason.
    skipped_counts: BTreeMap<&'static str, usize>,
    /// The first deliveries to be sent again.
    sample: Vec<Uuid>,
    /// Duration of the replay at its rate.
    seconds: u64,
}

#[derive(Debug, Serialize)]
struct SkippedDelivery {
    delivery_id: Uuid,
    why: ReplaySkip,
}

/// A replay in an answer of the internal API.
#[derive(Debug, Serialize)]
pub(super) struct ReplayBody {
    id: Uuid,
    firm_id: Uuid,
    state: String,
    reason: String,
    force: bool,
    rate_per_second: i32,
    selected: i64,
    requested_at: Timestamp,
    ended_at: Option<Timestamp>,
    /// Only where one replay is shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    outcomes: Option<BTreeMap<String, i64>>,
}

/// Lists replays, newest first, of a firm or of all.
pub(super) async fn list(
    reader: Reader,
    State(service): State<Arc<Service>>,
    mut query: QueryFields,
) -> Result<Json<ListBody<ReplayBody>>, Error> {
    let firm_id = query.id("firm_id")?;
    let page = PageRequest { after: query.id("after")?, limit: query.limit()? };
    query.refuse_unknown()?;
    let found =
        inventory::replays(&service, reader.holder().reached_firms(), firm_id, page).await?;
    Ok(Json(found.into()))
}

/// Begins a replay, or shows its selection in a dry run. A repeated request gets the first replay.
pub(super) async fn start(
    caller: Operator,
    State(service): State<Arc<Service>>,
    request: Request,
) -> Result<(StatusCode, Json<ReplayStartAnswer>), Error> {
    let (parts, body) = request.into_parts();
    let fields =
        json::parse_object(&body::read_bytes(&parts.headers, body, BodyLimit::PUBLIC).await?)?;
    let ReadOrder { new, expected, dry_run } = read_order(fields, &service)?;
    if !caller.holder().reaches(new.firm_id) {
        return Err(Error::FirmNotFound);
    }
    if dry_run {
        let selected = replays::select(&service, &new).await?;
        let shown = ReplayStartAnswer::new(&selected, new.rate_per_second);
        return Ok((StatusCode::OK, Json(shown)));
    }
    let shown = match replays::find_begun(&service, &new).await? {
        Some(first) => ReplayStartAnswer::for_repeat(&first),
        None => {
            let selected = replays::select(&service, &new).await?;
            selected.check_count(expected)?;
            let id = replays::start(&service, &new, &selected, caller.actor()).await?;
            ReplayStartAnswer {
                id: Some(id),
                ..ReplayStartAnswer::new(&selected, new.rate_per_second)
            }
        }
    };
    let shown = ReplayStartAnswer { request_id: Some(new.request_id), ..shown };
    Ok((StatusCode::ACCEPTED, Json(shown)))
}

/// Shows a replay.
pub(super) async fn show(
    caller: Operator,
    replay_id: PathParamId,
    State(service): State<Arc<Service>>,
) -> Result<Json<ReplayBody>, Error> {
    let replay_id = replay_id.id_or(Error::ReplayNotFound)?;
    Ok(Json(find_reached(&service, &caller, replay_id).await?.into()))
}

/// Pauses a replay.
pub(super) async fn pause(
    caller: Operator,
    replay_id: PathParamId,
    State(service): State<Arc<Service>>,
) -> Result<Json<ReplayBody>, Error> {
    change_replay(&service, replay_id, ReplayCommand::Pause, caller).await
}

/// Resumes a replay.
pub(super) async fn resume(
    caller: Operator,
    replay_id: PathParamId,
    State(service): State<Arc<Service>>,
) -> Result<Json<ReplayBody>, Error> {
    change_replay(&service, replay_id, ReplayCommand::Resume, caller).await
}

/// Stops a replay.
pub(super) async fn stop(
    caller: Operator,
    replay_id: PathParamId,
    State(service): State<Arc<Service>>,
    OptionalJsonBody(mut body): OptionalJsonBody,
) -> Result<Json<ReplayBody>, Error> {
    let why = body.nullable_string("reason")?;
    body.refuse_unknown()?;
    let reason = why.as_deref().map(parse_reason).transpose()?;
    change_replay(&service, replay_id, ReplayCommand::Stop { reason }, caller).await
}

async fn change_replay(
    service: &Service,
    replay_id: PathParamId,
    command: ReplayCommand,
    caller: Operator,
) -> Result<Json<ReplayBody>, Error> {
    let replay_id = replay_id.id_or(Error::ReplayNotFound)?;
    if !caller.holder().reaches_all() {
        find_reached(service, &caller, replay_id).await?;
    }
    Ok(Json(replays::change(service, replay_id, command, caller.actor()).await?.into()))
}

/// The replay. A replay of a firm that the token may not reach looks like a missing one.
async fn find_reached(
    service: &Service,
    caller: &Operator,
    replay_id: Uuid,
) -> Result<ReplayView, Error> {
    let replay = replays::show(service, replay_id).await?;
    if caller.holder().reaches(replay.row.firm_id) {
        Ok(replay)
    } else {
        Err(Error::ReplayNotFound)
    }
}

/// The order of a caller.
struct ReadOrder {
    new: NewReplay,
    /// The number of deliveries that the caller confirmed.
    expected: Option<u32>,
    dry_run: bool,
}

fn read_order(mut fields: BodyFields, service: &Service) -> Result<ReadOrder, Error> {
    let selection = ReplaySelection {
        delivery_ids: fields.ids("delivery_ids")?,
        hook_id: fields.optional_id("hook_id")?,
        trigger: parse_field(
            "trigger",
            "the key of a trigger",
            fields.nullable_string("trigger")?,
        )?,
        form_id: fields.optional_id("form_id")?,
        state: parse_field("state", "failed or delivered", fields.nullable_string("state")?)?,
        since: parse_field("since", TIME, fields.nullable_string("since")?)?,
        until: parse_field("until", TIME, fields.nullable_string("until")?)?,
    };
    let new = NewReplay {
        firm_id: fields.id("firm_id")?,
        request_id: fields.optional_id("request_id")?.unwrap_or_else(|| service.entropy.new_id()),
        selection,
        reason: fields.string("reason")?,
        force: fields.optional_bool("force")?.unwrap_or_default(),
        rate_per_second: fields
            .optional_number("rate_per_second")?
            .unwrap_or(RATE_PER_SECOND_DEFAULT),
    };
    let expected = fields.optional_number("expected")?;
    let dry_run = fields.optional_bool("dry_run")?.unwrap_or_default();
    fields.refuse_unknown()?;
    Ok(ReadOrder { new, expected, dry_run })
}

/// Form of a point in time, in an error.
const TIME: &str = "an RFC 3339 timestamp";

/// Reads a value from its text. `form` says what the value must be.
fn parse_field<T: FromStr>(
    name: &'static str,
    form: &str,
    text: Option<String>,
) -> Result<Option<T>, Error> {
    let unknown = |_| Error::invalid(format!("`{name}` must be {form}"));
    text.map(|text| text.parse().map_err(unknown)).transpose()
}

impl ReplayStartAnswer {
    fn new(selected: &SelectedDeliveries, rate_per_second: u32) -> Self {
        let named = selected.skipped.iter().take(SKIPPED_NAMED_MAX);
        let mut skipped_counts = BTreeMap::new();
        for (_, why) in &selected.skipped {
            *skipped_counts.entry(why.name()).or_default() += 1;
        }
        Self {
            id: None,
            request_id: None,
            selected: selected.delivery_ids.len(),
            skipped: named
                .map(|&(delivery_id, why)| SkippedDelivery { delivery_id, why })
                .collect(),
            skipped_counts,
            sample: selected.delivery_ids.iter().take(10).copied().collect(),
            seconds: (selected.delivery_ids.len() as u64).div_ceil(rate_per_second.into()),
        }
    }

    /// The answer to a repeated request. The skipped deliveries are not kept.
    fn for_repeat(first: &ReplayView) -> Self {
        let selected = usize::try_from(first.row.selected).unwrap_or_default();
        let rate_per_second = u64::try_from(first.row.rate_per_second).unwrap_or(1).max(1);
        Self {
            id: Some(first.row.replay_id),
            request_id: None,
            selected,
            skipped: Vec::new(),
            skipped_counts: BTreeMap::new(),
            sample: Vec::new(),
            seconds: (selected as u64).div_ceil(rate_per_second),
        }
    }
}

impl From<ReplayView> for ReplayBody {
    fn from(view: ReplayView) -> Self {
        Self { outcomes: Some(view.outcomes), ..view.row.into() }
    }
}

impl From<ReplayRow> for ReplayBody {
    fn from(row: ReplayRow) -> Self {
        Self {
            id: row.replay_id,
            firm_id: row.firm_id,
            state: row.state,
            reason: row.reason,
            force: row.force,
            rate_per_second: row.rate_per_second,
            selected: row.selected,
            requested_at: row.requested_at.into(),
            ended_at: row.ended_at.map(Timestamp::from),
            outcomes: None,
        }
    }
}
