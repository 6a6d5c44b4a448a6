//! `/internal/v1/firms/{firm}/hooks`: subscriptions, and why they ended or are about to end.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Request, State};
use domain::audit::AuditPeriod;
use domain::operations::{ReadAs, ReadingDetails, ReadingSubject};
use domain::subscription::shown_target;
use domain::values::Timestamp;
use projector::hooks::HookLife;
use serde::Serialize;
use uuid::Uuid;

use super::ListBody;
use super::caller::{Operator, Reader};
use super::path::{PathFirm, PathParamId};
use super::query::QueryFields;
use crate::body::{self, BodyLimit, json};
use crate::commands::hook_tests::{self, HookTest, SentTest};
use crate::commands::readings;
use crate::commands::targets::{self, TargetReveal};
use crate::error::Error;
use crate::queries::as_of::{self, HookFilter};
use crate::queries::history::{self, HookHistory};
use crate::queries::listing::{self, HookListQuery};
use crate::service::Service;

/// A subscription in an answer of the internal API.
#[derive(Debug, Serialize)]
pub(super) struct HookLifeBody {
    id: Uuid,
    key_id: Uuid,
    trigger: String,
    target: String,
    form_id: Option<Uuid>,
    created_at: Timestamp,
    removed_at: Option<Timestamp>,
    reason: Option<String>,
}

/// Sends a sample to the target of a subscription, and shows the answer.
pub(super) async fn test(
    caller: Operator,
    PathFirm(firm_id): PathFirm,
    hook_id: PathParamId,
    State(service): State<Arc<Service>>,
    request: Request,
) -> Result<Json<SentTest>, Error> {
    let hook_id = hook_id.id_or(Error::NotFound)?;
    let (parts, body) = request.into_parts();
    let mut fields =
        json::parse_object(&body::read_bytes(&parts.headers, body, BodyLimit::PUBLIC).await?)?;
    let reason = fields.string("reason")?;
    fields.refuse_unknown()?;
    let order = HookTest { firm_id, hook_id, actor: caller.actor(), reason: &reason };
    Ok(Json(hook_tests::send(&service, order).await?))
}

/// Lists live subscriptions, removed ones, or those that the next 410 removes; as they are or as
/// they were.
pub(super) async fn list(
    reader: Reader,
    PathFirm(firm_id): PathFirm,
    State(service): State<Arc<Service>>,
    mut query: QueryFields,
) -> Result<Json<ListBody<HookLifeBody>>, Error> {
    let removed = query.bool("removed")?;
    let warned = query.bool("warned")?;
    let period = query.period()?;
    let after = query.id("after")?;
    let limit = query.limit()?;
    let as_of = query.text("as_of");
    query.refuse_unknown()?;
    let which = match (removed, warned) {
        (Some(true), Some(true)) => {
            return Err(Error::invalid("`removed` and `warned` cannot both be true"));
        }
        (Some(true), _) => HookFilter::Removed(period),
        (_, Some(true)) => HookFilter::Warned,
        (_, _) => HookFilter::Live,
    };
    let as_of = match as_of {
        Some(text) => Some(as_of::read(&service, &text).await?),
        None => None,
    };
    let AuditPeriod { since, until } = period;
    let look =
        ReadingDetails { since, until, ..ReadingDetails::at(ReadingSubject::Hooks, ReadAs::Page) };
    readings::record(&service, firm_id, reader.actor(), look).await?;
    let wanted = HookListQuery { which, as_of, after, limit };
    let page = listing::hooks(&service, firm_id, wanted).await?;
    let next = page.next.map(|id| id.to_string());
    Ok(Json(ListBody::page(page.rows.into_iter().map(HookLifeBody::from).collect(), next)))
}

/// Shows a subscription's life and the reason of its end.
pub(super) async fn history(
    reader: Reader,
    PathFirm(firm_id): PathFirm,
    hook_id: PathParamId,
    State(service): State<Arc<Service>>,
    mut query: QueryFields,
) -> Result<Json<HookHistory>, Error> {
    let as_of = query.text("as_of");
    // The reason why an operator asks for the whole target.
    let show_target = query.text("show_target");
    query.refuse_unknown()?;
    reader.check_reveal(show_target.as_deref())?;
    let as_of = match as_of {
        Some(text) => Some(as_of::read(&service, &text).await?),
        None => None,
    };
    let hook_id = hook_id.id_or(Error::NotFound)?;
    let mut found = history::of_hook(&service, hook_id, as_of).await?;
    if found.firm_id != firm_id {
        return Err(Error::NotFound);
    }
    let look = ReadingDetails {
        hook_id: Some(hook_id),
        ..ReadingDetails::at(ReadingSubject::Hook, ReadAs::Page)
    };
    readings::record(&service, firm_id, reader.actor(), look).await?;
    if let Some(reason) = &show_target {
        let reveal = TargetReveal { firm_id, actor: reader.actor(), reason };
        found.show_target(targets::of_hook(&service, reveal, hook_id).await?);
    }
    Ok(Json(found))
}

impl From<HookLife> for HookLifeBody {
    fn from(life: HookLife) -> Self {
        Self {
            id: life.hook_id,
            key_id: life.key_id,
            trigger: life.trigger,
            target: shown_target(&life.target_url),
            form_id: life.form_id,
            created_at: life.created_at.into(),
            removed_at: life.removed_at.map(Timestamp::from),
            reason: life.removal_reason,
        }
    }
}
