//! `/internal/v1/firms/{firm}/hooks`: subscriptions that are gone or about to go, and why.

use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use domain::reading::{Look, Read, ReadAs};
use domain::target::shown;
use domain::time::Timestamp;
use projector::hooks::{self, HookLife};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::List;
use super::caller::Reader;
use super::path::{Firm, PathId};
use crate::commands::history::{self, History};
use crate::commands::readings;
use crate::error::Error;
use crate::service::Service;

/// How many are listed at most.
const LIMIT: i64 = 500;

/// What of the list is asked for.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Asked {
    removed: Option<bool>,
    warned: Option<bool>,
    since: Option<Timestamp>,
}

/// A subscription, in this door's shape.
#[derive(Debug, Serialize)]
pub(super) struct Hook {
    id: Uuid,
    key_id: Uuid,
    trigger: String,
    target: String,
    form_id: Option<Uuid>,
    created_at: Timestamp,
    removed_at: Option<Timestamp>,
    reason: Option<String>,
}

/// Lists those that live, those that were removed, or those that the next 410 removes.
pub(super) async fn list(
    reader: Reader,
    Firm(firm_id): Firm,
    State(service): State<Service>,
    asked: Result<Query<Asked>, QueryRejection>,
) -> Result<Json<List<Hook>>, Error> {
    let Query(asked) = asked.map_err(|_| invalid())?;
    let since = asked.since;
    let look = Look { what: Read::Hooks, how: ReadAs::Page, hook_id: None, since, until: None };
    readings::record(&service, firm_id, reader.actor(), look).await?;
    let pool = service.store.pool();
    let lives = match (asked.removed, asked.warned) {
        (Some(true), Some(true)) => return Err(invalid()),
        (Some(true), _) => {
            hooks::list_removed(pool, firm_id, since.map(Timestamp::get), LIMIT).await?
        }
        (_, Some(true)) => hooks::list_warned(pool, firm_id).await?,
        (_, _) => hooks::list_live(pool, firm_id, LIMIT).await?,
    };
    Ok(Json(List::of(lives)))
}

/// Shows what became of one, and why.
pub(super) async fn history(
    reader: Reader,
    Firm(firm_id): Firm,
    hook_id: PathId,
    State(service): State<Service>,
) -> Result<Json<History>, Error> {
    let hook_id = hook_id.or(Error::NotFound)?;
    let found = history::of_hook(&service, hook_id).await?;
    if found.firm_id != firm_id {
        return Err(Error::NotFound);
    }
    let (what, how) = (Read::Hook, ReadAs::Page);
    let look = Look { what, how, hook_id: Some(hook_id), since: None, until: None };
    readings::record(&service, firm_id, reader.actor(), look).await?;
    Ok(Json(found))
}

fn invalid() -> Error {
    Error::invalid("the query may hold removed=true with since, or warned=true")
}

impl From<HookLife> for Hook {
    fn from(life: HookLife) -> Self {
        Self {
            id: life.hook_id,
            key_id: life.key_id,
            trigger: life.trigger,
            target: shown(&life.target_url),
            form_id: life.form_id,
            created_at: life.created_at.into(),
            removed_at: life.removed_at.map(Timestamp::from),
            reason: life.removal_reason,
        }
    }
}
