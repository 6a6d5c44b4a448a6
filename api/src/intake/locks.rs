//! What a batch locks before it is decided, each kind in the order of its ids.

use std::collections::BTreeSet;

use eventstore::AppendError;
use projector::subjects::{self, SubjectId, SubjectRow};
use projector::{firms, forms, hooks, keys, members};
use sqlx::PgConnection;

use super::batch::{Changing, Named};
use super::consequences::Condemned;
use super::plan::Plan;

/// Locks what is reported of and the responses that its parts belong to, all in one order.
pub(super) async fn lock_subjects(
    connection: &mut PgConnection,
    reported_of: BTreeSet<SubjectId>,
    parts: &BTreeSet<SubjectId>,
) -> Result<Vec<SubjectRow>, AppendError> {
    let mut ids = subjects::responses_of(connection, parts).await?;
    ids.extend(reported_of);
    let rows = subjects::lock(connection, &ids).await?;
    let is_locked = |row: &SubjectRow| {
        row.response_id.is_none_or(|response_id| ids.contains(&(row.firm_id, response_id)))
    };
    // Another batch told whose it is between the look and the lock.
    if rows.iter().all(is_locked) { Ok(rows) } else { Err(AppendError::Conflict) }
}

/// Those of them that are there, be they closed or deleted by now.
pub(super) async fn there(
    connection: &mut PgConnection,
    named: Named,
) -> Result<Named, sqlx::Error> {
    let (firm_ids, pairs): (Vec<_>, Vec<_>) =
        (named.firms.into_iter().collect(), named.forms.into_iter().collect());
    Ok(Named {
        firms: firms::known(connection, &firm_ids).await?.into_iter().collect(),
        forms: forms::known(connection, &pairs).await?.into_iter().collect(),
    })
}

/// In the order of locks: firms, then members.
pub(super) async fn lock(
    connection: &mut PgConnection,
    changing: Changing,
) -> Result<(), sqlx::Error> {
    if !changing.firms.is_empty() {
        firms::lock(connection, &changing.firms.into_iter().collect::<Vec<_>>()).await?;
    }
    if !changing.members.is_empty() {
        members::lock(connection, &changing.members.into_iter().collect::<Vec<_>>()).await?;
    }
    Ok(())
}

/// Locks the keys that must go, then lists what goes with them: nothing can be added in between.
pub(super) async fn condemned(
    connection: &mut PgConnection,
    plan: &Plan,
) -> Result<Condemned, sqlx::Error> {
    let mut condemned = Condemned::default();
    if !plan.unmanaging.is_empty() {
        let members: Vec<_> = plan.unmanaging.keys().copied().collect();
        condemned.keys = keys::lock_active_of(connection, &members).await?;
    }
    if !condemned.keys.is_empty() {
        let key_ids: Vec<_> = condemned.keys.iter().map(|key| key.key_id).collect();
        condemned.hooks_of_keys = hooks::live_of_keys(connection, &key_ids).await?;
    }
    if !plan.closed.is_empty() {
        let firm_ids: Vec<_> = plan.closed.keys().copied().collect();
        condemned.hooks_of_firms = hooks::live_of_firms(connection, &firm_ids).await?;
    }
    Ok(condemned)
}
