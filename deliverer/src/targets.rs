//! Target URLs of subscriptions. A subscription's target never changes, so it is read once.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Instant;

use eventstore::{LifeNumber, RememberedRows};
use projector::hooks;
use sqlx::PgConnection;
use uuid::Uuid;

/// By subscription.
pub(crate) type TargetsByHook = HashMap<Uuid, Arc<str>>;

/// The targets that this process has read.
#[derive(Debug, Default)]
pub struct KnownTargets(RememberedRows<Uuid, Arc<str>>);

impl KnownTargets {
    /// The targets of these subscriptions.
    pub(crate) async fn read_for_hooks(
        &self,
        connection: &mut PgConnection,
        life: LifeNumber,
        mut hook_ids: HashSet<Uuid>,
    ) -> Result<TargetsByHook, sqlx::Error> {
        let now = Instant::now();
        let mut targets = self.0.get(life, now, &hook_ids);
        hook_ids.retain(|hook| !targets.contains_key(hook));
        let new: Vec<Uuid> = hook_ids.into_iter().collect();
        if !new.is_empty() {
            let read = hooks::target_urls(connection, &new).await?;
            let read: TargetsByHook =
                read.into_iter().map(|(hook, url)| (hook, url.into())).collect();
            self.0.remember(life, now, read.iter().map(|(hook, url)| (*hook, Arc::clone(url))));
            targets.extend(read);
        }
        Ok(targets)
    }
}
